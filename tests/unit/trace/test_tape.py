"""The tape: what comes off it is what went on, whatever happens to audiences meanwhile; and it stays short."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from runnel.broker.events import TimerFired
from runnel.modules.recording.module import OLD
from runnel.modules.recording.tape import HOPS_MAX, PUBLICATIONS_MAX
from runnel.quantities import HOUR, SECOND
from runnel.trace.chunks import SealedTape
from runnel.trace.columns import to_table
from runnel.trace.module import Tracing
from runnel.trace.recorder import Recorder, RecorderConfig
from runnel.trace.setup import NodeTrace, TraceOptions
from runnel.wire import Bye, Subscribe, Unsubscribe, make_publication
from support.door import ALL, Door

PUB, NEIGHBOUR = 1, 2


class TracedBroker:
    """A broker with a publisher, a neighbour and a tape."""

    def __init__(self, **limits: Any) -> None:
        self.recorder = Recorder(RecorderConfig(**limits))
        self.door = Door(modules=(Tracing(self.recorder),))
        self.door.connect(PUB, "pub")
        self.door.connect(NEIGHBOUR, "N", "broker")
        self.counter = 0

    def publish(self, count: int = 1, conn: int = NEIGHBOUR, payload: bytes = b"") -> None:
        """Publications in one chunk, so that they are a run."""
        first, self.counter = self.counter + 1, self.counter + count
        run = [make_publication(7, n, {"a": n}, payload) for n in range(first, self.counter + 1)]
        self.door.arrive(conn, *run)

    def subscriber(self, conn: int, id: int) -> None:
        self.door.connect(conn, f"c{conn}")
        self.door.arrive(conn, Subscribe(id, ALL, 9))

    def sealed(self) -> list[SealedTape]:
        """What waits for the writer; the tape stays as it is."""
        return [chunk for chunk in self.recorder.take() if isinstance(chunk, SealedTape)]

    def deliveries(self) -> list[tuple[str, int, int]]:
        """Who got what, with all that is on the tape."""
        self.recorder.seal()
        chunks = self.sealed()
        if not chunks:
            return []
        table = to_table("deliveries", chunks)
        names = ("client", "subscription", "counter")
        return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_a_number_that_is_used_again_stands_for_its_link_at_the_time() -> None:
    traced = TracedBroker()
    traced.subscriber(3, 30)
    traced.door.connect(4, "other", "broker")
    traced.door.arrive(4, Subscribe(40, ALL, 9))
    traced.publish()
    traced.door.arrive(4, Bye("gone"))
    traced.subscriber(5, 50)  # has the number that the other broker had
    numbers = {link.name: link.number for link in traced.door.broker.links.values()}
    assert numbers["c5"] == 3
    traced.publish()
    traced.door.arrive(3, Bye("gone"))
    traced.subscriber(6, 60)
    traced.publish()
    assert sorted(traced.deliveries(), key=itemgetter(2, 1)) == [
        ("c3", 30, 1),
        *(("c3", 30, 2), ("c5", 50, 2)),
        *(("c5", 50, 3), ("c6", 60, 3)),
    ]


def test_clients_with_one_subscription_and_with_several_on_one_tape() -> None:
    traced = TracedBroker()
    traced.subscriber(3, 30)
    traced.subscriber(4, 40)
    traced.publish()
    traced.publish(2)
    traced.door.arrive(4, Subscribe(41, ALL, 9))
    traced.publish()
    traced.publish(2)
    traced.door.arrive(4, Unsubscribe(40))
    traced.publish()
    found = traced.deliveries()
    assert Counter(found) == Counter(
        [("c3", 30, n) for n in range(1, 8)]
        + [("c4", 40, n) for n in range(1, 7)]
        + [("c4", 41, n) for n in range(4, 8)]
    )
    assert [counter for _, _, counter in found] == sorted(counter for _, _, counter in found)


def test_places_of_those_who_left_are_given_up_and_what_waits_keeps_them() -> None:
    traced = TracedBroker()
    traced.subscriber(3, 30)
    traced.subscriber(4, 1_000_000)
    audiences = traced.recorder.tape.audiences
    for id in range(1_000_001, 1_002_000):
        traced.publish()
        traced.door.arrive(4, Subscribe(id, ALL, 9), Unsubscribe(id - 1))
    assert len(audiences.subscribers) < 1_100
    traced.publish()
    assert traced.deliveries() == [
        row for n in range(1, 2_001) for row in (("c3", 30, n), ("c4", 999_999 + n, n))
    ]


@pytest.mark.parametrize("conn", [PUB, NEIGHBOUR])
@pytest.mark.parametrize("run", [1, 100])
def test_a_tape_is_short(conn: int, run: int) -> None:
    traced = TracedBroker()
    traced.subscriber(3, 30)
    for _ in range(0, 3 * PUBLICATIONS_MAX, run):
        traced.publish(run, conn)
    lengths = [len(chunk.stretch.records) for chunk in traced.sealed()]
    assert sum(lengths) > PUBLICATIONS_MAX
    assert max(lengths) < PUBLICATIONS_MAX + run


def test_a_tape_is_short_in_hops_and_in_bytes_too() -> None:
    traced = TracedBroker()
    for conn in range(3, 103):
        traced.subscriber(conn, 10 * conn)
    for _ in range(2 * HOPS_MAX // 100):
        traced.publish()
    assert max(chunk.deliveries for chunk in traced.sealed()) < HOPS_MAX + 100
    traced = TracedBroker()
    for _ in range(50):
        traced.publish(1, PUB, payload=bytes(100_000))
    assert len(traced.sealed()) >= 4


def test_where_there_is_little_room_a_tape_is_little_of_it() -> None:
    traced = TracedBroker(rows_max=80)
    traced.subscriber(3, 30)
    for _ in range(100):
        traced.publish()
        traced.deliveries()
    assert not traced.recorder.dropped


def test_what_a_quiet_broker_did_last_does_not_stay_on_the_tape() -> None:
    traced = TracedBroker(tape_ns=SECOND)
    traced.subscriber(3, 30)
    traced.publish()
    assert not traced.sealed()
    assert traced.door.timers[OLD] == traced.door.now + SECOND
    traced.door.now += SECOND
    traced.door.event(TimerFired(OLD))
    (chunk,) = traced.sealed()
    assert chunk.deliveries == 1


def test_rows_of_two_hours_are_in_two_chunks() -> None:
    traced = TracedBroker(tape_ns=60 * SECOND)
    traced.subscriber(3, 30)
    begin = traced.door.now
    for at in (HOUR - 2, HOUR - 1, HOUR, HOUR + 1):
        traced.door.now = at
        traced.publish()
    assert begin < HOUR - 2
    traced.recorder.seal()
    assert [chunk.stretch.records["time_ns"].tolist() for chunk in traced.sealed()] == [
        [HOUR - 2, HOUR - 1],
        [HOUR, HOUR + 1],
    ]


def test_a_broker_that_only_hands_on_leaves_nothing_behind() -> None:
    traced = TracedBroker()
    traced.door.connect(4, "other", "broker")
    traced.door.arrive(4, Subscribe(40, ALL, 9))
    traced.publish()
    traced.publish(10)
    assert not traced.recorder.tape.records
    traced.subscriber(3, 30)
    traced.door.arrive(3, Unsubscribe(30))
    assert traced.deliveries() == []


def test_what_may_be_on_a_tape_counts_as_missing(tmp_path: Path) -> None:
    settings = TraceOptions(tmp_path, flush_interval_ns=10 * SECOND)
    writer = NodeTrace(settings, "B", 1, pytest.fail)._thread.writer
    began = writer.statement.flushed_ns
    writer.flush()
    assert writer.statement.missing_ns >= 11 * SECOND
    assert writer.statement.flushed_ns < began
    writer.close()
    assert writer.statement.missing_ns == 0
    assert writer.statement.flushed_ns > began
