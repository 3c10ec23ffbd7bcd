"""Reading: by time and broker, with the schema of today, and refusals that help."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runnel.errors import InputError
from runnel.language import parse
from runnel.quantities import HOUR
from runnel.trace.reader import open_trace
from runnel.trace.schemas import SCHEMAS
from runnel.trace.summary import summarise
from runnel.trace.tail import Tail
from support.taping import interval_row

HOUR_S = HOUR // 1_000_000_000


@pytest.fixture
def filled(lab: Any) -> Any:
    """Ten publications, one every half hour, at two brokers in turn; two of them in each file."""
    for counter in range(10):
        lab.publish(counter + 1, f"B{counter % 2 + 1}", at_s=counter * HOUR_S / 2, a=counter)
        if counter % 2:
            lab.writer.flush()
    lab.writer.close()
    return lab


def counters(table: pa.Table) -> list[int]:
    found: list[int] = table["counter"].to_pylist()
    return found


def test_a_time_range_takes_in_its_start_and_not_its_end(filled: Any) -> None:
    trace = open_trace(filled.directory)
    start, end = HOUR, 3 * HOUR
    assert counters(trace.read("publications", start_ns=start, end_ns=end)) == [3, 4, 5, 6]
    assert len(trace.dataset("publications", start_ns=start, end_ns=end).files) == 2
    assert counters(trace.read("publications", start_ns=4 * HOUR)) == [9, 10]
    assert counters(trace.read("publications", end_ns=1)) == [1]
    assert counters(trace.read("publications", end_ns=HOUR // 2)) == [1]
    assert counters(trace.read("publications", end_ns=HOUR // 2 + 1)) == [1, 2]


def test_brokers_and_columns(filled: Any) -> None:
    trace = open_trace(filled.directory)
    found = trace.read("publications", brokers=["B2"], columns=["counter"], end_ns=2 * HOUR)
    assert found.to_pydict() == {"counter": [2, 4]}


def test_a_filter_sees_columns_and_attributes(filled: Any) -> None:
    trace = open_trace(filled.directory)
    rows = trace.rows("publications", where=parse("a > 5 AND broker = 'B1'"))
    assert [row["attributes"] for row in rows] == [{"a": 6}, {"a": 8}]


def test_a_table_without_rows_is_empty_and_has_its_columns(filled: Any) -> None:
    found = open_trace(filled.directory).read("deliveries")
    assert found.num_rows == 0 and found.schema == SCHEMAS["deliveries"]


def test_what_is_not_there_is_said_with_what_is(filled: Any) -> None:
    trace = open_trace(filled.directory)
    with pytest.raises(InputError, match="no table 'quotes': take one of brokers, links"):
        trace.read("quotes")
    with pytest.raises(InputError, match="no column 'size': take one of time_ns, broker"):
        trace.read("publications", columns=["size"])


def test_a_directory_that_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no trace\.json"):
        open_trace(tmp_path)
    (tmp_path / "trace.json").write_text("{")
    with pytest.raises(InputError, match=r"trace\.json: cannot be read"):
        open_trace(tmp_path)


def test_a_trace_of_another_version_is_refused(filled: Any) -> None:
    about = filled.directory / "trace.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"version": 99}))
    with pytest.raises(InputError, match=r"version 99 of the tables.*newer Runnel"):
        open_trace(filled.directory)


def test_a_column_that_a_file_is_too_old_to_have_is_null(lab: Any) -> None:
    lab.recorder.add(interval_row("B1", 1, output_ratio=0.5, memory_bytes=99))
    lab.writer.close()
    (part,) = lab.writer.folder.parts("intervals")
    pq.write_table(pq.read_table(part.path).drop_columns(["memory_bytes"]), part.path)
    (found,) = open_trace(lab.directory).rows("intervals")
    assert (found["memory_bytes"], found["output_ratio"]) == (None, 0.5)


def test_a_torn_file_is_an_error_that_names_it(filled: Any) -> None:
    part = next(filled.writer.folder.parts("publications"))
    part.path.write_bytes(part.path.read_bytes()[:-10])
    trace = open_trace(filled.directory)
    with pytest.raises(InputError, match="cannot be read"):
        trace.read("publications")
    with pytest.raises(InputError, match=part.path.name):
        Tail(trace).last(5)
    assert list(summarise(trace).unreadable) == [str(part.path)]


def test_a_file_that_was_taken_away_is_missed(filled: Any) -> None:
    assert summarise(open_trace(filled.directory)).complaints == []
    list(filled.writer.folder.parts())[2].path.unlink()
    summary = summarise(open_trace(filled.directory))
    assert summary.complaints == ["writer sim: 1 of its files are gone"]
    assert summary.tables["publications"].rows == 8


def test_the_summary_counts_and_spans(filled: Any) -> None:
    summary = summarise(open_trace(filled.directory))
    table = summary.tables["publications"]
    assert (table.rows, table.files, table.first_ns) == (10, 5, 0)
    assert table.last_ns == 9 * HOUR // 2
    assert [(writer.name, writer.state) for writer in summary.writers] == [("sim", "ended")]


def test_the_tail_is_the_newest_rows_and_then_what_comes(make_lab: Any) -> None:
    lab = make_lab()
    for counter in range(1, 10):
        lab.publish(counter, at_s=counter)
        if counter % 3 == 0:
            lab.recorder.control("B2", counter * 10**9, "moved", {"client": "alice"})
            lab.writer.flush()
    tail = Tail(open_trace(lab.directory))
    told = [(table, row["time_ns"] // 10**9) for table, row in tail.last(4)]
    assert told == [
        ("publications", 7),
        ("publications", 8),
        ("publications", 9),
        ("control", 9),
    ]
    assert tail.read_new_rows() == []
    lab.publish(10, at_s=10)
    lab.writer.flush()
    assert [row["counter"] for _, row in tail.read_new_rows()] == [10]
    assert Tail(open_trace(lab.directory), brokers=["B2"]).last(99)[0][0] == "control"
