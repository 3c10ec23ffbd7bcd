"""Irregular input is an error that says what to do, or is counted; nothing is dropped silently."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runnel.errors import InputError
from runnel.pipeline.backtest import backtest
from runnel.pipeline.jobs import Job
from runnel.pipeline.proposals import Proposals
from runnel.pipeline.report import measure_window
from runnel.pipeline.stream import Watch, start_watch, wait_for_watch
from runnel.pipeline.tables import open_tables
from runnel.planning.documents.plan import Plan
from runnel.quantities import SECOND
from runnel.trace.recorder import Recorder, RecorderConfig
from runnel.trace.window import Window
from runnel.trace.writer import Writer, WriterConfig
from support.handmade import ADVERTISEMENT, HandMade
from support.sparked import profiles_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Change = Callable[[pa.Table], pa.Table]
PLAN = Plan(algorithm="FBF", overlay={"B0": None}, subscriptions={}, publishers={}, after={})


@pytest.fixture
def hand(tmp_path: Path) -> HandMade:
    """Five publications; subscriptions 1 and 2 receive some of them, 3 receives nothing."""
    made = HandMade(tmp_path / "trace")
    for id in (1, 2, 3):
        made.subscribe(id, "a > 1", 0.0)
    for counter in range(1, 6):
        made.publish(counter, counter)
        made.deliver(counter, 1, counter, 0.5)
    made.deliver(3, 2, 3.0, 0.5)
    made.interval("B0", 10)
    return made


def part_of(trace: Path, table: str) -> Path:
    return next((trace / table).rglob("part-*.parquet"))


def rewrite_file(trace: Path, table: str, change: Change) -> None:
    path = part_of(trace, table)
    pq.write_table(change(pq.read_table(path)), path)


def test_a_trace_without_deliveries(spark: SparkSession, tmp_path: Path) -> None:
    made = HandMade(tmp_path / "trace")
    made.publish(1, 1.0)
    made.open()
    with pytest.raises(InputError, match="there are no deliveries in it: trace for longer"):
        Job(spark, tmp_path / "trace", tmp_path / "out").make_profiles()


def test_no_trace_at_all(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"it has no trace\.json"):
        open_tables(tmp_path)


def test_empty_directories_and_files_hold_nothing(hand: HandMade) -> None:
    hand.open()
    (hand.directory / "deliveries" / "hour=7").mkdir()
    rewrite_file(hand.directory, "deliveries", lambda table: table.slice(0, 0))
    found = open_tables(hand.directory)
    assert found.decisions.lines == [] and found.days == [0]
    with pytest.raises(InputError, match="there are no deliveries in it: trace for longer"):
        found.require("deliveries", "trace for longer")


@pytest.mark.parametrize("kept", [0, 100])
def test_a_torn_file_is_named_and_may_be_skipped(hand: HandMade, kept: int) -> None:
    hand.open()
    path = part_of(hand.directory, "subscriptions")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match=rf"{path.name}.*--skip-unreadable"):
        open_tables(hand.directory)
    found = open_tables(hand.directory, skip_unreadable=True)
    assert found.decisions.lines == [
        "1 files cannot be read, and were skipped: what they held is missing"
    ]
    assert not found.parts["subscriptions"] and len(found.parts["deliveries"]) == 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda table: table.drop_columns(["counter"]), "has no column counter"),
        (
            lambda table: table.set_column(5, "counter", table["counter"].cast(pa.float64())),
            "column counter holds double, not int64",
        ),
        (
            lambda table: table.replace_schema_metadata({"runnel.version": "2"}),
            "written with version 2 of the tables, this Runnel reads 1 to 1: read it with a newer",
        ),
        (lambda table: table.replace_schema_metadata({}), r"version \? of the tables"),
    ],
)
def test_files_that_are_not_of_this_version(hand: HandMade, change: Change, complaint: str) -> None:
    hand.open()
    rewrite_file(hand.directory, "deliveries", change)
    with pytest.raises(InputError, match=complaint):
        open_tables(hand.directory)


def watch_once(job: Job) -> None:
    watch = Watch(job, lambda: PLAN)
    wait_for_watch(watch, start_watch(watch, once=True))


# Whatever else there is begins with profiles.
@pytest.mark.parametrize(
    "run",
    [
        Job.make_profiles,
        lambda job: measure_window(job, "measured"),
        lambda job: backtest(job, Proposals(["all"], ["TRUE"])),
        watch_once,
    ],
)
@pytest.mark.parametrize(
    ("table", "change", "complaint"),
    [
        ("publications", lambda table: table.drop_columns(["counter"]), "has no column counter"),
        (
            "intervals",
            lambda table: table.replace_schema_metadata({"runnel.version": "2"}),
            "written with version 2 of the tables",
        ),
        ("links", None, "cannot be read.*--skip-unreadable"),
    ],
)
def test_every_job_complains(
    *,
    hand: HandMade,
    spark: SparkSession,
    tmp_path: Path,
    run: Callable[[Job], object],
    table: str,
    change: Change | None,
    complaint: str,
) -> None:
    hand.open()
    if change:
        rewrite_file(hand.directory, table, change)
    else:
        torn = hand.directory / table / "hour=0" / "part-hand-000001.parquet"
        torn.parent.mkdir(parents=True)
        torn.write_bytes(b"PAR1")
    with pytest.raises(InputError, match=complaint):
        run(Job(spark, hand.directory, tmp_path / "out"))


def test_only_files_that_have_rows_of_a_window_are_read(
    hand: HandMade, spark: SparkSession, tmp_path: Path
) -> None:
    hand.open()
    later = HandMade(tmp_path / "later")
    later.publish(9, 20.0)
    later.open()
    path = part_of(hand.directory, "publications")
    shutil.copy(
        part_of(later.directory, "publications"), path.with_name("part-more-000009.parquet")
    )
    tables = open_tables(hand.directory)
    for window, rows in (((0, 0), 0), ((2, 3), 5), ((5, 20), 6), ((6, 19), 0), ((20, 30), 1)):
        found = tables.frame_around(spark, "publications", Window(*(s * SECOND for s in window)))
        assert found.count() == rows, window


def test_files_are_looked_at_once(hand: HandMade) -> None:
    hand.open()
    before = open_tables(hand.directory)
    path = part_of(hand.directory, "publications")
    shutil.copy(path, path.with_name("part-copy-000001.parquet"))
    path.write_bytes(b"")  # who looks at it again will stumble
    again = open_tables(hand.directory, before=before)
    assert [len(again.parts["publications"]), len(before.parts["publications"])] == [2, 1]
    with pytest.raises(InputError, match="cannot be read"):
        open_tables(hand.directory)


def test_a_file_that_is_older_than_a_column(hand: HandMade, spark: SparkSession) -> None:
    hand.open()
    rewrite_file(hand.directory, "intervals", lambda table: table.drop_columns(["memory_bytes"]))
    found = open_tables(hand.directory)
    assert found.decisions.lines == [
        "1 files are older than a column, which is null for their rows"
    ]
    row = found.frame(spark, "intervals").first()
    assert row is not None and row["memory_bytes"] is None and row["broker"] == "B0"


def test_a_sampled_trace_is_refused(tmp_path: Path) -> None:
    HandMade(tmp_path, sample=3).open()
    with pytest.raises(InputError, match=r"kept one publication in 3.*without sampling"):
        open_tables(tmp_path)


def test_a_writer_that_was_killed_is_told(tmp_path: Path) -> None:
    writer = Writer(
        WriterConfig(tmp_path, "B1-1", "virtual", sync=False), Recorder(RecorderConfig()), lambda: 0
    )
    assert open_tables(tmp_path).decisions.lines == [], "it lives"
    writer._lock.close()  # what the end of a process does
    assert open_tables(tmp_path).decisions.lines == [
        "1 writers were killed: what they recorded last is missing"
    ]


def test_what_is_decided_is_counted(hand: HandMade, spark: SparkSession, tmp_path: Path) -> None:
    hand.deliver(5, 9, 5.0, 0.5, broker="B7")  # nobody ever saw it subscribe
    hand.deliver(4, 2, 4.0, -0.5)  # before it was published
    hand.subscribe(4, "a > 1", 0.0)
    hand.subscribe(4, "a > 1", 8.0, event="withdrawn")
    hand.open()
    for table in ("deliveries", "publications"):
        path = part_of(hand.directory, table)
        shutil.copy(path, path.with_name("part-copy-000001.parquet"))
    job = Job(spark, hand.directory, tmp_path / "out", 64)
    assert job.make_profiles() == {"publishers": 1, "subscriptions": 5, "vectors": 3}
    network = job.make_network()
    assert job.decisions.counts == {
        "subscriptions were made before the trace began: their clients are as deliveries tell": 1,
        "publications are there twice, and count once": 5,
        "deliveries within the windows are there twice, and count once": 8,
        "deliveries came before they were published, by clocks that differ: order is by counter": 2,
        "advertisements were made before the trace began: they go by their publishers' names": 1,
        "subscriptions got nothing in the windows: their profiles are empty": 2,
        "subscriptions were withdrawn by the end, and are not planned for": 1,
        "brokers have no measured output, and count as unlimited": 1,
    }
    assert profiles_of(job.frame("vectors")) == {1: {0: 0b11111}, 2: {0: 0b01100}, 9: {0: 0b10000}}
    assert network.subscriptions == ("c1", "c2", "c3", "c9")
    assert network.profiles == ({0: 0b11111}, {0: 0b01100}, {}, {0: 0b10000})
    assert network.subscription_homes == ("B0", "B0", "B0", None), "B7 is no broker of the trace"
    (publisher,) = network.publishers
    assert publisher.name == f"{ADVERTISEMENT:x}" and publisher.last == 5
    assert publisher.rate == 5 / 9, "from its first publication to the end, 10 s"
