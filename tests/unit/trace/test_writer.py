"""The writer: whole files, in their place, the same for the same history; what goes wrong is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from threading import Event
from time import time_ns
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import asdict

from runnel.errors import InputError
from runnel.quantities import HOUR, SECOND
from runnel.trace.folder import sync_file
from runnel.trace.reader import open_trace
from runnel.trace.recorder import Recorder, RecorderConfig
from runnel.trace.schemas import (
    SCHEMAS,
    AdvertisementsRow,
    BrokersRow,
    ControlRow,
    LinksRow,
    SubscriptionsRow,
    TableRow,
)
from runnel.trace.summary import summarise
from runnel.trace.writer import Writer, WriterConfig, WriterThread
from runnel.wire import make_publication
from support.taping import enter, interval_row, leave

AT: dict[str, Any] = {"time_ns": 49 * SECOND, "broker": "B1"}
SMALL: tuple[TableRow, ...] = (
    BrokersRow(**AT, event="started", detail="{}"),
    LinksRow(
        **AT,
        peer="B2",
        kind="broker",
        event="up",
        publications_in=1,
        publications_out=2,
        dropped=3,
        waiting_bytes=4,
    ),
    SubscriptionsRow(
        **AT,
        client="alice",
        event="made",
        subscription=20,
        filter="a > 5",
        selection=b"\x90",
    ),
    AdvertisementsRow(
        **AT,
        client="quotes",
        event="made",
        advertisement=7,
        publisher="quotes",
        filter="a > 5",
        selection=b"\x90",
    ),
    interval_row(**AT, window_ns=SECOND, input_ratio=0.1, messages_in=[("publication", 5)]),
    ControlRow(**AT, kind="moved", entity="alice", detail="{}"),
)
MADE = make_publication(7, 1, {"a": 1}, publisher="quotes")


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def fill(lab: Any) -> None:
    for counter in range(1, 50):
        lab.now = counter * SECOND
        lab.publish(counter, at_s=counter)
        leave(lab.recorder, "B2", lab.now, MADE, (1, "x"), (2, "y"))
    for row in SMALL:
        lab.recorder.add(row)


def test_every_table_comes_back_with_its_schema(lab: Any) -> None:
    fill(lab)
    lab.writer.close()
    trace = open_trace(lab.directory)
    for table in SCHEMAS:
        assert trace.read(table).schema == SCHEMAS[table]
    for row in SMALL:
        (found,) = trace.read(row.table).to_pylist()
        assert found == asdict(row)
    assert trace.read("publications").num_rows == 49
    assert trace.read("deliveries").num_rows == 98


def test_parquet_itself_holds_no_type_that_others_do_not_know(lab: Any) -> None:
    fill(lab)
    lab.writer.close()
    for part in lab.writer.folder.parts():
        schema = pq.ParquetFile(part.path).schema
        for place in range(len(schema)):
            column = schema.column(place)
            assert column.physical_type in ("INT64", "DOUBLE", "BYTE_ARRAY", "BOOLEAN"), column
            assert column.logical_type.type in ("NONE", "STRING"), column


def test_one_history_gives_one_set_of_files(make_lab: Callable[..., Any]) -> None:
    for folder in ("one", "other"):
        lab = make_lab(folder)
        lab.writer.flush_when_due()
        fill(lab)
        lab.writer.close()
    one, other = (digest(lab.directory.parent / folder) for folder in ("one", "other"))
    assert one == other
    assert len(one) > 8


def test_inline_it_flushes_when_the_interval_is_over(make_lab: Callable[..., Any]) -> None:
    lab = make_lab(interval_s=10)
    lab.writer.flush_when_due()
    trace = open_trace(lab.directory)
    seen = []
    for counter in range(1, 26):
        lab.now = counter * SECOND
        lab.publish(counter, at_s=counter)
        seen.append(trace.read("publications").num_rows)
    assert seen == [0] * 9 + [10] * 10 + [20] * 6


def test_rows_lie_under_the_hour_of_their_time(lab: Any) -> None:
    hour_s = HOUR // SECOND
    for at_s in (0, hour_s - 1, hour_s, 5 * hour_s):
        lab.publish(1, at_s=at_s)
    lab.writer.close()
    found = {part.hour: pq.read_metadata(part.path).num_rows for part in lab.writer.folder.parts()}
    assert found == {0: 2, 1: 1, 5: 1}


def test_a_file_has_its_name_only_when_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked at when a file is brought to disk, which is the last thing before it gets its name."""
    seen: list[tuple[bool, bool]] = []

    def look(path: Path) -> None:
        final = path.with_name(path.name.removeprefix(".").removesuffix(".tmp"))
        seen.append((path.exists() and path != final, final.exists()))
        sync_file(path)

    monkeypatch.setattr("runnel.trace.writer.sync_file", look)
    recorder = Recorder()
    writer = Writer(WriterConfig(tmp_path, "B1", "virtual"), recorder, lambda: 0)
    enter(recorder, "B1", 1, MADE)
    writer.close()
    assert seen == [(True, False)]
    assert open_trace(tmp_path).read("publications").num_rows == 1


def test_a_name_of_any_characters_makes_files(make_lab: Callable[..., Any]) -> None:
    lab = make_lab(name="west/../B 1-ü")
    lab.publish(1)
    lab.writer.close()
    (part,) = lab.writer.folder.parts()
    assert part.writer == "west/../B 1-ü"
    assert part.path.parent == lab.directory / "publications" / "hour=0"
    assert [statement.writer for statement in lab.writer.folder.statements()] == [part.writer]


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(
    make_lab: Callable[..., Any],
) -> None:
    living, dead = make_lab(name="living-1"), make_lab(name="dead-1")
    hour = living.directory / "publications" / "hour=0"
    hour.mkdir(parents=True)
    half = [hour / f".part-{name}-000001.parquet.tmp" for name in ("living-1", "dead-1")]
    half.append(living.directory / "writers" / ".dead-1.json.tmp")
    for path in half:
        path.write_bytes(b"PAR1 half of")
    dead.die()
    assert summarise(open_trace(living.directory)).unreadable == {}
    make_lab(name="next-1")
    assert [path.exists() for path in half] == [True, False, False]


def test_a_writer_that_was_there_before_is_refused(make_lab: Callable[..., Any]) -> None:
    make_lab().writer.close()
    with pytest.raises(InputError, match="has a trace by sim already: choose another directory"):
        make_lab()


def test_two_clocks_do_not_share_a_directory(lab: Any) -> None:
    with pytest.raises(InputError, match="holds a trace in virtual time"):
        Writer(WriterConfig(lab.directory, "B1", "wall"), Recorder(), time_ns)


def test_where_no_directory_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="no trace can be written here: Not a directory"):
        Writer(WriterConfig(tmp_path / "file", "B1", "wall"), Recorder(), time_ns)


def test_files_that_cannot_be_written_are_counted_and_the_others_go_on(tmp_path: Path) -> None:
    complaints: list[str] = []
    recorder = Recorder()
    config = WriterConfig(tmp_path, "B1", "wall")
    writer = Writer(config, recorder, time_ns, complaints.append)
    (tmp_path / "publications").write_text("in the way")
    enter(recorder, "B1", time_ns(), MADE, MADE)
    recorder.control("B1", time_ns(), "moved", {"client": "alice"})
    writer.flush()
    assert len(complaints) == 1 and "2 rows of publications are lost" in complaints[0]
    (tmp_path / "publications").unlink()
    enter(recorder, "B1", time_ns(), MADE)
    writer.close()
    summary = summarise(open_trace(tmp_path))
    assert (summary.tables["publications"].failed, summary.tables["publications"].rows) == (2, 1)
    assert summary.tables["control"].rows == 1
    assert "publications: 2 rows could not be written" in summary.complaints


def test_inline_a_full_disk_is_an_error_that_says_what_to_do(lab: Any) -> None:
    (lab.directory / "publications").write_text("in the way")
    lab.publish(1)
    with pytest.raises(InputError, match="make room there, or choose another directory"):
        lab.writer.flush()


def test_in_a_thread_a_full_batch_is_written_at_once(tmp_path: Path) -> None:
    """The interval is an hour: only a batch that is ready can have woken the writer."""
    recorder = Recorder(RecorderConfig(batch_rows=3))
    written = Event()

    class NotifyingWriter(Writer):
        def flush(self) -> None:
            super().flush()
            written.set()

    config = WriterConfig(tmp_path, "B1", "wall", 3_600 * SECOND)
    thread = WriterThread(NotifyingWriter(config, recorder, time_ns, pytest.fail))
    thread.start()
    enter(recorder, "B1", time_ns(), MADE, MADE, MADE)
    assert written.wait(30)
    assert open_trace(tmp_path).read("publications").num_rows == 3
    enter(recorder, "B1", time_ns(), MADE)
    assert thread.stop()
    assert open_trace(tmp_path).read("publications").num_rows == 4
    (statement,) = open_trace(tmp_path).folder.statements()
    assert statement.farewell and statement.tables["publications"].rows == 4


def test_in_a_thread_an_interval_is_enough(tmp_path: Path) -> None:
    recorder = Recorder()
    written = Event()

    class TableNotifyingWriter(Writer):
        def flush(self) -> None:
            super().flush()
            if self.statement.tables:
                written.set()

    config = WriterConfig(tmp_path, "B1", "wall", SECOND // 50)
    thread = WriterThread(TableNotifyingWriter(config, recorder, time_ns, pytest.fail))
    thread.start()
    enter(recorder, "B1", time_ns(), MADE)
    assert written.wait(30)
    assert thread.stop()


def test_what_was_dropped_is_stated(tmp_path: Path) -> None:
    recorder = Recorder(RecorderConfig(rows_max=1))
    writer = Writer(WriterConfig(tmp_path, "B1", "virtual"), recorder, lambda: 5)
    enter(recorder, "B1", 1, MADE)
    enter(recorder, "B1", 1, MADE)
    writer.close()
    told = json.loads((tmp_path / "writers" / "B1.json").read_text())
    assert told["tables"]["publications"] == {"rows": 1, "dropped": 1, "failed": 0}
    complaints = summarise(open_trace(tmp_path)).complaints
    assert complaints == ["publications: 1 rows were dropped for want of room"]
