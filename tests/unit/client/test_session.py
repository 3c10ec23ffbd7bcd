"""The session: each delivery once and in order, what is confirmed, coming back, moving, credit."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.effects import Connect
from runnel.broker.events import Connected, FramesArrived, TimerFired
from runnel.broker.ids import IdSource
from runnel.broker.links import LinkConfig
from runnel.client.config import SessionConfig
from runnel.client.effects import (
    Confirmed,
    Deliver,
    Dismissed,
    HomeDown,
    HomeUp,
    MissedSome,
    Moved,
    Ready,
    SelectionRefused,
    Unconfirmed,
)
from runnel.client.move import Move
from runnel.client.session import Session
from runnel.errors import InputError
from runnel.language import Filter, Op, Predicate, parse
from runnel.quantities import SECOND
from runnel.wire import (
    PROTOCOL,
    Advertise,
    Bye,
    Fence,
    Hello,
    Refused,
    Subscribe,
    encode,
    make_publication,
)
from support.harness import StepNetwork


def publish_step_by_step(net: StepNetwork, publisher: Session, id: int, count: int) -> None:
    """Publish 1 to `count` while everything else goes on, a step of the network in between."""
    net.flush()
    value, going = 0, True
    while going:
        if publisher.credit and value < count:
            value += 1
            publisher.publish(id, {"a": value})
            net.flush()
        going = net.step()
    net.settle()


def network(*names: str) -> StepNetwork:
    """A chain of brokers."""
    net = StepNetwork()
    for name, dials in reversed(list(zip(names, [*names[1:], ""], strict=True))):
        net.broker(name, *([dials] if dials else []))
    net.settle()
    return net


@pytest.fixture
def net() -> StepNetwork:
    return network("B1", "B2", "B3")


def counts(net: StepNetwork, name: str, kind: type) -> int:
    told: list[Any] = net.effects(name, kind)
    return sum(effect.count for effect in told)


# -- by itself, with bytes for a broker ----------------------------------------------------------------


class Alone:
    """A session whose broker is nothing but bytes."""

    def __init__(self, **config: int) -> None:
        self.session = Session(SessionConfig("s", **config), 1, IdSource(1), lambda: 1)  # type: ignore[arg-type]
        self.session.connect("B", 0)
        assert Connect("B") in self.session.flush(0)
        self.session.handle(Connected(5, "B"), 0)

    def arrive(self, *frames: bytes) -> list[object]:
        return list(self.session.handle(FramesArrived(5, b"".join(frames)), 0))

    def shake_hands(self, name: str = "B", kind: str = "broker") -> list[object]:
        return self.arrive(encode(Hello(PROTOCOL, kind, name, 77, 0, 0, 0, 100)))


def quote(advertisement: int, counter: int, a: int = 1) -> bytes:
    return make_publication(advertisement, counter, {"a": a}).frame()


def test_the_high_water_mark_drops_what_was_seen_by_advertisement() -> None:
    alone = Alone()
    alone.shake_hands()
    id = alone.session.subscribe(parse("a > 0"))
    effects = alone.arrive(
        quote(7, 2), quote(7, 1), quote(7, 2), quote(8, 1), quote(7, 5), quote(8, 1), quote(7, 6)
    )
    delivered = [e for e in effects if isinstance(e, Deliver)]
    assert [e.publication.identity for e in delivered] == [(7, 2), (8, 1), (7, 5), (7, 6)]
    assert {e.subscriptions for e in delivered} == {(id,)}
    assert alone.session.doubles == 3


def test_a_delivery_names_all_subscriptions_that_want_it_and_none_that_does_not() -> None:
    alone = Alone()
    alone.shake_hands()
    ids = [alone.session.subscribe(parse(text)) for text in ("a > 0", "a > 5", "a < 5")]
    effects = alone.arrive(quote(7, 1, a=9), quote(7, 2, a=5), quote(7, 3, a=-1), quote(7, 4, a=0))
    assert [e.subscriptions for e in effects if isinstance(e, Deliver)] == [
        (ids[0], ids[1]),
        (ids[0],),
        (ids[2],),
        (ids[2],),
    ]
    alone.session.unsubscribe(ids[2])
    effects = alone.arrive(quote(7, 5, a=-1))
    assert not [e for e in effects if isinstance(e, Deliver)], "nothing after unsubscribe"


@pytest.mark.parametrize(("name", "kind"), [("X", "broker"), ("B", "client")])
def test_somebody_else_answers(name: str, kind: str) -> None:
    alone = Alone()
    effects = alone.shake_hands(name, kind)
    assert HomeDown("B") in effects
    assert not alone.session.credit


def test_a_broker_that_breaks_the_rules_is_left_and_dialled_again() -> None:
    alone = Alone()
    alone.shake_hands()
    effects = alone.arrive(encode(Bye("x")))
    assert HomeDown("B") in effects
    alone.session._tick(SECOND)
    assert Connect("B") in alone.session.flush(SECOND)


# -- publishing ----------------------------------------------------------------------------------------


def test_publishing_needs_a_home_an_advertisement_that_fits_and_credit(net: StepNetwork) -> None:
    session = net.session("p")
    id = session.advertise("p", parse("a > 0"))
    assert session.credit == 0
    with pytest.raises(InputError, match="no credit"):
        session.publish(id, {"a": 1})
    with pytest.raises(InputError, match="not connected"):
        session.ready(id)
    session.connect("B1", 0)
    net.settle()
    with pytest.raises(InputError, match="not what was advertised"):
        session.publish(id, {"a": 0})
    session.publish(id, {"a": 1})


def test_credit_is_what_the_broker_gave_less_what_it_has_not_confirmed(net: StepNetwork) -> None:
    session, id = net.publisher("p", "B1", "a > 0")
    full = session.credit
    assert full == net.nodes["B1"].config.credit_max
    for value in range(1, 6):
        session.publish(id, {"a": value})
    assert session.credit == full - 5
    net.settle()
    assert session.credit == full
    assert counts(net, "p", Confirmed) == 5
    while session.credit:
        session.publish(id, {"a": 1})
    with pytest.raises(InputError, match="no credit"):
        session.publish(id, {"a": 1})
    net.settle()
    assert session.credit == full


def test_a_queue_that_is_half_full_gives_no_credit() -> None:
    net = network("B")
    session = net.session("p", "B", link=LinkConfig(queue_bytes_max=2_000, window_bytes=500))
    id = session.advertise("p", parse("a > 0"))
    net.settle()
    sent = 0
    while session.credit:
        session.publish(id, {"a": 1}, b"x" * 100)
        sent += 1
    assert sent < 20
    net.subscriber("s", "B", "a > 0")
    net.settle()
    assert session.credit
    assert counts(net, "p", Confirmed) == sent, "and nothing was dropped on the way"


# -- coming back ---------------------------------------------------------------------------------------


def test_coming_back_to_a_broker_that_remembers_loses_and_doubles_nothing(net: StepNetwork) -> None:
    publisher, id = net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B1", "a > 0")
    for value in range(1, 21):
        publisher.publish(id, {"a": value})
        net.flush()
        if value % 4 == 0:
            net.cut("p", "B1")
        if value % 6 == 0:
            net.step()
            net.cut("s", "B1")
        if value % 10 == 0:
            net.advance(SECOND)
    net.advance(2 * SECOND)
    assert net.delivered("s") == list(range(1, 21))
    assert counts(net, "p", Confirmed) == 20
    assert counts(net, "p", Unconfirmed) == 0
    assert all(not effect.fresh for effect in net.effects("s", HomeUp)[1:])
    assert len(net.effects("s", HomeDown)) == len(net.effects("s", HomeUp)) - 1


def test_a_broker_that_lost_its_memory_is_told_everything_and_doubt_is_reported() -> None:
    net = network("B")
    publisher, id = net.publisher("p", "B", "a > 0")
    _, subscribed = net.subscriber("s", "B", "a > 0")
    net.hold("p", "B")
    for value in (1, 2, 3):
        publisher.publish(id, {"a": value})
    net.settle()
    net.crash("B")
    net.settle()
    net.release("p", "B")
    net.broker("B")
    net.advance(SECOND)
    assert counts(net, "p", Unconfirmed) == 3
    assert [up.fresh for up in net.effects("p", HomeUp)] == [True, True]
    first = publisher.publish(id, {"a": 4})
    net.settle()
    assert first.counter == 1, "a new advertisement id counts from 1"
    assert [
        (d.publication.attributes["a"], d.subscriptions) for d in net.effects("s", Deliver)
    ] == [(4, (subscribed,))]


def test_ready_is_asked_again_of_a_broker_that_lost_its_memory() -> None:
    net = network("B")
    session, id = net.subscriber("s", "B", "a > 0")
    net.hold("s", "B")
    session.ready(id)
    net.settle()
    net.crash("B")
    net.settle()
    net.release("s", "B")
    net.broker("B")
    net.advance(SECOND)
    assert net.effects("s", Ready) == [Ready(id)]


def test_connect_to_another_broker_sets_everything_up_there(net: StepNetwork) -> None:
    publisher, id = net.publisher("p", "B1", "a > 0")
    subscriber, subscribed = net.subscriber("s", "B1", "a > 0")
    publisher.publish(id, {"a": 1})
    net.settle()
    subscriber.connect("B3", net.now)
    net.settle()
    assert [row.link.name for row in net.nodes["B1"].tables.prt.values()] == ["B2"]
    publisher.publish(id, {"a": 2})
    net.settle()
    assert net.delivered("s") == [1, 2]
    assert net.effects("s", Deliver)[1].subscriptions == (subscribed,)


def test_connect_elsewhere_reports_what_the_old_broker_had_not_confirmed(net: StepNetwork) -> None:
    publisher, id = net.publisher("p", "B1", "a > 0")
    net.hold("p", "B1")
    publisher.publish(id, {"a": 1})
    net.settle()
    publisher.connect("B2", net.now)
    net.settle()
    assert counts(net, "p", Unconfirmed) == 1
    net.release("p", "B1")
    net.settle()
    assert publisher.credit


def test_a_broker_that_cannot_be_reached_is_dialled_until_it_can(net: StepNetwork) -> None:
    net.unreachable["B1"] = None
    session = net.session("s", "B1")
    net.advance(5 * SECOND)
    assert net.effects("s", HomeUp) == []
    del net.unreachable["B1"]
    net.advance(SECOND)
    assert net.effects("s", HomeUp) == [HomeUp("B1", True)]
    session.close()
    net.settle()
    assert "s" not in net.nodes["B1"].links


def test_a_broker_that_falls_silent_is_noticed(net: StepNetwork) -> None:
    net.subscriber("s", "B1", "a > 0")
    net.hold("B1", "s")
    net.advance(5 * SECOND)
    assert net.effects("s", HomeDown)
    assert ("s", "B1", "nothing heard for three heartbeats") in net.closed


def test_close_withdraws_everything_at_once(net: StepNetwork) -> None:
    session, id = net.publisher("p", "B1", "a > 0")
    session.subscribe(parse("a > 5"))
    net.settle()
    session.close()
    net.settle()
    assert id
    for name in ("B1", "B2", "B3"):
        assert not net.nodes[name].tables.srt
        assert not net.nodes[name].tables.prt
    assert net.told["p"][-1:] != [HomeDown("B1")]


# -- moving --------------------------------------------------------------------------------------------


def test_a_subscriber_moves_and_gets_everything_once_and_in_order(net: StepNetwork) -> None:
    publisher, id = net.publisher("p", "B1", "a > 0")
    subscriber, subscribed = net.subscriber("s", "B3", "a > 0")
    subscriber.move_to("B1", net.now)
    assert subscriber.move is Move.DIALLING
    publish_step_by_step(net, publisher, id, 60)
    assert net.effects("s", Moved) == [Moved("B1")]
    assert subscriber.move is Move.STEADY
    assert net.delivered("s") == list(range(1, 61))
    assert "s" not in net.nodes["B3"].links
    assert {d.subscriptions for d in net.effects("s", Deliver)} == {(subscribed,)}


def test_what_comes_by_the_new_path_waits_for_the_old_ones_fence(net: StepNetwork) -> None:
    publisher, id = net.publisher("p", "B1", "a > 0")
    subscriber, _ = net.subscriber("s", "B3", "a > 0")
    net.hold("B2", "B3")  # the old path is slow
    publisher.publish(id, {"a": 1})
    net.settle()
    subscriber.move_to("B1", net.now)
    net.hold("B3", "s")
    net.settle()
    publisher.publish(id, {"a": 2})
    net.settle()
    assert net.delivered("s") == [], "the second must not overtake the first"
    net.release("B2", "B3")
    net.settle()
    net.release("B3", "s")
    net.settle()
    assert net.delivered("s") == [1, 2]
    assert net.effects("s", Moved) == [Moved("B1")]


def test_the_states_of_a_move(net: StepNetwork) -> None:
    session, _ = net.subscriber("s", "B3", "a > 0")
    net.hold("B1", "s")
    session.move_to("B1", net.now)
    net.settle()
    assert session.move is Move.DIALLING
    net.hold("B3", "s")
    net.release("B1", "s")
    net.settle()
    assert session.move is Move.DRYING
    assert [home.broker for home in (session.home, session.next) if home] == ["B3", "B1"]
    net.release("B3", "s")
    net.settle()
    assert session.move is Move.STEADY
    assert session.home is not None and session.home.broker == "B1"
    assert session.next is None


def test_a_move_to_a_broker_that_does_not_answer_is_given_up(net: StepNetwork) -> None:
    publisher, id = net.publisher("p", "B1", "a > 0")
    session, _ = net.subscriber("s", "B3", "a > 0")
    net.unreachable["B2"] = None
    session.move_to("B2", net.now)
    net.advance(session.config.move_timeout_ns + SECOND)
    assert session.move is Move.STEADY
    assert session.home is not None and session.home.broker == "B3"
    publisher.publish(id, {"a": 1})
    net.settle()
    assert net.delivered("s") == [1], "life goes on at the old home"
    assert net.effects("s", Moved) == []
    del net.unreachable["B2"]
    session.move_to("B1", net.now)
    net.settle()
    assert net.effects("s", Moved) == [Moved("B1")]


def test_a_move_that_would_hold_back_too_much_is_given_up(net: StepNetwork) -> None:
    publisher, id = net.publisher("p", "B1", "a > 0")
    session = net.session("s", "B3", held_bytes_max=1_000)
    session.subscribe(parse("a > 0"))
    net.settle()
    net.hold("B2", "B3")
    session.move_to("B1", net.now)
    net.settle()
    for value in range(1, 21):
        publisher.publish(id, {"a": value}, b"x" * 100)
        net.settle()
    assert session.move is Move.STEADY
    assert session.home is not None and session.home.broker == "B3"
    net.release("B2", "B3")
    net.advance(SECOND)
    assert net.delivered("s") == list(range(1, 21))


def test_one_move_at_a_time_and_only_to_elsewhere(net: StepNetwork) -> None:
    session = net.session("s")
    with pytest.raises(InputError, match="from where it is connected"):
        session.move_to("B1", 0)
    session.connect("B1", 0)
    net.settle()
    with pytest.raises(InputError, match="at B1 already"):
        session.move_to("B1", 0)
    session.move_to("B2", 0)
    with pytest.raises(InputError, match="one move at a time"):
        session.move_to("B3", 0)


def test_a_move_while_the_old_home_restarts_arrives_all_the_same(net: StepNetwork) -> None:
    session, _ = net.subscriber("s", "B3", "a > 0")
    net.hold("B3", "s")
    session.move_to("B1", net.now)
    net.settle()
    assert session.move is Move.DRYING
    net.crash("B3")
    net.broker("B3")
    net.release("B3", "s")
    net.advance(2 * SECOND)
    assert net.effects("s", Moved) == [Moved("B1")]
    assert session.move is Move.STEADY


def test_subscribing_and_unsubscribing_while_moving_counts_at_both_homes(net: StepNetwork) -> None:
    publisher, id = net.publisher("p", "B2", "a > 0")
    session, old = net.subscriber("s", "B3", "a > 5")
    net.hold("B1", "s")
    session.move_to("B1", net.now)
    net.settle()
    new = session.subscribe(parse("a < 5"))
    session.unsubscribe(old)
    net.settle()
    publisher.publish(id, {"a": 1})
    publisher.publish(id, {"a": 9})
    net.settle()
    net.release("B1", "s")
    net.settle()
    publisher.publish(id, {"a": 2})
    net.settle()
    assert [
        (d.publication.attributes["a"], d.subscriptions) for d in net.effects("s", Deliver)
    ] == [
        (1, (new,)),
        (2, (new,)),
    ]


def test_a_publisher_moves_and_everybody_gets_everything(net: StepNetwork) -> None:
    publisher, id = net.publisher("p", "B1", "a > 0")
    net.subscriber("s", "B2", "a > 0")
    publisher.move_to("B3", net.now)
    publish_step_by_step(net, publisher, id, 60)
    assert net.effects("p", Moved) == [Moved("B3")]
    assert net.delivered("s") == list(range(1, 61))
    assert counts(net, "p", Confirmed) + counts(net, "p", Unconfirmed) == 60


def test_the_messages_of_setting_up(net: StepNetwork) -> None:
    session = net.session("s")
    session.subscribe(parse("a > 0"))
    session.advertise("p", parse("a > 0"))
    session.connect("B1", 0)
    net.settle()
    assert [type(frame) for frame in net.between("s", "B1")] == [Advertise, Subscribe]
    assert net.effects("s", MissedSome) == []
    assert net.of_kind("B1", "s", Fence) == []


def test_an_address_says_nothing_about_who_is_to_be_found_there() -> None:
    session = Session(SessionConfig("s"), 1, IdSource(1), lambda: 1)
    session.connect("runnel://127.0.0.1:7001", 0)
    session.handle(Connected(5, "runnel://127.0.0.1:7001"), 0)
    hello = Hello(PROTOCOL, "broker", "anybody", 77, 0, 0, 0, 100)
    told = session.handle(FramesArrived(5, encode(hello)), 0)
    assert HomeUp("runnel://127.0.0.1:7001", True) in told
    assert session.home is not None and session.home.name == "anybody"


def test_a_client_that_is_not_wanted_goes_and_does_not_come_back() -> None:
    alone = Alone()
    alone.shake_hands()
    told = alone.arrive(encode(Bye("another client called s", is_final=True)))
    assert Dismissed("another client called s") in told
    assert alone.session.home is None
    later = alone.session.handle(TimerFired("tick"), 5 * SECOND)
    assert not [effect for effect in later if isinstance(effect, Connect)]


TOO_LARGE = Filter([Predicate(f"a{n}", Op.GT, n) for n in range(2_000)])


def test_what_a_broker_refuses_disturbs_nothing_else(net: StepNetwork) -> None:
    client, good = net.subscriber("reader", "B1", "a > 0")
    writer, ad = net.publisher("writer", "B2", "a > 0")
    for subscribes in (True, False):
        id = client.subscribe(TOO_LARGE) if subscribes else client.advertise("reader", TOO_LARGE)
        client.ready(id)
        client.ready(good)
        net.settle()
        refused = net.effects("reader", SelectionRefused)[-1]
        assert (refused.id, refused.reason) == (id, "it has more than 1,000 predicates")
        assert net.effects("reader", Ready)[-1].id == good
        assert id not in client.subscriptions and id not in client.publishers
    writer.publish(ad, {"a": 1})
    net.settle()
    assert net.delivered("reader") == [1]
    assert [up.fresh for up in net.effects("reader", HomeUp)] == [True]
    assert not net.effects("reader", HomeDown)


def test_what_is_refused_may_be_withdrawn_before_that_is_known(net: StepNetwork) -> None:
    client = net.session("reader", "B1")
    client.unsubscribe(client.subscribe(TOO_LARGE))
    client.unadvertise(client.advertise("reader", TOO_LARGE))
    net.settle()
    assert not net.effects("reader", SelectionRefused)
    assert not net.effects("reader", HomeDown)


def test_a_refusal_of_something_that_is_gone_is_of_no_interest() -> None:
    alone = Alone()
    alone.shake_hands()
    effects = alone.arrive(encode(Refused(99, "too new")))
    assert not [effect for effect in effects if isinstance(effect, (SelectionRefused, HomeDown))]
