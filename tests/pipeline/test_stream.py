"""A trace that is watched comes to what it comes to when it is read at once, also if the watcher is killed; once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from handmade import HandMade
from runnel.allocation.plan import BrokerLoad, Plan, from_json, to_json
from runnel.errors import InputError
from runnel.pipeline.drift import Limits
from runnel.pipeline.jobs import NETWORK_TABLES, Job
from runnel.pipeline.stream import Watch, start, wait
from sparked import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_S, HOURS, PER_HOUR = 3_600, 2, 50
LENGTH = 64  # so that the window moves on, hour by hour
LIMITS = Limits(hold=1)
PLAN = Plan(
    algorithm="FBF",
    overlay={"B0": None, "B1": "B0"},
    subscriptions={"c1": "B0", "c2": "B1"},
    publishers={"7": "B0"},
    after={"B0": BrokerLoad(10.0, 1.0, 1, 0.0, 0.0), "B1": BrokerLoad(10.0, 1.0, 1, 0.0, 0.0)},
)


class Stopped(Exception):  # noqa: N818 - named for what happens
    """The end of a process, for one that goes on living."""


def record(directory: Path) -> None:
    """Of some publications an hour c1 gets every second, c2 every third, and one that never subscribed every fourth."""
    made = HandMade(directory)
    made.subscribe(1, "a > 1", 0.0)
    made.subscribe(2, "a > 1", 0.0, broker="B1")
    for counter in range(1, HOURS * PER_HOUR):
        at_s = counter * HOUR_S / PER_HOUR
        made.publish(counter, at_s)
        for subscription, broker in ((1, "B0"), (2, "B1"), (3, "B1")):
            if counter % (subscription + 1) == 0:
                made.deliver(counter, subscription, at_s, 0.5, broker=broker)
    for broker in ("B0", "B1"):
        made.interval(broker, HOURS * HOUR_S)
    made.open()


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory: Path = tmp_path_factory.mktemp("watched") / "trace"
    record(directory)
    return directory


def run(job: Job, **more: Any) -> Watch:
    """Read what is there, one file of each table a batch."""
    watch = Watch(job, lambda: PLAN, limits=LIMITS)
    wait(watch, start(watch, once=True, files=1, **more))
    return watch


def kill_during(line: str, trace: Path, out: Path) -> None:
    """Watch in a process of its own, until it says something; then kill it, with Spark and all."""
    (out.parent / "plan.json").write_bytes(to_json(PLAN))
    said = ["--traces", str(trace), "--out", str(out), "--plan", str(out.parent / "plan.json")]
    said += ["--bits", str(LENGTH), "--hold", "1", "--files", "1", "--once"]
    process = subprocess.Popen(
        [sys.executable, "-m", "runnel", "pipeline", "watch", *said, "--memory", "1g"],
        env=os.environ | {"JDK_JAVA_OPTIONS": QUICK_JAVA},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    with process.stderr:
        heard = []
        for text in process.stderr:
            heard.append(text)
            if line in text:
                break
        os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "".join(heard)


def tables_of(job: Job) -> dict[str, list[Any]]:
    names = [*NETWORK_TABLES, "incarnations"]
    return {name: sorted(map(repr, job.frame(name).collect())) for name in names}


def test_everything_counts_once_whatever_happens(
    spark: SparkSession, trace: Path, tmp_path: Path
) -> None:
    out, told = tmp_path / "out", []  # type: tuple[Path, list[str]]

    def dies(what: str) -> None:
        told.append(what)
        if "proposes" in what:
            raise Stopped

    kill_during("batch 1: 2 new files", trace, out)
    kept = json.loads((out / "watch" / "watch.json").read_text())
    assert kept["batch"] == 0 and not (out / "proposals").exists()
    # A proposal is there, but that the batch is done was not said any more.
    with pytest.raises(Stopped):
        run(Job(spark, trace, out, LENGTH, tell=dies))
    assert "batch 1: 2 new files" in told and "batch 0: was done before" not in told
    assert (out / "proposals" / "1.json").exists()
    job = Job(spark, trace, out, LENGTH)
    kept_now = run(job).kept
    assert (kept_now.batch, kept_now.proposals, kept_now.query) == (1, 1, kept["query"])
    proposal = from_json((out / "proposals" / "1.json").read_bytes())
    assert proposal.brokers == 1 and sorted(os.listdir(out / "proposals")) == ["1.json"]
    at_once = Job(spark, trace, tmp_path / "at once", LENGTH)
    at_once.profiles()
    assert tables_of(job) == tables_of(at_once)
    at_once.network()  # which counts what it does not plan for, as a proposal does
    assert job.reading.decisions.items() >= at_once.reading.decisions.items() - {
        ("brokers have no measured output, and count as unlimited", 2)
    }

    # Spark was killed after all was done, and before it knew.
    (out / "watch" / "checkpoint" / "commits" / "1").unlink()
    (out / "watch" / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    told.clear()
    assert run(Job(spark, trace, out, LENGTH, tell=told.append)).kept == kept_now
    assert told == ["batch 1: was done before"]
    assert sorted(os.listdir(out / "watch" / "streams")) == ["1"]

    # What does not belong together is not put together.
    with pytest.raises(InputError, match=r"profiles of 64 bits are kept: take --bits 64"):
        run(Job(spark, trace, out, 128))
    for path in sorted((out / "watch" / "checkpoint").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match="what is kept is of another checkpoint: remove"):
        run(Job(spark, trace, out, LENGTH))
