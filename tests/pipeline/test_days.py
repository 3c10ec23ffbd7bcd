"""Days are read once: profiles that are updated while a trace grows are those of the whole trace."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from runnel.errors import InputError
from runnel.pipeline.jobs import Job
from runnel.pipeline.tables import open_tables
from runnel.quantities import SECOND
from support.handmade import HandMade
from support.sparked import profiles_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_S = 86_400
LENGTH = 64
A_DAY = 32  # publications


def record_three_days(directory: Path) -> None:
    """Publications on three days; subscription 1 receives every second of them, subscription 2 every third."""
    made = HandMade(directory)
    for counter in range(1, 3 * A_DAY):
        at_s = counter // A_DAY * DAY_S + counter % A_DAY * 60
        made.publish(counter, at_s)
        for subscription in (1, 2):
            if counter % (subscription + 1) == 0:
                made.deliver(counter, subscription, at_s, 1)
    made.interval("B0", 3 * DAY_S)
    made.open()


def test_a_day_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    whole, growing, out = tmp_path / "whole", tmp_path / "growing", tmp_path / "out"
    record_three_days(whole)
    shutil.copytree(whole, growing)
    later = [
        path
        for path in growing.rglob("hour=*")
        if int(path.name.removeprefix("hour=")) >= 48 and path.parent.name != "intervals"
    ]
    for path in later:
        shutil.move(path, tmp_path / f"{path.parent.name}-{path.name}")
    told: list[str] = []
    job = Job(spark, growing, out, LENGTH, tell=told.append)
    job.make_profiles()
    assert [line for line in told if line.startswith("reading")] == [
        *("reading day 0 (1 of 2)", "reading day 1 (2 of 2)")
    ]
    for path in later:
        shutil.move(tmp_path / f"{path.parent.name}-{path.name}", path)
    told.clear()
    job.make_profiles()
    assert [line for line in told if line.startswith("reading")] == ["reading day 2 (3 of 3)"]
    every = {
        subscription: sum(1 << (n - 32) for n in range(32, 96) if n % (subscription + 1) == 0)
        for subscription in (1, 2)
    }
    assert profiles_of(job.frame("vectors")) == {id: {0: bits} for id, bits in every.items()}
    (publisher,) = job.frame("publishers").collect()
    assert (publisher["last"], publisher["span"]) == (95, LENGTH)
    assert publisher["rate"] == 2 * A_DAY / (2 * DAY_S), "of the last two days"
    decided = dict(job.decisions.counts)
    told.clear()
    job.make_profiles()
    assert told[-1] == "nothing is new" and job.decisions.counts == decided != {}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    record_three_days(tmp_path / "trace")
    return tmp_path / "trace"


def bits_of(job: Job) -> dict[int, int]:
    """The number of bits of each subscription."""
    return {row["subscription"]: row["ones"] for row in job.frame("vectors").collect()}


def test_files_that_come_late_are_not_left_out(
    spark: SparkSession, trace: Path, tmp_path: Path
) -> None:
    late = HandMade(tmp_path / "late")
    late.deliver(95, 7, 2 * DAY_S + 1_860, 1)
    late.open()
    told: list[str] = []
    job = Job(spark, trace, tmp_path / "out", LENGTH, tell=told.append)
    job.make_profiles()
    assert bits_of(job) == {1: 32, 2: 21}
    (path,) = (trace / "deliveries" / "hour=48").iterdir()
    (other,) = (tmp_path / "late" / "deliveries").rglob("part-*")
    shutil.copy(other, path.with_name("part-late-000001.parquet"))
    told.clear()
    job.make_profiles()
    assert [line for line in told if "reading" in line] == ["reading day 2 (3 of 3)"]
    assert bits_of(job) == {1: 32, 2: 21, 7: 1}


def test_what_is_kept_is_of_one_trace_and_one_length(
    spark: SparkSession, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a run with another length was killed in between, and left its days behind."""
    out = tmp_path / "out"
    Job(spark, trace, out, LENGTH).make_profiles()
    killed = Job(spark, trace, out, 32)
    with monkeypatch.context() as patch:
        patch.setattr(Job, "merge_days", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            killed.make_profiles()
    job = Job(spark, trace, out, LENGTH)
    job.make_profiles()
    assert bits_of(job) == {1: 32, 2: 21}
    # Another trace, with files of the same names and sizes.
    shutil.copytree(trace, tmp_path / "other")
    for path in (tmp_path / "other" / "deliveries").rglob("part-*"):
        table = pq.read_table(path)
        ids = pc.add(table["subscription"], 10)
        pq.write_table(table.set_column(3, table.schema.field("subscription"), ids), path)
    job = Job(spark, tmp_path / "other", out, LENGTH)
    job.make_profiles()
    assert bits_of(job) == {11: 32, 12: 21}


def test_as_if_the_trace_had_ended_before(spark: SparkSession, trace: Path, tmp_path: Path) -> None:
    until = Job(spark, trace, tmp_path / "out", LENGTH, until_ns=(DAY_S + 300) * SECOND)
    until.make_profiles()
    (publisher,) = until.frame("publishers").collect()
    assert publisher["last"] == A_DAY + 4
    whole = Job(spark, trace, tmp_path / "out", LENGTH)
    whole.make_profiles()
    (publisher,) = whole.frame("publishers").collect()
    assert publisher["last"] == 3 * A_DAY - 1 and bits_of(whole) == {1: 32, 2: 21}


def test_characters_that_stand_for_others_are_taken_as_they_are(
    spark: SparkSession, trace: Path, tmp_path: Path
) -> None:
    shutil.copytree(trace, tmp_path / "q[1]")
    late = HandMade(tmp_path / "q1")
    late.deliver(1, 9, 0, 1)
    late.open()
    found = open_tables(tmp_path / "q[1]").frame(spark, "deliveries")
    assert {row[0] for row in found.select("subscription").distinct().collect()} == {1, 2}


def test_files_of_other_names_are_told(trace: Path) -> None:
    path = next((trace / "deliveries").rglob("part-*"))
    shutil.copy(path, path.with_name("copy.parquet"))
    assert open_tables(trace).decisions.lines == [
        "1 files are not named as brokers name them, and were not read"
    ]


def test_a_list_of_days_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    record_three_days(tmp_path / "trace")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "days.json").write_text("{")
    with pytest.raises(InputError, match=r"days\.json: cannot be read.*remove it"):
        Job(spark, tmp_path / "trace", tmp_path / "out").make_profiles()
