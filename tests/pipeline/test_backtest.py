"""Backtests give the same results as a plain join in Spark; and errors in proposals are reported."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from runnel.errors import InputError
from runnel.lab.run import ScenarioRun
from runnel.language import parse
from runnel.pipeline import backtest as under_test
from runnel.pipeline.backtest import backtest
from runnel.pipeline.jobs import Job
from runnel.pipeline.proposals import Proposals, parse_proposals, read_proposals
from runnel.trace.reader import open_trace
from support.handmade import HandMade

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILTERS = [
    *("symbol = 'YHOO'", "symbol = 'MSFT' AND volume > 100000", "volume > 50000", "volume < 9e9"),
    *(
        "low < 20 OR high > 50",
        "symbol LIKE 'Y%'",
        "symbol IN ('INTC', 'CSCO')",
        "symbol <> 'YHOO'",
    ),
    *("high BETWEEN 10 AND 60 AND low > 12", "NOT (volume > 50000)", "nothing = 1"),
    *("nothing IS NULL AND closeEqualsLow = 'true'", "symbol >= 'M' AND symbol < 'N'", "TRUE"),
]
NUMBERS = ("high", "low", "volume")
COLUMNS = ("subscription", "publications", "bytes", "publishers", "first_ns", "last_ns")


def make_proposals(*filters: str) -> Proposals:
    return Proposals([f"s{n}" for n in range(len(filters))], list(filters))


def join_in_sql(spark: SparkSession, run: ScenarioRun) -> list[tuple[Any, ...]]:
    """The same by SQL alone."""
    events = []
    for row in open_trace(run.trace).rows("publications"):
        about = {name: row[name] for name in ("time_ns", "size_bytes", "publisher")}
        events.append({**row["attributes"], **about, "nothing": None})
    columns = [f"`{name}` string" for name in ("symbol", "closeEqualsLow", "publisher")]
    columns += [f"{name} double" for name in NUMBERS]
    columns += ["time_ns bigint", "size_bytes bigint", "nothing int"]
    names = [column.split()[0].strip("`") for column in columns]
    rows = [tuple(float(e[name]) if name in NUMBERS else e[name] for name in names) for e in events]
    spark.createDataFrame(rows, ", ".join(columns)).createOrReplaceTempView("events")
    wanted = " OR ".join(f"(s.place = {n} AND ({text}))" for n, text in enumerate(FILTERS))
    places = ", ".join(f"({n})" for n in range(len(FILTERS)))
    found = spark.sql(
        "SELECT concat('s', place), count(size_bytes), coalesce(sum(size_bytes), 0), "
        "count(DISTINCT publisher), min(time_ns), max(time_ns) "
        f"FROM (VALUES {places}) AS s(place) LEFT JOIN events ON {wanted} GROUP BY place"
    )
    return sorted(tuple(row) for row in found.collect())


def test_it_is_what_a_join_says(spark: SparkSession, run: ScenarioRun, tmp_path: Path) -> None:
    job = Job(spark, run.trace, tmp_path)
    found = backtest(job, make_proposals(*FILTERS))
    rows = sorted(tuple(row) for row in job.frame("backtest").select(*COLUMNS).collect())
    expected = join_in_sql(spark, run)
    assert rows == expected
    assert sum(row[1] for row in expected) == found["matches"] > 3_000
    assert [row[0] for row in expected if row[1] == 0] == ["s10"]
    assert max(row[3] for row in expected) == 5, "publishers"
    assert job.decisions.counts == {"subscriptions would have got nothing": 1}
    one = job.frame("backtest").where("subscription = 's13'").first()
    assert one is not None and one["filter"] == "TRUE"
    seconds = (one["last_ns"] - one["first_ns"]) / 1e9
    assert one["rate"] == one["publications"] / seconds
    assert one["bandwidth"] == one["bytes"] / seconds


def test_chunks_add_up(run: ScenarioRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of chunks makes no difference."""
    parts = open_trace(run.trace).folder.parts("publications")
    table = pa.concat_tables(pq.read_table(part.path) for part in parts)
    rows = table.drop_columns("publisher").append_column("publisher", table["advertisement"])
    selections = [pickle.dumps(parse(text)) for text in FILTERS]
    found = []
    for chunk in (1 << 18, 100):
        monkeypatch.setattr(under_test, "ROWS", chunk)
        (batch,) = under_test._make_matcher(selections)(iter(rows.to_batches(max_chunksize=64)))
        found.append(batch.to_pylist())
    assert found[0] == found[1] and len(found[0]) == len(FILTERS)


def test_a_publisher_is_one_however_often_it_advertised(spark: SparkSession) -> None:
    """c/p has two incarnations, d/p one; 8 and 9 are from before the trace began, and are publishers of their own."""
    told = [
        *((1, "c", "made", 1), (2, "c", "withdrawn", 1), (3, "c", "made", 2)),
        (4, "d", "made", 3),
    ]
    advertisements = spark.createDataFrame(
        [(time_ns, "B0", client, event, id, "p") for time_ns, client, event, id in told],
        "time_ns long, broker string, client string, event string, advertisement long, "
        "publisher string",
    )
    published = spark.createDataFrame(
        [(id, 10 * id, 100, b"\x80") for id in (1, 2, 3, 8, 9)],
        "advertisement long, time_ns long, size_bytes long, attributes binary",
    )
    known = under_test.number_publishers(advertisements, advertisements.select("client"))
    everything = [pickle.dumps(parse("TRUE"))]
    rows = under_test.sum_over_tasks(
        under_test.match_proposals(published, known, everything)
    ).collect()
    (found,) = [row for row in rows if row["place"] == 0]
    assert (found["publications"], found["publishers"]) == (5, 4)
    assert (found["bytes"], found["first_ns"], found["last_ns"]) == (500, 10, 90)


# -- bad input ------------------------------------------------------------------------------------------


NONSENSE = [
    b"\xc1",
    b"",
    b"\x81\xa1a\xa1\xff",  # no UTF-8
    b"\x81\xa1a\xcf" + b"\xff" * 8,  # no int of 64 bits
]


def test_what_is_decided_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    hand = HandMade(tmp_path / "trace")
    for counter in range(1, 101):
        hand.publish(counter, 100 - counter, a=counter)  # by a clock that runs backwards
    hand.open()
    (path,) = (tmp_path / "trace" / "publications").rglob("part-*.parquet")
    shutil.copy(path, path.with_name("part-copy-000001.parquet"))
    table = pq.read_table(path)
    few = table.slice(0, len(NONSENSE))
    for name, values in (("attributes", NONSENSE), ("counter", range(101, 101 + len(NONSENSE)))):
        kind = few.schema.field(name)
        few = few.set_column(few.column_names.index(name), kind, pa.array(values, kind.type))
    pq.write_table(few, path.with_name("part-more-000001.parquet"))
    job = Job(spark, tmp_path / "trace", tmp_path / "out")
    backtest(job, make_proposals("a > 90", "a > 1 AND a < 1", "TRUE"))
    assert job.decisions.counts == {
        "filters contradict themselves: no publication can ever match": 1,
        "publications are there twice, and count once": 100,
        "advertisements were made before the trace began: each counts as a publisher": 1,
        "publications have attributes that make no sense: they match nothing": len(NONSENSE),
        "subscriptions would have got nothing": 1,
    }
    rows = {row["subscription"]: row for row in job.frame("backtest").collect()}
    assert [rows[f"s{n}"]["publications"] for n in range(3)] == [10, 0, 100]
    assert (rows["s0"]["first_ns"], rows["s0"]["last_ns"]) == (0, 9_000_000_000)
    assert rows["s1"]["first_ns"] is None and rows["s1"]["publishers"] == 0
    assert rows["s2"]["publishers"] == 1


def test_a_trace_without_publications(spark: SparkSession, tmp_path: Path) -> None:
    hand = HandMade(tmp_path / "trace")
    hand.deliver(1, 1, 1.0, 0.5)
    hand.open()
    with pytest.raises(InputError, match=r"there are no publications in it.*publications = true"):
        backtest(Job(spark, tmp_path / "trace", tmp_path / "out"), make_proposals("a > 1"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a > 1\n\n# no more\nb >\n", r"subscription '4': .*expected"),
        ("x\ta > 1\ny\t \n", "subscription 'y': the filter is empty: .* write TRUE"),
    ],
)
def test_a_filter_that_makes_no_sense_is_named(
    spark: SparkSession, tmp_path: Path, text: str, complaint: str
) -> None:
    (tmp_path / "proposed.txt").write_text(text)
    with pytest.raises(InputError, match=complaint):
        parse_proposals(spark, read_proposals(tmp_path / "proposed.txt"))


def test_proposals_come_as_text_or_parquet(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("# mine\na > 1\n\nall\tTRUE\n")
    assert read_proposals(tmp_path / "one.txt") == Proposals(["2", "all"], ["a > 1", "TRUE"])
    pq.write_table(
        pa.table({"subscription": [7, 8], "filter": ["a > 1", "b"]}), tmp_path / "two.parquet"
    )
    assert read_proposals(tmp_path / "two.parquet") == Proposals(["7", "8"], ["a > 1", "b"])


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("none.txt", None, "there is no such file"),
        ("empty.txt", "\n# nothing\n", "there is no filter in it: write one per line"),
        ("twice.txt", "x\ta > 1\nx\ta > 2\n", "the name 'x' is there twice"),
        ("torn.parquet", "PAR1", "must have the columns subscription and filter"),
        ("lacks.parquet", pa.table({"filter": ["a > 1"]}), "must have the columns"),
        ("null.parquet", pa.table({"subscription": ["x"], "filter": [None]}), "is null: fill it"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: Any, complaint: str) -> None:
    path = tmp_path / name
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    elif content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=complaint):
        read_proposals(path)
