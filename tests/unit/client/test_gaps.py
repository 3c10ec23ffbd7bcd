"""Gaps: what a session may have missed with a broker that is lost, and when that is over."""

from __future__ import annotations

import pytest

from runnel.client.effects import Gap, Moved, Ready, Unconfirmed
from runnel.client.gaps import ASK_AGAIN_NS_MIN, BROKER_LOST, UNREACHED
from runnel.client.session import Session
from runnel.errors import InputError
from runnel.language import parse
from runnel.quantities import SECOND
from runnel.wire import Fence, Loss
from support.harness import StepNetwork

NOW = 500_000 * SECOND
LOST_NS = 15 * SECOND


def chain(count: int) -> StepNetwork:
    net = StepNetwork(now=NOW)
    for number in range(count, 0, -1):
        start(net, number, count)
    net.settle()
    return net


def start(net: StepNetwork, number: int, count: int) -> None:
    dials = (f"B{number + 1}",) if number < count else ()
    net.broker(f"B{number}", *dials, accepts=(f"B{number - 1}",) if number > 1 else ())


def found(net: StepNetwork, client: str = "s") -> list[tuple[str, bool]]:
    return [(gap.link, gap.is_open) for gap in net.effects(client, Gap)]


def publish(net: StepNetwork, value: int) -> None:
    (id,) = net.nodes["p"].publishers
    net.nodes["p"].publish(id, {"a": value}, time_ns=net.now)


def restart_behind_a_slow_link(net: StepNetwork) -> None:
    """B1 is back and linked to B2, which answers no barriers until it is released."""
    net.unreachable["B1"] = None
    start(net, 1, 2)
    net.settle()
    net.advance(SECOND)
    net.hold("B2", "B1")
    net.unreachable.clear()
    net.advance(SECOND)


def fail_over(net: StepNetwork, session: Session, broker: str) -> None:
    session.connect(broker, net.now)
    net.settle()


# -- the own broker -------------------------------------------------------------------------------------


def test_the_first_connection_is_no_gap() -> None:
    net = chain(2)
    session, _ = net.subscriber("s", "B1", "a > 0")
    net.advance(5 * SECOND)
    assert found(net) == []
    assert session.gaps.open == {}


def test_a_broker_without_memory_is_a_gap_from_the_watermark_on() -> None:
    net = chain(2)
    net.publisher("p", "B2", "a > 0")
    session, _ = net.subscriber("s", "B1", "a > 0")
    net.advance(10 * SECOND)
    home = session.home
    assert home is not None
    watermark_ns = home.link.watermark_ns
    assert net.now - 3 * SECOND <= watermark_ns <= net.now
    net.crash("B1")
    net.settle()
    published_at = net.now
    publish(net, 1)  # nobody gets it
    net.advance(5 * SECOND)
    assert found(net) == []  # it may come back and know us
    start(net, 1, 2)
    net.advance(2 * SECOND)
    begun, over = net.effects("s", Gap)
    assert (begun.link, begun.reason, begun.since_ns) == ("s–B1", BROKER_LOST, watermark_ns)
    assert begun.since_ns <= published_at <= over.until_ns <= net.now
    assert session.gaps.open == {}
    publish(net, 2)
    net.settle()
    assert net.delivered("s") == [2]


def test_a_blip_is_no_gap() -> None:
    net = chain(2)
    net.publisher("p", "B2", "a > 0")
    net.subscriber("s", "B1", "a > 0")
    net.cut("s", "B1")
    publish(net, 1)
    net.advance(3 * SECOND)
    assert net.delivered("s") == [1]
    assert found(net) == []


def test_without_a_watermark_it_begins_when_the_broker_was_told_the_subscriptions() -> None:
    net = chain(2)
    net.hold("B2", "B1")  # B1 knows of nothing behind, and promises nothing
    net.subscriber("s", "B1", "a > 0")
    registered_at = net.now
    net.advance(SECOND)
    net.crash("B1")
    net._held.clear()
    net.advance(SECOND)
    start(net, 1, 2)
    net.advance(2 * SECOND)
    assert net.effects("s", Gap)[0].since_ns <= registered_at


def test_it_is_over_when_a_barrier_behind_the_subscriptions_is_back_and_not_before() -> None:
    net = chain(2)
    net.publisher("p", "B2", "a > 0")
    session, _ = net.subscriber("s", "B1", "a > 0")
    net.crash("B1")
    net.advance(SECOND)
    restart_behind_a_slow_link(net)
    assert list(session.gaps.open) == ["s–B1"]
    net.release("B2", "B1")
    net.advance(3 * SECOND)
    assert session.gaps.open == {}


# -- another broker -------------------------------------------------------------------------------------


def test_a_failover_is_a_gap_at_the_link_that_was_lost() -> None:
    net = chain(3)
    net.publisher("p", "B3", "a > 0")
    session, _ = net.subscriber("s", "B1", "a > 0")
    net.advance(5 * SECOND)
    home = session.home
    assert home is not None
    since_ns = home.link.watermark_ns
    net.unreachable["B1"] = None
    net.cut("s", "B1")
    net.advance(SECOND)
    fail_over(net, session, "B2")
    assert found(net) == [("s–B1", True), ("s–B1", False)]
    assert net.effects("s", Gap)[0].since_ns == since_ns
    publish(net, 1)
    net.settle()
    assert net.delivered("s") == [1]


def test_a_failover_from_a_broker_that_never_knew_us_is_none() -> None:
    net = chain(2)
    session = net.session("s")
    session.subscribe(parse("a > 0"))
    fail_over(net, session, "nowhere")
    fail_over(net, session, "B2")
    assert found(net) == []


def test_a_second_failover_keeps_the_gap_of_the_first_and_its_beginning() -> None:
    net = chain(3)
    session, _ = net.subscriber("s", "B1", "a > 0")
    net.advance(5 * SECOND)
    home = session.home
    assert home is not None
    since_ns = home.link.watermark_ns
    net.cut("s", "B1")
    fail_over(net, session, "nowhere")
    net.advance(4 * SECOND)
    assert found(net) == [("s–B1", True)]
    fail_over(net, session, "B3")
    assert found(net)[1:] == [("s–B1", False)]
    home = session.home
    assert home is not None
    assert home.registered_ns == since_ns
    net.crash("B3")  # before it has promised anything
    fail_over(net, session, "B2")
    assert net.effects("s", Gap)[2].since_ns <= max(since_ns, home.link.watermark_ns)


def test_where_the_lost_broker_is_missing_the_gap_goes_on_until_it_is_back() -> None:
    net = chain(3)
    net.publisher("p", "B3", "a > 0")
    session, _ = net.subscriber("s", "B2", "a > 0")
    net.advance(5 * SECOND)
    net.crash("B2")
    net.advance(3 * SECOND)
    fail_over(net, session, "B1")
    assert ("B1–B2", True) in found(net)
    begun = {gap.link: gap for gap in net.effects("s", Gap) if gap.is_open}
    assert begun["B1–B2"].reason == UNREACHED
    assert begun["B1–B2"].since_ns == begun["s–B2"].since_ns
    assert list(session.gaps.open) == ["B1–B2"]
    net.advance(LOST_NS)
    assert list(session.gaps.open) == ["B1–B2"]
    start(net, 2, 3)
    net.advance(35 * SECOND)  # it asks more and more rarely
    assert session.gaps.open == {}
    publish(net, 1)
    net.settle()
    assert net.delivered("s") == [1]


def test_it_asks_again_with_longer_pauses() -> None:
    net = chain(2)
    session, _ = net.subscriber("s", "B2", "a > 0")
    net.crash("B2")
    net.advance(3 * SECOND)
    fail_over(net, session, "B1")
    net.forget_sent()
    net.advance(2 * ASK_AGAIN_NS_MIN)
    early = len(net.of_kind("B1", "s", Fence))
    net.advance(60 * SECOND)
    assert 1 <= early <= 2
    assert early + 3 <= len(net.of_kind("B1", "s", Fence)) <= early + 7


# -- moves ----------------------------------------------------------------------------------------------


def test_a_move_in_a_network_that_is_whole_is_no_gap() -> None:
    net = chain(3)
    net.publisher("p", "B3", "a > 0")
    session, _ = net.subscriber("s", "B1", "a > 0")
    session.move_to("B2", net.now)
    net.settle()
    assert net.effects("s", Moved)
    assert found(net) == []


def test_a_move_to_a_part_from_which_a_link_is_missing_says_so() -> None:
    net = chain(4)
    net.publisher("p", "B1", "a > 0")
    session, _ = net.subscriber("s", "B2", "a > 0")
    session.advertise("s", parse("b > 0"))  # so that it waits for what the new home says
    net.advance(5 * SECOND)
    home = session.home
    assert home is not None
    since_ns = home.link.watermark_ns
    net.crash("B3")
    net.advance(LOST_NS)
    session.move_to("B4", net.now)
    net.advance(3 * SECOND)
    assert session.home is not None
    assert session.home.broker == "B4"
    gap = next(gap for gap in net.effects("s", Gap) if gap.link == "B3–B4")
    assert gap.is_open
    assert gap.since_ns >= since_ns
    start(net, 3, 4)
    net.advance(35 * SECOND)
    assert session.gaps.open == {}


def test_a_gap_that_was_told_is_told_to_be_over_after_a_move() -> None:
    net = chain(4)
    net.publisher("p", "B1", "a > 0")
    session, _ = net.subscriber("s", "B3", "a > 0")
    net.crash("B2")
    net.advance(LOST_NS)
    assert list(session.gaps.open) == ["B2–B3"]
    session.move_to("B4", net.now)
    net.advance(SECOND)
    assert list(session.gaps.open) == ["B2–B3"]
    start(net, 2, 4)
    net.advance(35 * SECOND)
    assert session.gaps.open == {}
    assert found(net) == [("B2–B3", True), ("B2–B3", False)]


def test_a_told_gap_survives_the_memory_of_the_broker_that_told_it() -> None:
    net = chain(4)
    net.publisher("p", "B1", "a > 0")
    session, _ = net.subscriber("s", "B4", "a > 0")
    net.crash("B2")
    net.advance(LOST_NS)
    net.crash("B4")
    net.advance(SECOND)
    start(net, 4, 4)
    net.advance(5 * SECOND)
    assert "B2–B3" in session.gaps.open
    start(net, 2, 4)
    net.advance(35 * SECOND)
    assert session.gaps.open == {}


def test_an_earlier_beginning_is_news_and_a_later_one_is_not() -> None:
    net = chain(1)
    session, _ = net.subscriber("s", "B1", "a > 0")
    assert session.home is not None
    for since_ns in (50, 60, 40):
        loss = Loss("B2–B3", since_ns, 0, "lost", to="subscriber")
        session.gaps.take_loss(session.home, loss)
    effects = session.flush(net.now)
    assert [effect.since_ns for effect in effects if isinstance(effect, Gap)] == [50, 40]


# -- publishing -----------------------------------------------------------------------------------------


def test_publishing_waits_at_a_broker_without_memory_until_the_barrier_is_back() -> None:
    net = chain(2)
    session, id = net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B2", "a > 0")
    net.crash("B1")
    net.advance(SECOND)
    restart_behind_a_slow_link(net)
    home = session.home
    assert home is not None
    assert home.registered
    assert session.credit == 0
    assert not session.may_publish(id)
    with pytest.raises(InputError, match="no credit"):
        publish(net, 1)
    net.release("B2", "B1")
    net.advance(3 * SECOND)
    publish(net, 2)
    net.settle()
    assert net.delivered("s") == [2]


def test_publishing_does_not_wait_for_links_that_are_missing() -> None:
    net = chain(2)
    session, _ = net.publisher("p", "B2", "a > 0")
    net.subscriber("s", "B1", "a > 0")
    net.crash("B2")
    net.advance(3 * SECOND)
    fail_over(net, session, "B1")
    assert list(session.gaps.open) == ["B1–B2"]
    publish(net, 1)
    net.settle()
    assert net.delivered("s") == [1]


def test_a_pause_goes_on_at_the_home_that_takes_the_place() -> None:
    net = chain(2)
    session, _ = net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B2", "a > 0")
    net.crash("B1")
    net.advance(SECOND)
    restart_behind_a_slow_link(net)
    assert session.credit == 0
    fail_over(net, session, "B2")
    assert session.credit == 0
    net.release("B2", "B1")
    net.settle()
    publish(net, 1)
    net.settle()
    assert net.delivered("s") == [1]
    assert not net.effects("p", Unconfirmed)


def test_readiness_that_was_asked_for_is_not_mistaken_for_the_end_of_a_gap() -> None:
    net = chain(2)
    session, id = net.subscriber("s", "B2", "a > 0")
    net.crash("B2")
    net.advance(3 * SECOND)
    fail_over(net, session, "B1")
    session.ready(id)
    net.settle()
    assert net.effects("s", Ready)[-1].missing == ("B1–B2",)
    assert list(session.gaps.open) == ["B1–B2"]
