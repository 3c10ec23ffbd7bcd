"""The metrics of a trace from Spark are equal to those of lab/metrics.py: integers exactly, floats to nine digits."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from runnel.cli.commands.pipeline_report import Times, measure_all
from runnel.cli.main import main
from runnel.cli.show.report_page import write_page
from runnel.errors import InputError
from runnel.lab import metrics
from runnel.lab.run import ScenarioRun
from runnel.pipeline import doubles
from runnel.pipeline.jobs import Job
from runnel.pipeline.report import (
    PERCENTS,
    SPREAD_COLUMNS,
    WindowMetrics,
    measure_window,
    percentiles,
)
from runnel.quantities import SECOND
from runnel.trace.reader import Trace, open_trace
from support.handmade import HandMade
from support.sparked import HandMadeNetwork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXACT = ("publications_in", "publications_out", "control_in", "subscriptions", "clients")
CLOSE = ("seconds", "message_rate", "output_rate", "input_ratio", "output_ratio")


def close(value: float | None) -> Any:
    """Equal to nine digits; what was not measured is null here, and NaN in lab/metrics.py."""
    return None if value is None or math.isnan(value) else pytest.approx(value, rel=1e-9, abs=1e-12)


def check_loads(job: Job, name: str, trace: Trace, window: metrics.Window) -> None:
    expected = metrics.loads(trace, window)
    rows = {row["broker"]: row for row in job.frame(f"report/{name}/brokers").collect()}
    assert tuple(sorted(rows)) == expected.brokers
    for place, broker in enumerate(expected.brokers):
        for column in (*EXACT, "advertisements", "allocated"):
            assert rows[broker][column] == getattr(expected, column)[place], column
        for column in (*CLOSE, "matching_delay_s", "memory_bytes"):
            assert rows[broker][column] == close(getattr(expected, column)[place]), column
    went = job.frame(f"report/{name}/intervals").orderBy("seconds", "broker").collect()
    for column in ("output_rate", "queue_bytes"):
        of_each = metrics.over_time(trace, window, column)
        for broker, (seconds, values) in of_each.items():
            mine = [(row["seconds"], row[column]) for row in went if row["broker"] == broker]
            assert mine == list(zip(seconds, values, strict=True))


def check_summary(found: WindowMetrics, trace: Trace, window: metrics.Window) -> None:
    loads = metrics.loads(trace, window)
    used = loads.of(loads.allocated)
    said = found.summary
    assert (said["brokers"], said["brokers_in_use"]) == (len(loads.brokers), len(used.brokers))
    for column in SPREAD_COLUMNS:
        told = metrics.spread(getattr(used, column))
        assert said[f"{column}_mean"] == close(told.mean), column
        assert said[f"{column}_deviation"] == close(told.deviation), column
        assert said[f"{column}_maximum"] == close(told.maximum), column
    hops, delays = metrics.hop_counts(trace, window), metrics.delays(trace, window)
    assert found.hops == dict(zip(*map(list, np.unique(hops, return_counts=True)), strict=True))
    assert found.delays_ns == {p: metrics.percentile(delays, p) for p in PERCENTS}
    assert said["delay_mean_s"] == close(float(np.mean(delays)) / SECOND)
    assert (said["hops_mean"], said["hops_maximum"]) == (close(hops.mean()), hops.max())
    assert said["deliveries"] == len(delays)
    assert said["published"] == metrics.count_published(trace, window)
    forwarding = metrics.forwarding(trace, window)
    assert (said["handled"], said["pure_forwards"]) == (forwarding.handled, forwarding.pure)
    assert said["yield"] == close(forwarding.useful)
    counts = metrics.overhead(trace, window)
    assert list(found.messages.items()) == list(counts.items())
    assert said["overhead_share"] == close(metrics.overhead_share(counts))
    assert said["messages_per_s"] == close(float(loads.message_rate.sum()))


@pytest.fixture(scope="module")
def job(spark: SparkSession, run: ScenarioRun, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(spark, run.trace, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def measured(job: Job, run: ScenarioRun) -> dict[str, WindowMetrics]:
    """The trace, divided in two where the laboratory begins to measure."""
    return measure_all(job, None, Times(None, *(run.info.window_start_ns,) * 2))


@pytest.mark.parametrize("name", ["before", "after"])
def test_metrics_are_those_of_the_lab(
    job: Job, measured: dict[str, WindowMetrics], name: str
) -> None:
    trace, found = open_trace(job.traces), measured[name]
    window = metrics.Window(*found.window)
    check_loads(job, name, trace, window)
    check_summary(found, trace, window)
    assert len(found.links) == 6, "a tree of seven"
    # A second each, as intervals are; but for the last.
    taken = sum(rate * (end - math.ceil(end) + 1) for end, rate, _ in found.over_time)
    assert taken == pytest.approx(metrics.loads(trace, window).publications_in.sum())


def test_the_page_has_numbers_and_figures(
    measured: dict[str, WindowMetrics], tmp_path: Path
) -> None:
    page = write_page(tmp_path, measured, ["2 files skipped"]).read_text()
    was, now = (one.summary["brokers_in_use"] for one in measured.values())
    assert f"| brokers in use | {was} | {now} | same |" in page and "- 2 files skipped" in page
    figures = re.findall(r"\]\((\S+\.svg)\)", page)
    assert figures == ["brokers.svg", "over-time.svg", "delays.svg", "hops.svg", "networks.svg"]
    for name in figures:
        assert (tmp_path / name).stat().st_size > 1_000
        assert (tmp_path / name).with_suffix(".png").exists()
    numbers = json.loads((tmp_path / "report.json").read_text())
    assert numbers["after"]["summary"]["deliveries"] == measured["after"].summary["deliveries"]
    alone = write_page(tmp_path, {"measured": measured["after"]}, []).read_text()
    assert "change" not in alone and "Decided" not in alone


def test_one_trace_is_cut_in_two(run: ScenarioRun, measured: dict[str, WindowMetrics]) -> None:
    rows = list(open_trace(run.trace).rows("intervals"))
    began = min(row["time_ns"] - row["window_ns"] for row in rows)
    ended, cut = max(row["time_ns"] for row in rows), run.info.window_start_ns
    assert [one.window for one in measured.values()] == [(began, cut), (cut, ended)]


def test_mistakes_are_told_before_spark_starts(run: ScenarioRun) -> None:
    def told(*more: str) -> str:
        args = ["pipeline", "report", "--traces", str(run.trace), "--out", "out", *more]
        result = CliRunner().invoke(main, args)
        assert result.exit_code == 2
        return result.output

    assert "take one of them" in told("--before", str(run.trace), "--at", "3")
    assert "'noon' is no time: write seconds" in told("--at", "noon")
    assert "write the earlier time first" in told("--at", "4/3")
    assert "this is no trace" in told("--before", "nowhere")


def test_what_was_not_measured_is_null(spark: SparkSession, tmp_path: Path) -> None:
    made = HandMade(tmp_path / "trace")
    for broker, end_s in (("B0", 10), ("B0", 20), ("B1", 20)):
        made.interval(broker, end_s, publications_in=10, output_ratio=0.5 if end_s == 10 else None)
    made.interval("B2", 20)  # on standby
    made.open()
    job = Job(spark, tmp_path / "trace", tmp_path / "out")
    found = measure_window(job, "x")
    check_loads(job, "x", open_trace(tmp_path / "trace"), metrics.Window(*found.window))
    assert found.summary["brokers_in_use"] == 2 and found.summary["deliveries"] == 0
    assert found.summary["output_ratio_mean"] is None and found.summary["delay_mean_s"] is None
    assert found.summary["input_ratio_mean"] == 0.0 and found.summary["yield"] == 0.0
    with pytest.raises(InputError, match=r"no interval lies within 3\.000 s to 4\.000 s"):
        measure_window(job, "x", 3 * SECOND, 4 * SECOND)


def test_intervals_of_brokers_need_not_end_together(spark: SparkSession, tmp_path: Path) -> None:
    made = HandMade(tmp_path / "trace")
    for broker, ends in (("B0", (20, 30)), ("B1", (25, 35))):
        for end in ends:
            made.interval(broker, end, publications_in=10)
    for counter, at_s in enumerate(range(10, 40), 1):
        for broker in ("B0", "B1")[: counter % 3]:
            made.deliver(counter, 1, at_s, 0.0, broker)
    made.open()
    job = Job(spark, tmp_path / "trace", tmp_path / "out")
    found = measure_window(job, "x", 10 * SECOND, 40 * SECOND).summary
    expected = metrics.forwarding(
        open_trace(tmp_path / "trace"), metrics.Window(10 * SECOND, 40 * SECOND)
    )
    assert found["handled"] == expected.handled == 40
    assert found["pure_forwards"] == expected.pure == 40 - 14 - 6


def test_gigabytes_of_memory(spark: SparkSession, tmp_path: Path) -> None:
    """Bytes times nanoseconds exceed 64 bits."""
    made = HandMade(tmp_path / "trace")
    for end_s, window_s, memory in ((10, 10, 3 << 40), (25, 15, (3 << 40) + 1_000_000)):
        made.interval("B0", end_s, window_s, publications_in=1, memory_bytes=memory)
    made.open()
    job = Job(spark, tmp_path / "trace", tmp_path / "out")
    found = measure_window(job, "x")
    assert found.summary["memory_bytes_mean"] == pytest.approx((3 << 40) + 600_000, abs=0.01)
    check_loads(job, "x", open_trace(tmp_path / "trace"), metrics.Window(*found.window))


def copy_tables(directory: Path, *tables: str) -> None:
    """Duplicate the files of a trace, as a failed copy might."""
    for table in tables:
        for path in list((directory / table).rglob("part-*.parquet")):
            shutil.copy(path, path.with_name(path.name.replace("part-", "part-copy-")))


def record_small_network(directory: Path) -> None:
    """A hundred publications on two linked brokers, two subscriptions that receive some, two whole intervals."""
    made = HandMade(directory)
    for counter in range(1, 101):
        made.publish(counter, counter / 5)
        for subscription in (1, 2):
            if counter % (subscription + 1) == 0:
                made.deliver(counter, subscription, counter / 5, 0.1, f"B{subscription}", hops=1)
    for broker in ("B1", "B2"):
        for end_s in (10, 20, 30):
            made.interval(
                broker, end_s, publications_in=end_s, output_ratio=0.5, memory_bytes=end_s
            )
    made.open()


TWICE = "are there twice, and count once"


def test_rows_that_are_there_twice_count_once(spark: SparkSession, tmp_path: Path) -> None:
    record_small_network(tmp_path / "trace")
    plain = Job(spark, tmp_path / "trace", tmp_path / "plain")
    expected = measure_window(plain, "x", 0, 20 * SECOND)
    assert not plain.decisions.lines
    assert (expected.summary["published"], expected.summary["deliveries"]) == (99, 49 + 33)
    copy_tables(tmp_path / "trace", "publications", "deliveries", "intervals")
    job = Job(spark, tmp_path / "trace", tmp_path / "out")
    assert measure_window(job, "x", 0, 20 * SECOND) == expected
    assert job.decisions.counts == {
        f"intervals {TWICE}": 4,
        f"deliveries {TWICE}": 49 + 33,
        f"publications {TWICE}": 99,
    }
    for name in ("brokers", "intervals"):
        rows = [sorted(map(str, one.frame(f"report/x/{name}").collect())) for one in (plain, job)]
        assert rows[0] == rows[1]


def test_only_the_rows_that_are_there_twice_are_taken_out(spark: SparkSession) -> None:
    """The first of several equal rows is kept, whether the list of words is broadcast or not."""
    names = [(key, counter) for key in (1, 2) for counter in range(200)]
    rows = [(key, counter, 5, {"x": counter}) for key, counter in names]
    again = [(1, 70, 4, {"x": 1}), (2, 70, 5, {"a": 9}), (2, 199, 6, {}), (2, 199, 6, {})]
    frame = spark.createDataFrame(
        rows + again, "key int, counter long, time_ns long, messages map<string, long>"
    )
    found = doubles.count_by_word(frame, "key")
    assert doubles.count_doubles(found) == (400, 4)
    expected = {row[:2]: row[2:] for row in [*rows, *again[:2]]}
    for few in (10, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(doubles, "FEW", few)
            told = [tuple(row) for row in doubles.drop_doubles(frame, found, "key").collect()]
        assert len(told) == 400 and {row[:2]: row[2:] for row in told} == expected


def test_what_the_files_are_like_is_told_once(spark: SparkSession, tmp_path: Path) -> None:
    """The number of windows of a trace makes no difference."""
    record_small_network(tmp_path / "trace")
    (tmp_path / "other").symlink_to(tmp_path / "trace")
    for path in (tmp_path / "trace").rglob("part-*.parquet"):
        path.with_name("part-torn-000001.parquet").write_bytes(b"PAR1")
    torn = len(list((tmp_path / "trace").rglob("part-torn-*")))
    for before, times in ((None, Times(None, *(10 * SECOND,) * 2)), (tmp_path / "other", Times())):
        job = Job(spark, tmp_path / "trace", tmp_path / "out", skip_unreadable=True)
        found = measure_all(job, before, times)
        assert list(found) == ["before", "after"]
        assert list(job.decisions.counts.values()) == [torn]


def test_a_window_ends_before_its_end(spark: SparkSession, tmp_path: Path) -> None:
    """Rows at the end of a window belong to the next one; but a link that comes up then is present at the end."""
    made = HandMadeNetwork(tmp_path / "trace")
    for broker in ("B0", "B1", "B2"):
        for end_s in (10, 20):
            made.interval(broker, end_s, publications_in=1)
    for counter, at_s in ((1, 0), (2, 5), (3, 10), (4, 15)):
        made.publish(counter, at_s)
        made.deliver(counter, 1, at_s, 0.0)
    made.link("B0", "B1", 10)
    made.link("B1", "B2", 10.5)
    made.open()
    job = Job(spark, tmp_path / "trace", tmp_path / "out")
    first = measure_window(job, "x", 0, 10 * SECOND)
    assert (first.summary["published"], first.summary["deliveries"]) == (2, 2)
    assert first.links == [("B0", "B1")]
    second = measure_window(job, "x", 10 * SECOND, 20 * SECOND)
    assert (second.summary["published"], second.summary["deliveries"]) == (2, 2)
    assert second.links == [("B0", "B1"), ("B1", "B2")]


def test_percentiles_are_by_nearest_rank(spark: SparkSession) -> None:
    random = np.random.default_rng(5)
    values = [-7, -7, 0, 2**40, *(int(v) for v in random.lognormal(15, 4, 996))]
    frame = spark.createDataFrame([(value,) for value in values], "delay_ns bigint")
    wanted = (0.1, 50.0, 99.9, 100.0)
    expected = {p: metrics.percentile(np.array(values), p) for p in wanted}
    assert percentiles(frame, wanted) == expected and expected[99.9] < expected[100.0]
