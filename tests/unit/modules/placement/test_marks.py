"""Marks on publications, and where brokers put them."""

from __future__ import annotations

import pytest

from runnel.modules.placement.config import PlacementConfig, PublisherSettings
from runnel.modules.placement.grape_module import Grape
from runnel.modules.placement.messages import SPAN, TRACED, place_in, session_of
from runnel.modules.placement.pop_module import Pop
from runnel.wire import Advertise, Decoder, Publication, Subscribe, make_publication
from support.door import ALL, Door


def test_a_mark_is_on_the_frame_and_changes_nothing_else() -> None:
    plain = make_publication(7, 3, {"a": 1}, b"payload", publisher="P", time_ns=99, ttl=5)
    marked = make_publication(7, 3, {"a": 1}, b"payload", publisher="P", time_ns=99, ttl=5)
    marked.mark(0xABCD)
    (read,) = Decoder().feed(marked.frame())
    assert isinstance(read, Publication) and read.flags == marked.flags == 0xABCD
    assert (read.attributes, read.payload, read.publisher, read.time_ns) == (
        *({"a": 1}, b"payload", "P", 99),
    )
    marked.mark(0)
    assert marked.raw == plain.raw


@pytest.mark.parametrize("first", [1, 212, SPAN - 1, SPAN, SPAN + 1, 10**12])
def test_the_place_in_a_session_follows_from_its_number(first: int) -> None:
    session = session_of(first)
    assert 1 <= session <= SPAN
    assert [place_in(session, first + n) for n in (0, 1, 99, SPAN - 1)] == [0, 1, 99, SPAN - 1]


def door_with(config: PlacementConfig) -> Door:
    """A client P on 1 with advertisement 7, one Q on 3 with 8, and a subscriber of everything on 2."""
    door = Door(modules=(Pop(config), Grape(config)))
    for conn, name in ((1, "P"), (2, "alice"), (3, "Q")):
        door.connect(conn, name)
    door.arrive(1, Advertise(7, ALL, "P", 9))
    door.arrive(3, Advertise(8, ALL, "Q", 9))
    door.arrive(2, Subscribe(1, ALL, 9))
    return door


def flags(door: Door, conn: int, *publications: Publication) -> list[int]:
    door.received(2)
    door.arrive(conn, *publications)
    return [frame.flags for frame in door.received(2) if isinstance(frame, Publication)]


def two(advertisement: int, flags: int = 0) -> list[Publication]:
    return [make_publication(advertisement, n, {}, flags=flags) for n in (1, 2)]


def test_each_publisher_is_marked_by_the_algorithm_that_it_has() -> None:
    config = PlacementConfig("pop", publishers={"Q": PublisherSettings("grape")})
    door = door_with(config)
    assert flags(door, 1, *two(7))[0] == TRACED
    assert flags(door, 3, *two(8)) == [session_of(1) << 1] * 2


def test_a_run_of_one_is_marked_too() -> None:
    door = door_with(PlacementConfig("grape"))
    assert flags(door, 1, make_publication(7, 5, {})) == [session_of(5) << 1]


def test_without_an_algorithm_nothing_is_marked_and_nobody_is_asked() -> None:
    door = door_with(PlacementConfig())
    assert not door.broker.watchers.markers
    assert flags(door, 1, *two(7)) == [0, 0]


def test_off_for_one_publisher_is_off() -> None:
    door = door_with(PlacementConfig("grape", publishers={"P": PublisherSettings("off")}))
    assert flags(door, 1, *two(7)) == [0, 0]
    assert flags(door, 3, *two(8)) == [session_of(1) << 1] * 2


@pytest.mark.parametrize("algorithm", ["pop", "grape"])
def test_what_a_client_marks_itself_does_not_count(algorithm: str) -> None:
    own = PublisherSettings(algorithm)  # type: ignore[arg-type]
    config = PlacementConfig(publishers={"P": own, "Q": PublisherSettings("off")})
    door = door_with(config)
    everything = 0xFFFF if algorithm == "grape" else TRACED
    assert flags(door, 3, *two(8, everything)) == [everything & TRACED * (algorithm == "grape")] * 2


def test_publications_under_somebody_elses_advertisement_are_not_marked() -> None:
    door = door_with(PlacementConfig("grape"))
    assert flags(door, 3, *two(7)) == [0, 0]
    assert flags(door, 3, *two(12345)) == [0, 0]
