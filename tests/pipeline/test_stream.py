"""Watching a trace gives the same result as reading it at once, exactly once, also if the watcher is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from runnel.errors import InputError
from runnel.pipeline.drift import DriftLimits, Memory, plan_digest
from runnel.pipeline.inventory import make_inventory
from runnel.pipeline.jobs import NETWORK_TABLES, Job
from runnel.pipeline.stream import Watch, start_watch, wait_for_watch
from runnel.planning.documents.plan import BrokerLoad, Plan, from_json, to_json
from support.handmade import HandMade
from support.sparked import QUICK_JAVA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_S, HOURS, PER_HOUR = 3_600, 3, 50
LENGTH = 64  # so that the window moves on, hour by hour
LIMITS = DriftLimits(hold=1)
PLAN = Plan(
    algorithm="FBF",
    overlay={"B0": None, "B1": "B0"},
    subscriptions={"c1": "B0", "c2": "B1"},
    publishers={"7": "B0"},
    after={"B0": BrokerLoad(10.0, 1.0, 1, 0.0, 0.0), "B1": BrokerLoad(10.0, 1.0, 1, 0.0, 0.0)},
)


class ProcessEnded(Exception):  # noqa: N818 - named for what happens
    """Stands for the end of the process in a test that goes on."""


def record_hours(directory: Path) -> None:
    """Publications in several hours: c1 receives every second, c2 every third, an unknown subscriber every fourth."""
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


def watch_once(job: Job) -> Watch:
    """Read the present files, one file of each table per batch."""
    watch = Watch(job, lambda: PLAN, limits=LIMITS)
    wait_for_watch(watch, start_watch(watch, once=True, files=1))
    return watch


def kill_during(line: str, trace: Path, out: Path) -> None:
    """Watch in a separate process until it prints a line; then kill it together with Spark."""
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


def forget_batch(out: Path, batch: int) -> None:
    """Make Spark treat a batch as unfinished."""
    commits = out / "watch" / "checkpoint" / "commits"
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)


def tables_of(job: Job) -> dict[str, list[Any]]:
    names = [*NETWORK_TABLES, "incarnations"]
    return {name: sorted(map(repr, job.frame(name).collect())) for name in names}


def test_everything_counts_once_whatever_happens(spark: SparkSession, tmp_path: Path) -> None:
    trace, out, told = tmp_path / "trace", tmp_path / "out", []  # type: tuple[Path, Path, list[str]]
    record_hours(trace)
    later = [trace / name / "hour=2" for name in ("publications", "deliveries")]
    for path in later:
        shutil.move(path, tmp_path / path.parent.name)

    def dies(what: str) -> None:
        told.append(what)
        if "proposes" in what:
            raise ProcessEnded

    kill_during("batch 1: 2 new files", trace, out)
    kept = json.loads((out / "watch" / "watch.json").read_text())
    assert kept["batch"] == 0 and not (out / "proposals").exists()
    # It dies as soon as a proposal is there; and brokers go on for an hour.
    with pytest.raises(ProcessEnded):
        watch_once(Job(spark, trace, out, LENGTH, tell=dies))
    assert "batch 1: 2 new files" in told and "batch 0: was done before" not in told
    proposal = (out / "proposals" / "1.json").read_bytes()
    assert from_json(proposal).brokers == 1
    for path in later:
        shutil.move(tmp_path / path.parent.name, path)
    told.clear()
    job = Job(spark, trace, out, LENGTH, tell=told.append)
    kept_now = watch_once(job).state
    assert told[:2] == ["batch 1: was done before", "batch 2: 2 new files"]
    assert (kept_now.batch, kept_now.proposals, kept_now.query) == (2, 1, kept["query"])
    assert sorted(os.listdir(out / "proposals")) == ["1.json"]
    assert (out / "proposals" / "1.json").read_bytes() == proposal, "as it was decided then"
    at_once = Job(spark, trace, tmp_path / "at once", LENGTH)
    at_once.make_profiles()
    assert tables_of(job) == tables_of(at_once)
    at_once.make_network()  # which counts what it does not plan for, as a proposal does
    assert job.decisions.counts.items() >= at_once.decisions.counts.items() - {
        ("brokers have no measured output, and count as unlimited", 2)
    }

    # It was killed after all was done, and before Spark knew.
    forget_batch(out, 2)
    told.clear()
    assert watch_once(Job(spark, trace, out, LENGTH, tell=told.append)).state == kept_now
    assert told == ["batch 2: was done before"]
    assert sorted(os.listdir(out / "watch" / "streams")) == ["2"]

    # What does not belong together is not put together.
    with pytest.raises(InputError, match=r"profiles of 64 bits are kept: take --bits 64"):
        watch_once(Job(spark, trace, out, 128))
    for path in sorted((out / "watch" / "checkpoint").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(InputError, match="what is kept is of another checkpoint: remove"):
        watch_once(Job(spark, trace, out, LENGTH))


DAY_S, A_DAY = 24 * HOUR_S, 50
END_S = 80 * HOUR_S
LATE_S = 4 * HOUR_S


def record_days(directory: Path) -> None:
    """Publications in an hour of day 0 and one of day 3: c1 receives all, c2 half of them hours later, number 5 twice.

    Before that there are two files of each table that cannot be read.
    """
    made = HandMade(directory)
    made.subscribe(1, "a > 1", 0.0)
    made.subscribe(2, "a > 1", 0.0, broker="B1")
    for counter in range(1, 2 * A_DAY + 1):
        at_s = HOUR_S + (counter - 1) // A_DAY * 3 * DAY_S + counter
        made.publish(counter, at_s)
        for _ in range(2 if counter == 5 else 1):
            made.deliver(counter, 1, at_s, 0.5)
        if counter > A_DAY and counter % 2:
            made.deliver(counter, 2, at_s, LATE_S, broker="B1")
    for broker in ("B0", "B1"):
        made.interval(broker, END_S)
    made.open()
    for table in ("publications", "deliveries"):
        (directory / table / "hour=0").mkdir()
        for number in (900_001, 900_002):
            torn = directory / table / "hour=0" / f"part-hand-{number}.parquet"
            torn.write_bytes(b"PAR1")
        for path in (directory / table).rglob("*.parquet"):
            changed = 1_700_000_000 + int(path.parent.name.removeprefix("hour="))
            os.utime(path, (changed, changed))  # the order in which they are read


def test_days_are_watched_for_the_brokers_that_there_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    trace, out, told = tmp_path / "trace[1]", tmp_path / "out[1]", []  # type: tuple[Path, Path, list[str]]
    record_days(trace)
    rate = A_DAY / (END_S - 2 * DAY_S)
    loads = {
        name: BrokerLoad(part * rate, 1.0, 1, 0.0, 0.0) for name, part in (("B0", 1.0), ("B1", 0.5))
    }
    plan = replace(PLAN, after=loads)  # what there is: but that is too much for the brokers
    little, much = {"output_bytes_per_s": 0.001}, {"output_bytes_per_s": "unlimited"}
    inventory = make_inventory(
        {
            "constraints": {"head_room_percent": 30},
            "brokers": {"B0": little, "B1": little, "W1": much},
        }
    )
    job = Job(spark, trace, out, LENGTH, skip_unreadable=True, tell=told.append)
    watch = Watch(job, lambda: plan, inventory, LIMITS)
    (out / "proposals").mkdir(parents=True)
    (out / "proposals" / "6.json").write_text("from an earlier watch")
    wait_for_watch(watch, start_watch(watch, once=True, files=2))
    said = [line for line in told if line.startswith("batch")]
    assert said[:6] == [
        "batch 0: 4 new files",
        "batch 0: more is to be read before anything is judged",  # nothing of it could be read
        "batch 1: 4 new files",
        "batch 1: more is to be read before anything is judged",  # deliveries, though only they
        "batch 2: 1 new files",
        "batch 2: 0.0 messages/s, planned 0.0; 2 of 2 brokers overloaded, 0 newcomers",
    ]
    (publisher,) = job.frame("publishers").collect()
    assert publisher["rate"] == rate, "of the last two days, in which day 0 has no part"
    assert (
        job.decisions.counts["deliveries within the windows are there twice, and count once"] == 1
    )
    proposal = (out / "proposals" / "7.json").read_bytes()
    proposed = from_json(proposal)
    assert proposed.overlay == {"W1": None} and proposed.asked is not None
    assert proposed.asked.headroom_percent == 30
    kept = watch.state
    rests = Memory(plan_digest(plan), 0, False, LIMITS.rest, (plan_digest(proposed),))
    assert (kept.proposals, kept.memory) == (7, rests)

    # It was killed between its decision and the proposal.
    forget_batch(out, 2)
    (out / "proposals" / "7.json").unlink()
    wait_for_watch(watch, start_watch(watch, once=True, files=2))
    assert (out / "proposals" / "7.json").read_bytes() == proposal and watch.state == kept
    assert (out / "proposals" / "6.json").read_text() == "from an earlier watch"
