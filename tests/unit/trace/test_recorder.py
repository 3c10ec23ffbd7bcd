"""The recorder: bounded, counted, and safe between two threads."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from runnel.errors import InputError
from runnel.trace.recorder import BYTES_MAX, ROW_BYTES, Recorder, RecorderConfig


def test_what_has_no_room_is_dropped_and_counted_by_table() -> None:
    recorder = Recorder(RecorderConfig(rows_max=3))
    recorder.publications("B1", 1, (b"a", b"b"))
    recorder.publications("B1", 2, (b"c", b"d"))
    recorder.add("control", "B1", 3, ("moved", "alice", "{}"))
    recorder.deliveries("B1", 4, (b"e",), (2,), ((1, "x"), (2, "y")))
    assert [chunk.time_ns for chunk in recorder.take()] == [1, 3]
    assert recorder.dropped == {"publications": 2, "deliveries": 2}


def test_bytes_are_bounded_too() -> None:
    recorder = Recorder(RecorderConfig(bytes_max=3 * (ROW_BYTES + 100)))
    for _ in range(4):
        recorder.publications("B1", 1, (bytes(100),))
    assert (recorder.waiting_rows, recorder.dropped["publications"]) == (3, 1)
    assert recorder.waiting_bytes == 3 * (ROW_BYTES + 100)
    recorder.take()
    assert (recorder.waiting_rows, recorder.waiting_bytes) == (0, 0)
    recorder.publications("B1", 1, (bytes(100),))
    assert recorder.waiting_rows == 1, "there is room again once it was taken"


def test_a_batch_is_announced_when_it_is_full_and_when_it_is_due() -> None:
    announced = []
    recorder = Recorder(RecorderConfig(batch_rows=3))
    recorder.on_batch = lambda: announced.append(recorder.waiting_rows)
    recorder.publications("B1", 1, (b"a", b"b"))
    assert announced == []
    recorder.publications("B1", 1, (b"c",))
    assert announced == [3]
    recorder.take()
    recorder.batch_at = 10
    recorder.publications("B1", 9, (b"d",))
    recorder.publications("B1", 10, (b"e",))
    assert announced == [3, 2]


def test_a_note_names_what_it_is_about() -> None:
    recorder = Recorder()
    recorder.control("B1", 1, "link-up", {"peer": "B2", "fresh": True})
    recorder.control("B1", 2, "moved", {"peer": "B2", "client": "alice"})
    recorder.control("B1", 3, "settled", {})
    assert [chunk.row for chunk in recorder.take()] == [
        ("link-up", "B2", '{"peer":"B2","fresh":true}'),
        ("moved", "alice", '{"peer":"B2","client":"alice"}'),
        ("settled", "", "{}"),
    ]


def test_nothing_is_lost_or_doubled_between_two_threads() -> None:
    recorder = Recorder(RecorderConfig(rows_max=500, batch_rows=50))
    recorded, done = 20_000, Event()
    recorder_rows: list[bytes] = []

    def take() -> None:
        last = False
        while not last:
            last = done.is_set()  # once more after the last was recorded
            for chunk in recorder.take():
                recorder_rows.extend(chunk.frames)

    taker = Thread(target=take)
    taker.start()
    for number in range(recorded):
        recorder.publications("B1", number, (b"%d" % number,))
    done.set()
    taker.join()
    numbers = [int(frame) for frame in recorder_rows]
    assert numbers == sorted(set(numbers)), "in order, each once"
    assert len(numbers) + recorder.dropped["publications"] == recorded
    assert recorder.waiting_rows == 0


@pytest.mark.parametrize("name", ["rows_max", "bytes_max", "batch_rows", "batch_bytes", "sample"])
def test_a_limit_that_is_none_is_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} must be at least 1, not 0"):
        RecorderConfig(**{name: 0})


def test_more_than_a_column_can_hold_is_refused() -> None:
    with pytest.raises(InputError, match="bytes_max must be at most"):
        RecorderConfig(bytes_max=BYTES_MAX + 1)
