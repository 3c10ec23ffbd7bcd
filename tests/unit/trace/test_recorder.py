"""The recorder: bounded, counted, and safe between two threads."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.trace.chunks import SealedTape, SmallRow
from runnel.trace.recorder import BYTES_MAX, Recorder, RecorderConfig
from runnel.trace.schemas import ControlRow
from runnel.wire import Publication, make_publication
from support.taping import enter, leave


def made(*counters: int) -> list[Publication]:
    return [make_publication(7, counter, {"a": 1}) for counter in counters]


def test_what_has_no_room_is_dropped_and_counted_by_table() -> None:
    recorder = Recorder(RecorderConfig(rows_max=3))
    enter(recorder, "B1", 1, *made(1, 2))
    enter(recorder, "B1", 2, *made(3, 4))
    recorder.control("B1", 3, "moved", {"client": "alice"})
    leave(recorder, "B1", 4, made(5)[0], (1, "x"), (2, "y"))
    assert [chunk.time_ns for chunk in recorder.take()] == [1, 3]
    assert recorder.dropped == {"publications": 2, "deliveries": 2}


def test_bytes_are_bounded_too() -> None:
    one = Recorder()
    enter(one, "B1", 1, *made(1))
    recorder = Recorder(RecorderConfig(bytes_max=3 * one.waiting_bytes))
    for _ in range(4):
        enter(recorder, "B1", 1, *made(1))
    assert (recorder.waiting_rows, recorder.dropped["publications"]) == (3, 1)
    assert recorder.waiting_bytes == 3 * one.waiting_bytes > 3 * 38
    recorder.take()
    assert (recorder.waiting_rows, recorder.waiting_bytes) == (0, 0)
    enter(recorder, "B1", 1, *made(1))
    assert recorder.waiting_rows == 1, "there is room again once it was taken"


def test_a_batch_is_announced_when_it_is_full_and_when_it_is_due() -> None:
    announced: list[int] = []
    recorder = Recorder(RecorderConfig(batch_rows=3))

    def announce() -> None:
        announced.append(recorder.waiting_rows)

    recorder.call_on_batch(announce)
    enter(recorder, "B1", 1, *made(1, 2))
    assert announced == []
    enter(recorder, "B1", 1, *made(3))
    assert announced == [3]
    recorder.take()
    recorder.call_on_batch(announce, at=10)
    enter(recorder, "B1", 9, *made(4))
    enter(recorder, "B1", 10, *made(5))
    assert announced == [3, 2]


def test_a_note_names_what_it_is_about() -> None:
    recorder = Recorder()
    recorder.control("B1", 1, "link-up", {"peer": "B2", "fresh": True})
    recorder.control("B1", 2, "moved", {"peer": "B2", "client": "alice"})
    recorder.control("B1", 3, "settled", {})
    told = [chunk.row for chunk in recorder.take() if isinstance(chunk, SmallRow)]
    assert [(row.kind, row.entity, row.detail) for row in told if isinstance(row, ControlRow)] == [
        ("link-up", "B2", '{"peer":"B2","fresh":true}'),
        ("moved", "alice", '{"peer":"B2","client":"alice"}'),
        ("settled", "", "{}"),
    ]


def test_nothing_is_lost_or_doubled_between_two_threads() -> None:
    recorder = Recorder(RecorderConfig(rows_max=500, batch_rows=50))
    recorded, done = 20_000, Event()
    taken: list[int] = []

    def take() -> None:
        last = False
        while not last:
            last = done.is_set()  # once more after the last was recorded
            for chunk in recorder.take():
                assert isinstance(chunk, SealedTape)
                taken.extend(chunk.stretch.records["counter"].tolist())

    taker = Thread(target=take)
    taker.start()
    for number in range(1, recorded + 1):
        enter(recorder, "B1", number, *made(number))
    done.set()
    taker.join()
    assert taken == sorted(set(taken)), "in order, each once"
    assert len(taken) + recorder.dropped["publications"] == recorded
    assert recorder.waiting_rows == 0


@pytest.mark.parametrize(
    "name", ["rows_max", "bytes_max", "batch_rows", "batch_bytes", "tape_ns", "sample"]
)
def test_a_limit_that_is_none_is_refused_by_name(name: str) -> None:
    limits: dict[str, Any] = {name: 0}
    with pytest.raises(InputError, match=f"{name} must be at least 1, not 0"):
        RecorderConfig(**limits)


def test_more_than_a_column_can_hold_is_refused() -> None:
    with pytest.raises(InputError, match="bytes_max must be at most"):
        RecorderConfig(bytes_max=BYTES_MAX + 1)
