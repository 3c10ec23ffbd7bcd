"""A trace as a data source for Spark, and the conditions that are evaluated while files are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from runnel.lab.run import ScenarioRun
from runnel.pipeline.source import FilePartition, RowFilter, TraceReader
from runnel.pipeline.tables import spark_schema
from runnel.quantities import SECOND
from runnel.trace.reader import open_trace
from runnel.trace.schemas import TABLES
from support.handmade import HandMade

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_all_tables_come_with_their_schemas(spark: SparkSession, run: ScenarioRun) -> None:
    trace = open_trace(run.trace)
    for table in TABLES:
        frame = spark.read.format("runnel-trace").option("table", table).load(str(run.trace))
        assert frame.schema.names == spark_schema(table).names
    frame = spark.read.format("runnel-trace").load(str(run.trace))
    got = frame.where("broker = 'B1' AND time_ns >= 2000000000 AND hops > 0")
    expected = [
        row
        for row in trace.rows("deliveries", start_ns=2 * SECOND, brokers=["B1"])
        if row["hops"] > 0
    ]
    assert expected and sorted(map(str, (row.asDict() for row in got.collect()))) == sorted(
        map(str, expected)
    )


def test_conditions_reach_the_files(tmp_path: Path) -> None:
    made = HandMade(tmp_path)
    for hour in range(3):
        for broker in ("B1", "B2"):
            made.publish(hour + 1, hour * 3_600 + 60, broker)
    made.open()
    reader = TraceReader(tmp_path, "publications")
    conditions = [
        GreaterThanOrEqual(("time_ns",), 3_600 * SECOND),
        LessThan(("time_ns",), 7_200 * SECOND),
        In(("broker",), ("B2", "B3")),
        EqualTo(("counter",), 2),
    ]
    assert list(reader.pushFilters(list(conditions))) == conditions, "Spark checks them again"
    (only,) = reader.partitions()
    assert isinstance(only, FilePartition) and only.part.hour == 1
    rows = [row for batch in reader.read(only) for row in batch.to_pylist()]
    assert [(row["broker"], row["counter"]) for row in rows] == [("B2", 2)]


def test_conditions_narrow_each_other() -> None:
    wanted = RowFilter()
    for condition in (
        *(EqualTo(("time_ns",), 7), LessThan(("time_ns",), 100)),
        *(In(("broker",), ("A", "B")), EqualTo(("broker",), "B")),
    ):
        wanted.narrow(condition)
    assert wanted == RowFilter(7, 8, ("B",))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (EqualTo(("time_ns",), 7), RowFilter(7, 8)),
        (GreaterThan(("time_ns",), 7), RowFilter(8)),
        (GreaterThanOrEqual(("time_ns",), 7), RowFilter(7)),
        (LessThan(("time_ns",), 7), RowFilter(None, 7)),
        (LessThanOrEqual(("time_ns",), 7), RowFilter(None, 8)),
    ],
)
def test_a_moment_is_within_what_includes_it(condition: Filter, expected: RowFilter) -> None:
    wanted = RowFilter()
    wanted.narrow(condition)
    assert wanted == expected


def test_no_such_table(spark: SparkSession, run: ScenarioRun) -> None:
    with pytest.raises(PySparkException, match="there is no table 'publication'"):
        spark.read.format("runnel-trace").option("table", "publication").load(str(run.trace))
