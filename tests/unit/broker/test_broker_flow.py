"""What a broker lets through: TTL, credit and congestion, slow clients, modules, stories, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.events import Disconnected, TimerFired
from runnel.broker.links import Link, LinkConfig
from runnel.broker.module import Context, Module
from runnel.client.effects import HomeUp, MissedSome
from runnel.language import parse
from runnel.quantities import SECOND
from runnel.wire import (
    Ack,
    Advertise,
    Frame,
    Missed,
    Publication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    encode,
    make_publication,
    raw_selection,
)
from support.door import ALL, Door, busy_door
from support.harness import MonitorProbe, StepNetwork

BEAT = SECOND


@pytest.fixture
def door() -> Door:
    return busy_door()


# -- ttl -----------------------------------------------------------------------------------------------


def test_a_publication_with_ttl_0_stays_local(door: Door) -> None:
    door.arrive(1, make_publication(7, 1, {"a": 1}, ttl=0), make_publication(7, 2, {"a": 1}, ttl=1))
    near, far = door.received(2), door.received(3)
    assert [(p.counter, p.ttl, p.hops) for p in near] == [(1, 0, 0), (2, 1, 0)]  # type: ignore[union-attr]
    assert [(p.counter, p.ttl, p.hops) for p in far] == [(2, 0, 1)]  # type: ignore[union-attr]


def test_subscriptions_and_advertisements_with_ttl_0_stay_local(door: Door) -> None:
    door.arrive(1, Subscribe(40, raw_selection(parse("a = 1")), 0), Advertise(41, ALL, "x", 0))
    assert door.received(3) == []
    door.arrive(1, Unsubscribe(40), Unadvertise(41))
    assert door.received(3) == [], "what was not sent is not withdrawn"


def test_a_ttl_counts_down_on_the_way() -> None:
    net = StepNetwork()
    for name, dials in (("B3", ()), ("B2", ("B3",)), ("B1", ("B2",))):
        net.broker(name, *dials)
    net.settle()
    net.session("pub", "B1", ttl=1).advertise("pub", parse("a > 0"))
    net.settle()
    assert [len(net.nodes[name].tables.srt) for name in ("B1", "B2", "B3")] == [1, 1, 0]


# -- congestion, credit, slow clients ------------------------------------------------------------------


def test_credit_falls_under_congestion_and_recovers(door: Door) -> None:
    most, least = door.broker.config.credit_max, door.broker.config.credit_min
    counter = 0

    def publish() -> int:
        nonlocal counter
        counter += 1
        door.arrive(1, make_publication(7, counter, {}))
        return door.credit(1)

    assert publish() == most
    door.acknowledge(3, congested=True)
    assert [publish() for _ in range(3)] == [most // 2, most // 4, most // 8]
    for _ in range(20):
        publish()
    assert publish() == least, "a publisher is slowed down, not stopped"
    door.acknowledge(3, congested=False)
    assert [publish() for _ in range(3)] == [2 * least, 4 * least, 8 * least]
    for _ in range(20):
        publish()
    assert publish() == most


def test_a_full_queue_to_a_neighbour_is_congestion_and_is_told_to_others() -> None:
    door = Door(congested_bytes=1_000, link=LinkConfig(window_bytes=100))
    door.connect(1, "pub")
    door.connect(2, "M", "broker")
    door.connect(3, "N", "broker")
    door.arrive(1, Advertise(7, ALL, "near", 9))
    door.arrive(3, Subscribe(30, ALL, 9))
    door.arrive(1, *(make_publication(7, n, {}, b"x" * 100) for n in range(1, 20)))
    door.acknowledge(2)
    door.pass_time(BEAT)
    congested = {c: [f for f in door.got[c] if isinstance(f, Ack)][-1].congested for c in (1, 2, 3)}
    assert congested == {1: True, 2: True, 3: False}, "everybody but the one it is full towards"
    for _ in range(40):
        door.acknowledge(3)
    door.pass_time(BEAT)
    congested = {c: [f for f in door.got[c] if isinstance(f, Ack)][-1].congested for c in (1, 2, 3)}
    assert congested == {1: False, 2: False, 3: False}


def test_a_slow_client_gets_the_newest_and_is_told_what_it_missed() -> None:
    door = Door(client_link=LinkConfig(window_bytes=100, queue_bytes_max=2_000, ack_every=1))
    door.connect(1, "pub")
    door.connect(2, "sub")
    door.arrive(2, Subscribe(20, ALL, 9))
    for counter in range(1, 51):
        door.arrive(1, make_publication(7, counter, {}, b"x" * 100))
    got: list[Frame] = door.received(2)
    for _ in range(100):
        door.acknowledge(2)
        got += door.received(2)
    counters = [frame.counter for frame in got if isinstance(frame, Publication)]
    missed = sum(frame.count for frame in got if isinstance(frame, Missed))
    assert counters == sorted(counters)
    assert counters[-1] == 50
    assert len(counters) + missed == 50
    assert missed > 20
    assert door.broker.meter.dropped == missed


def test_a_client_that_misses_some_hears_of_it_in_its_session() -> None:
    net = StepNetwork()
    net.broker("B", client_link=LinkConfig(window_bytes=200, queue_bytes_max=1_000, ack_every=1))
    net.settle()
    publisher, id = net.publisher("pub", "B", "a > 0")
    net.subscriber("sub", "B", "a > 0")
    net.hold("sub", "B")
    for value in range(1, 41):
        publisher.publish(id, {"a": value}, b"x" * 100)
        net.settle()
    net.release("sub", "B")
    net.advance(10 * SECOND)
    missed = sum(effect.count for effect in net.effects("sub", MissedSome))
    assert missed > 0
    assert len(net.delivered("sub")) + missed == 40


def test_a_link_that_overflows_is_dead_and_its_routes_go() -> None:
    door = Door(link=LinkConfig(queue_bytes_max=2_000))
    door.connect(1, "pub")
    door.connect(3, "N", "broker")
    door.arrive(3, Subscribe(30, ALL, 9))
    door.event(Disconnected(3))
    for id in range(100, 300):
        door.arrive(1, Advertise(id, ALL, "near", 9))
    assert door.broker.meter.links_dead == 1
    assert "N" not in door.broker.links
    assert 30 not in door.broker.tables.prt
    assert list(door.broker.links) == ["pub"]


# -- modules -------------------------------------------------------------------------------------------


class Counter(Module):
    """Counts publications by the hops they take, answers probes, and reports by a timer."""

    name = "counter"
    messages = (MonitorProbe,)
    timers = ("counter:report",)
    watches_publications = True
    watches_tables = True

    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[int, int], int]] = []
        self.lost: list[str] = []
        self.changes: list[tuple[str, str, int]] = []
        self.fired: list[tuple[str, int]] = []

    def start(self, context: Context, now: int) -> None:
        context.set_timer("counter:report", now + 5)

    def message(self, context: Context, link: Link, message: MonitorProbe, now: int) -> None:
        context.send(link, MonitorProbe(message.token + 1))

    def timer(self, context: Context, timer: str, now: int) -> None:
        self.fired.append((timer, now))
        context.trace("report", {"seen": len(self.seen)})

    def routed(
        self, context: Context, link: Link, run: list[Publication], hops: list[list[int]], now: int
    ) -> None:
        for publication, to in zip(run, hops, strict=True):
            self.seen.append((link.name, publication.identity, len(to)))

    def subscribed(self, context: Context, link: Link, row: Any, now: int) -> None:
        self.changes.append(("subscribed", link.name, row.id))

    def unsubscribed(self, context: Context, link: Link, row: Any, now: int) -> None:
        self.changes.append(("unsubscribed", link.name, row.id))

    def advertised(self, context: Context, link: Link, row: Any, now: int) -> None:
        self.changes.append(("advertised", link.name, row.id))

    def unadvertised(self, context: Context, link: Link, row: Any, now: int) -> None:
        self.changes.append(("unadvertised", link.name, row.id))

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        self.lost.append(link.name)


def test_a_module_has_its_own_messages_timers_and_hooks() -> None:
    module = Counter()
    door = Door(modules=(module,))
    assert door.timers["counter:report"] == 5
    door.connect(1, "pub")
    door.connect(2, "sub")
    module.lost.clear()
    door.arrive(2, Subscribe(20, ALL, 9))
    door.arrive(1, make_publication(7, 1, {}), MonitorProbe(41), make_publication(7, 2, {}))
    assert module.seen == [("pub", (7, 1), 1), ("pub", (7, 2), 1)]
    assert door.received(1) == [MonitorProbe(42)]
    door.now = 5
    door.event(TimerFired("counter:report"))
    assert module.fired == [("counter:report", 5)]
    assert [trace.data for trace in door.traces if trace.kind == "report"] == [{"seen": 2}]
    door.arrive(1, b"\xff" * 64)
    assert module.lost == ["pub"]


def test_a_module_hears_of_every_change_of_the_tables() -> None:
    module = Counter()
    door = Door(modules=(module,))
    door.connect(1, "pub")
    door.connect(2, "sub")
    door.arrive(1, Advertise(7, ALL, "near", 9))
    door.arrive(2, Subscribe(20, ALL, 9), Subscribe(21, raw_selection(parse("a > 5")), 9))
    wants = [
        [row.id for row in door.broker.tables.local_subscriptions(make_publication(7, 1, {"a": a}))]
        for a in (1, 9)
    ]
    assert [sorted(ids) for ids in wants] == [[20], [20, 21]]
    door.arrive(2, Unsubscribe(20))
    door.arrive(1, b"\xff" * 64)
    door.arrive(2, b"\xff" * 64)
    assert module.changes == [
        *(("advertised", "pub", 7), ("subscribed", "sub", 20), ("subscribed", "sub", 21)),
        *(("unsubscribed", "sub", 20), ("unadvertised", "pub", 7), ("unsubscribed", "sub", 21)),
    ]
    assert not door.broker.tables.local_subscriptions(make_publication(7, 1, {"a": 9}))


def test_a_module_that_does_not_watch_is_not_asked() -> None:
    class Deaf(Counter):
        watches_publications = False
        watches_tables = False

    module = Deaf()
    door = Door(modules=(module,))
    door.connect(1, "pub")
    door.arrive(1, make_publication(7, 1, {}))
    assert module.seen == []


@pytest.mark.parametrize("with_story", [False, True])
def test_a_module_may_watch_only_what_is_marked(with_story: bool) -> None:
    class Partial(Counter):
        name = "partial"
        messages = ()  # type: ignore[assignment]
        watches_publications = False
        watches_marked = True

    all_of_it, partial = Counter(), Partial()
    door = Door(modules=(all_of_it, partial), tell_stories=with_story)
    door.connect(1, "pub")
    plain = [make_publication(7, n, {}) for n in (1, 2, 3)]
    door.arrive(1, plain[0])
    door.arrive(1, *plain[1:])
    assert (len(all_of_it.seen), partial.seen) == (3, [])
    door.arrive(1, make_publication(7, 4, {}, flags=1))
    door.arrive(1, make_publication(7, 5, {}), make_publication(7, 6, {}, flags=2))
    assert [identity for _, identity, _ in partial.seen] == [(7, 4), (7, 5), (7, 6)]
    assert len(all_of_it.seen) == 6


# -- what can be seen from outside ---------------------------------------------------------------------


def test_the_story_of_one_id() -> None:
    door = Door(tell_stories=True)
    door.connect(1, "pub")
    door.connect(2, "sub")
    door.arrive(1, Advertise(7, ALL, "near", 9))
    door.arrive(2, Subscribe(20, ALL, 9))
    door.arrive(1, make_publication(7, 1, {}), make_publication(7, 2, {}))
    story = door.broker.story
    assert story is not None
    assert len(story.of((7, 1))) == len(story.of(20)) == len(story.of(7)) == 1
    assert "pub" in str(story.of((7, 1))[0]) and "sub" in str(story.of((7, 1))[0])


def test_the_meter_counts_what_comes_and_goes(door: Door) -> None:
    before = door.broker.meter.copy()
    quote = make_publication(7, 1, {"a": 1}, ttl=0)
    door.arrive(1, quote, quote, Subscribe(50, ALL, 0))
    after = door.broker.meter
    assert after.publications_in - before.publications_in == 2
    assert after.control_in - before.control_in == 1
    assert after.bytes_in - before.bytes_in == 2 * len(quote.frame()) + len(
        encode(Subscribe(50, ALL, 0))
    )
    assert after.bytes_out > before.bytes_out


def test_matching_is_measured_by_the_clock_that_is_given() -> None:
    ticks = iter(range(0, 1_000, 7))
    door = Door(clock=lambda: next(ticks))
    door.connect(1, "pub")
    door.arrive(1, make_publication(7, 1, {}))
    assert door.broker.meter.matching_ns > 0


def test_a_broker_that_restarts_is_told_everything_again() -> None:
    net = StepNetwork()
    net.broker("B2")
    net.broker("B1", "B2")
    net.settle()
    publisher, id = net.publisher("pub", "B1", "a > 0")
    net.subscriber("sub", "B2", "a > 0")
    net.crash("B2")
    net.advance(2 * SECOND)
    net.broker("B2")
    net.advance(2 * SECOND)
    assert [effect.fresh for effect in net.effects("sub", HomeUp)] == [True, True]
    publisher.publish(id, {"a": 1})
    net.settle()
    assert net.delivered("sub") == [1]
    assert len(net.nodes["B2"].tables.srt) == len(net.nodes["B1"].tables.prt) == 1


def test_a_cut_between_brokers_loses_nothing() -> None:
    net = StepNetwork()
    net.broker("B2")
    net.broker("B1", "B2")
    net.settle()
    publisher, id = net.publisher("pub", "B1", "a > 0")
    net.subscriber("sub", "B2", "a > 0")
    for value in range(1, 31):
        publisher.publish(id, {"a": value})
        net.flush()
        if value % 3 == 0:
            net.step()
            net.cut("B1", "B2")
        if value % 5 == 0:
            net.advance(SECOND)
    net.advance(SECOND)
    assert net.delivered("sub") == list(range(1, 31))
