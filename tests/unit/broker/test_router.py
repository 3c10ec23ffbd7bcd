"""The router: the shortcut for one publication alone changes nothing; frames per link; watchers that are switched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from runnel.broker.effects import SendSame
from runnel.broker.events import FramesArrived
from runnel.broker.invariants import check_broker
from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.broker.tables import Tables
from runnel.errors import BugError
from runnel.language import parse
from runnel.routing.tree import TREE, TreeConfig, TreeRouting
from runnel.wire import (
    Advertise,
    Hello,
    Publication,
    Subscribe,
    encode,
    make_publication,
    raw_selection,
)
from runnel.wire.header import FLAGS_AT
from support.door import ALL, Door

PUBLISHER, CLIENTS, NEIGHBOURS = 1, (2, 3), (4, 5)


def crowd(door: Door) -> Door:
    """A publisher, two clients and two neighbours; one of each wants everything, the other half of it."""
    door.connect(PUBLISHER, "pub")
    for conn in CLIENTS:
        door.connect(conn, f"client{conn}")
    for conn in NEIGHBOURS:
        door.connect(conn, f"N{conn}", "broker")
    door.arrive(PUBLISHER, Advertise(7, ALL, "near", 9))
    for conn in (2, 4):
        door.arrive(conn, Subscribe(conn, ALL, 9))
    for conn in (3, 5):
        door.arrive(conn, Subscribe(conn, raw_selection(parse("a > 5")), 9))
    door.got.clear()
    return door


def quotes(count: int, ttl: int = 9) -> list[Publication]:
    return [make_publication(7, n + 1, {"a": n}, b"x" * n, ttl=ttl) for n in range(count)]


def publications(door: Door, conn: int) -> list[Publication]:
    return [frame for frame in door.received(conn) if isinstance(frame, Publication)]


# -- one alone, and a run -------------------------------------------------------------------------------


def state_of(door: Door) -> list[tuple[object, ...]]:
    """What links have counted and keep, but for acknowledgements: of those there are more, the more chunks come."""
    return [
        (
            *(link.name, link.publications_in, link.publications_out, link.data.received),
            *(link.flying_bytes, link.waiting_bytes, list(link.data.unacknowledged)),
        )
        for link in door.broker.links.values()
    ]


@pytest.mark.parametrize("ttl", [0, 1, 9])
def test_it_makes_no_difference_whether_publications_come_alone(ttl: int) -> None:
    alone, together = crowd(Door()), crowd(Door())
    for quote in quotes(10, ttl):
        alone.arrive(PUBLISHER, quote)
    together.arrive(PUBLISHER, *quotes(10, ttl))
    assert state_of(alone) == state_of(together)
    for conn in (*CLIENTS, *NEIGHBOURS):
        frames = [quote.frame() for quote in publications(alone, conn)]
        assert frames == [quote.frame() for quote in publications(together, conn)]
        assert len(frames) == {2: 10, 3: 4, 4: 10, 5: 4}[conn] * (ttl > 0 or conn in CLIENTS)
    one, other = alone.broker.meter, together.broker.meter
    assert (one.publications_in, one.publications_out) == (10, 28 if ttl else 14)
    assert (one.publications_in, one.publications_out) == (
        other.publications_in,
        other.publications_out,
    )


def test_one_alone_is_one_effect_for_all_that_get_the_same_frame() -> None:
    door = Door()
    for conn in (1, 2, 3):
        door.connect(conn, f"client{conn}")
        door.arrive(conn, Subscribe(conn, ALL, 9))
    quote = make_publication(7, 1, {"a": 1})
    effects = door.broker.handle(FramesArrived(1, quote.frame()), 0)
    assert effects[0] == SendSame([1, 2, 3], [quote.frame()])


def test_one_that_meets_a_queue_waits_in_it_for_its_turn() -> None:
    door = crowd(Door())
    link = door.broker.links["client2"]
    link.down(0)
    door.arrive(PUBLISHER, quotes(1)[0])
    assert (len(link.data.waiting), link.publications_out) == (1, 1)
    assert len(publications(door, 4)) == 1, "the others have it"
    check_broker(door.broker)


# -- a frame for each link ------------------------------------------------------------------------------


class Labelled(TreeRouting):
    """Tells each neighbour the number of the link in the flags, and how long the frame is by a longer payload."""

    asked: list[tuple[str, int]]

    def __init__(self, tables: Tables, longer: int = 0) -> None:
        super().__init__(TreeConfig(), tables)
        self.asked = []
        self._longer = longer

    def frame_for(self, link: Link, publication: Publication) -> bytes:
        self.asked.append((link.name, publication.counter))
        payload = publication.payload + bytes(self._longer * link.number)
        made = make_publication(
            publication.advertisement,
            publication.counter,
            publication.attributes,
            payload,
            ttl=publication.ttl,
        )
        onward = made.forwarded()
        return onward[:FLAGS_AT] + link.number.to_bytes(2, "big") + onward[FLAGS_AT + 2 :]


def labelled(longer: int = 0) -> tuple[Door, Labelled]:
    kind = replace(TREE, make=lambda config, tables: Labelled(tables, longer))
    door = crowd(Door(strategy=kind))
    assert isinstance(door.broker.strategy, Labelled)
    return door, door.broker.strategy


def in_chunks(run: list[Publication], size: int) -> Iterator[list[Publication]]:
    return (run[at : at + size] for at in range(0, len(run), size))


@pytest.mark.parametrize("chunk", [1, 10])
def test_a_strategy_may_send_each_neighbour_another_frame(chunk: int) -> None:
    door, strategy = labelled()
    for run in in_chunks(quotes(10), chunk):
        door.arrive(PUBLISHER, *run)
    for conn, count in ((4, 10), (5, 4)):
        number = door.broker.links[f"N{conn}"].number
        got = publications(door, conn)
        assert [quote.counter for quote in got] == list(range(11 - count, 11))
        assert {(quote.flags, quote.ttl, quote.hops) for quote in got} == {(number, 8, 1)}
    for conn in CLIENTS:
        assert {(quote.flags, quote.ttl) for quote in publications(door, conn)} == {(0, 9)}
    assert sorted(strategy.asked) == [("N4", n) for n in range(1, 11)] + [
        ("N5", n) for n in range(7, 11)
    ]


@pytest.mark.parametrize("chunk", [1, 10])
def test_a_strategy_is_not_asked_for_a_frame_that_goes_no_further(chunk: int) -> None:
    door, strategy = labelled()
    for run in in_chunks(quotes(10, ttl=0), chunk):
        door.arrive(PUBLISHER, *run)
    assert strategy.asked == []
    assert [len(publications(door, conn)) for conn in (*CLIENTS, *NEIGHBOURS)] == [10, 4, 0, 0]


@pytest.mark.parametrize("chunk", [1, 10])
def test_frames_of_any_size_are_counted_as_what_they_are(chunk: int) -> None:
    door, _ = labelled(longer=3)
    before = door.broker.meter.copy()
    for run in in_chunks(quotes(10), chunk):
        door.arrive(PUBLISHER, *run)
    written = [
        frame.frame() if isinstance(frame, Publication) else encode(frame)
        for frames in door.got.values()
        for frame in frames
        if not isinstance(frame, Hello)
    ]
    assert len({len(quote.frame()) for quote in publications(door, 4)}) > 1
    assert door.broker.meter.bytes_out - before.bytes_out == sum(map(len, written))
    assert door.broker.meter.frames_out - before.frames_out == len(written)
    check_broker(door.broker)


# -- watching, switched while running ---------------------------------------------------------------------


class WatchingModule(Module):
    """Notes what it is called for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[int] = []
        self.entered: list[int] = []
        self.context: Context | None = None

    def start(self, context: Context, now: int) -> None:
        self.context = context

    def mark_publications(
        self, context: Context, link: Link, run: list[Publication], now: int
    ) -> None:
        self.entered += [publication.counter for publication in run]

    def routed(
        self, context: Context, link: Link, run: list[Publication], hops: list[list[int]], now: int
    ) -> None:
        self.seen += [publication.counter for publication in run]

    def switch(self, **what: bool) -> None:
        assert self.context is not None
        self.context.watch(self, **what)


def publish(door: Door, first: int, flags: int = 0) -> None:
    """One alone, then two in one chunk, the second of which is marked if anything is."""
    one, two, three = (
        make_publication(7, n, {"a": 1}, flags=flags * (n != first + 1))
        for n in range(first, first + 3)
    )
    door.arrive(PUBLISHER, one)
    door.arrive(PUBLISHER, two, three)


def test_a_module_watches_from_when_it_is_switched_on_until_it_is_switched_off() -> None:
    one, other = WatchingModule("one"), WatchingModule("other")
    door = crowd(Door(modules=(one, other)))
    publish(door, 1)
    one.switch(publications=True)
    publish(door, 4)
    other.switch(publications=True)
    one.switch(publications=False)
    publish(door, 7)
    other.switch(publications=False)
    publish(door, 10)
    assert (one.seen, other.seen) == ([4, 5, 6], [7, 8, 9])
    assert not (door.broker.watchers.of_all or door.broker.watchers.of_marked)


def test_what_is_not_named_is_not_switched() -> None:
    one = WatchingModule("one")
    door = crowd(Door(modules=(one,)))
    one.switch(publications=True, marks=True)
    one.switch(marked=True)
    publish(door, 1)
    one.switch(publications=False)
    publish(door, 4)
    publish(door, 7, flags=1)
    assert one.seen == [1, 2, 3, 7, 8, 9], "of marked ones it is still told"
    one.switch(marked=False)
    publish(door, 10, flags=1)
    assert (one.seen[6:], one.entered) == ([], list(range(1, 13)))


def test_a_module_marks_only_while_it_is_switched_to() -> None:
    class Marker(WatchingModule):
        def mark_publications(
            self, context: Context, link: Link, run: list[Publication], now: int
        ) -> None:
            for publication in run:
                publication.mark(5)

    marker, watch = Marker("marker"), WatchingModule("watch")
    door = crowd(Door(modules=(marker, watch)))
    watch.switch(marked=True)
    for marks, flags in ((False, 0), (True, 5), (False, 0)):
        marker.switch(marks=marks)
        publish(door, 1)
        assert [quote.flags for quote in publications(door, 2)] == [flags] * 3
    assert watch.seen == [1, 2, 3], "it saw what was marked"


@pytest.mark.parametrize("with_story", [False, True])
def test_a_module_may_switch_itself_while_it_is_told(with_story: bool) -> None:
    class Once(WatchingModule):
        def routed(
            self,
            context: Context,
            link: Link,
            run: list[Publication],
            hops: list[list[int]],
            now: int,
        ) -> None:
            super().routed(context, link, run, hops, now)
            context.watch(self, publications=False)

    once, after = Once("once"), WatchingModule("after")
    door = crowd(Door(modules=(once, after), tell_stories=with_story))
    for module in (once, after):
        module.switch(publications=True)
    door.arrive(PUBLISHER, *quotes(2))
    door.arrive(PUBLISHER, *quotes(2))
    assert (once.seen, after.seen) == ([1, 2], [1, 2, 1, 2])


def test_a_broker_switches_only_its_own_modules() -> None:
    door, stranger = Door(modules=(WatchingModule("one"),)), WatchingModule("stranger")
    with pytest.raises(BugError, match="stranger"):
        door.broker.watch(stranger, publications=True)
    assert not stranger.watches_publications
