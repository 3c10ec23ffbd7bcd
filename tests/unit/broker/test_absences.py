"""Which links are missing: configured ones, lost ones, those behind neighbours; and when they are back."""

from __future__ import annotations

import pytest

from runnel.broker.connections import EXPIRED
from runnel.broker.events import StopAsked, TimerFired
from runnel.client.effects import Ready
from runnel.quantities import SECOND
from runnel.wire import Advertise, ClientHere, Loss, MissingLinks
from support.harness import StepNetwork


def chain(count: int) -> StepNetwork:
    net = StepNetwork()
    names = [f"B{n}" for n in range(1, count + 1)]
    for number, name in reversed(list(enumerate(names))):
        net.broker(name, *names[number + 1 : number + 2], accepts=tuple(names[:number][-1:]))
    net.settle()
    return net


def missing(net: StepNetwork, broker: str) -> tuple[str, ...]:
    found: tuple[str, ...] = net.nodes[broker].absences.missing(net.now)
    return found


def test_whole_networks_miss_nothing_and_say_nothing_more() -> None:
    net = chain(4)
    assert [missing(net, name) for name in ("B1", "B2", "B3", "B4")] == [()] * 4
    net.forget_sent()
    net.advance(5 * SECOND)
    assert not [frame for *_, frame in net.sent if isinstance(frame, MissingLinks)]


def test_both_sides_miss_a_neighbour_that_never_came() -> None:
    net = StepNetwork()
    net.broker("B1", "B2")
    net.broker("B3", accepts=("B2",))
    net.settle()
    assert missing(net, "B1") == ("B1–B2",)
    assert missing(net, "B3") == ("B2–B3",)


def test_a_dead_broker_is_missed_on_both_sides_however_far_and_found_when_it_is_back() -> None:
    net = chain(5)
    net.crash("B3")
    net.advance(3 * SECOND)
    assert missing(net, "B1") == missing(net, "B2") == ("B2–B3",)
    assert missing(net, "B4") == missing(net, "B5") == ("B3–B4",)
    net.advance(20 * SECOND)  # now its links are forgotten, and it is missed nevertheless
    assert EXPIRED in [trace.data.get("reason") for _, trace in net.traces]
    assert missing(net, "B1") == ("B2–B3",)
    net.broker("B3", "B4", accepts=("B2",))
    net.advance(2 * SECOND)
    assert [missing(net, f"B{n}") for n in range(1, 6)] == [()] * 5


def test_a_neighbour_that_nobody_configured_is_missed_when_it_was_lost_and_not_when_it_left() -> (
    None
):
    net = StepNetwork()
    net.broker("B1")
    net.broker("B2", "B1")
    net.broker("B3", "B1")
    net.settle()
    net.crash("B2")
    net.event("B3", StopAsked())
    net.advance(3 * SECOND)
    assert missing(net, "B1") == ("B1–B2",)
    net.advance(2 * 3600 * SECOND)
    assert missing(net, "B1") == ()


def test_a_configured_neighbour_is_missed_also_when_it_left() -> None:
    net = chain(2)
    net.event("B1", StopAsked())
    net.advance(SECOND)
    assert missing(net, "B2") == ("B1–B2",)


def test_a_neighbour_that_hung_up_for_good_is_not_missed() -> None:
    net = chain(3)
    net.nodes["B1"].hang_up("B2", "not needed any more")
    net.advance(SECOND)
    assert missing(net, "B1") == missing(net, "B2") == missing(net, "B3") == ()


def test_a_link_is_back_only_when_the_neighbour_has_said_what_it_has() -> None:
    net = chain(3)
    net.publisher("p", "B3", "a > 0")
    net.crash("B2")
    net.advance(20 * SECOND)
    reader, id = net.subscriber("s", "B1", "a > 0")
    net.broker("B2", "B3", accepts=("B1",))
    net.hold("B3", "B2")
    net.advance(2 * SECOND)
    reader.ready(id)
    net.settle()
    assert net.effects("s", Ready)[-1].missing == ("B2–B3",)
    net.release("B3", "B2")
    net.settle()
    reader.ready(id)
    net.settle()
    assert net.effects("s", Ready)[-1].missing == ()
    to_b1 = net.between("B2", "B1")
    assert any(isinstance(frame, Advertise) for frame in to_b1)
    assert len(net.nodes["B3"].tables.prt) == 1


@pytest.mark.parametrize("seconds", [0, 1])
def test_a_link_that_is_down_is_missing_at_once_for_whoever_asks_there(seconds: int) -> None:
    net = chain(2)
    reader, id = net.subscriber("s", "B1", "a > 0")
    net.unreachable["B2"] = None
    net.cut("B1", "B2")
    net.settle()
    net.advance(seconds * SECOND)
    reader.ready(id)
    net.settle()
    assert net.effects("s", Ready)[-1].missing == ("B1–B2",)
    net.unreachable.clear()
    net.advance(SECOND)
    reader.ready(id)
    net.settle()
    assert net.effects("s", Ready)[-1].missing == ()


def test_a_broker_that_skips_a_lost_link_says_so_before_its_fence() -> None:
    """Between two ticks a link that is down becomes a lost one: a barrier may come before neighbours were told."""
    net = chain(3)
    net.publisher("p", "B3", "a > 0")
    reader, id = net.subscriber("s", "B1", "a > 0")
    net.unreachable["B3"] = None
    net.cut("B2", "B3")
    net.settle()
    tick_ns = SECOND // 2
    while not any(
        link.name == "B3" and link.is_lost(net.now + tick_ns - 1)
        for link in net.nodes["B2"].links.values()
    ):
        net.advance(tick_ns)
    assert missing(net, "B1") == ()
    net.now += tick_ns - 1  # without the tick
    reader.ready(id)
    net.settle()
    assert net.effects("s", Ready)[-1].missing == ("B2–B3",)


# -- a loop, which is a mistake ------------------------------------------------------------------------

STEPS_MAX = 6_000


def test_in_a_loop_no_news_go_round_for_ever() -> None:
    net = StepNetwork()
    for name, *dials in (["A"], ["B", "A"], ["C", "B", "A"], ["D", "A"]):
        net.broker(name, *dials)
    assert has_rest(net), "news of missing links chase each other"
    broker = net.nodes["A"]
    link = broker.links["D"]
    broker.losses.heard(link, Loss("D–E", 1, 0, "lost", published=(7,)))
    broker.losses.heard(link, Loss("D–E", 1, 2, "full", 5, published=(7,)))
    net.event("A", TimerFired("tick"))
    assert has_rest(net), "losses are told again and again"
    assert "D–E" in net.nodes["B"].losses.open


def test_in_a_mesh_what_all_are_told_comes_to_an_end() -> None:
    """Where loops meet each copy of a message makes two, again and again."""
    net = StepNetwork()
    for name, *dials in (["A"], ["B", "A"], ["C", "B", "A"], ["D", "A", "B", "C"], ["E", "A"]):
        net.broker(name, *dials)
    assert has_rest(net)
    broker = net.nodes["A"]
    broker.namesakes.heard(broker.links["E"], ClientHere("alice", 7, "E", 255))
    broker.losses.heard(broker.links["E"], Loss("E–F", 1, 2, "full", 5, published=(7,)))
    net.event("A", TimerFired("tick"))
    assert has_rest(net)


def has_rest(net: StepNetwork) -> bool:
    """Whether there is an end to what brokers tell each other."""
    net.flush()
    return not all(net.step() for _ in range(STEPS_MAX))
