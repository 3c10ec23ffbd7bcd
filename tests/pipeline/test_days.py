"""Days are read once: what comes of a trace that grows is what comes of all of it at once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from handmade import HandMade
from runnel.errors import InputError
from runnel.pipeline.jobs import Job
from runnel.pipeline.tables import open_tables
from sparked import profiles_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_S = 86_400
LENGTH = 64
A_DAY = 32  # publications


def grown(directory: Path) -> None:
    """Publications on three days; the subscriptions 1 and 2 get every second and third."""
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
    grown(whole)
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
    job.profiles()
    assert [line for line in told if line.startswith("reading")] == [
        *("reading day 0 (1 of 2)", "reading day 1 (2 of 2)")
    ]
    for path in later:
        shutil.move(tmp_path / f"{path.parent.name}-{path.name}", path)
    told.clear()
    job.profiles()
    assert [line for line in told if line.startswith("reading")] == ["reading day 2 (3 of 3)"]
    every = {
        subscription: sum(1 << (n - 32) for n in range(32, 96) if n % (subscription + 1) == 0)
        for subscription in (1, 2)
    }
    assert profiles_of(job.frame("vectors")) == {id: {0: bits} for id, bits in every.items()}
    (publisher,) = job.frame("publishers").collect()
    assert (publisher["last"], publisher["span"]) == (95, LENGTH)
    assert publisher["rate"] == 2 * A_DAY / (2 * DAY_S), "of the last two days"
    assert job._read_days(open_tables(growing)) == 0, "nothing is new"


def test_a_list_of_days_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    grown(tmp_path / "trace")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "days.json").write_text("{")
    with pytest.raises(InputError, match=r"days\.json: cannot be read.*remove it"):
        Job(spark, tmp_path / "trace", tmp_path / "out").profiles()
