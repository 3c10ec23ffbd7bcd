"""What every job of `runnel pipeline` shares: its options, a session to run in, and how it tells what it found."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from runnel.allocation.profiles import BITS
from runnel.cli.tables import make_table, show
from runnel.errors import InputError
from runnel.pipeline.session import LOCAL, MEMORY, make_session, require_spark, ui_address
from runnel.trace.reader import open_trace
from runnel.trace.window import time_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from runnel.pipeline.jobs import Job

directory = click.Path(file_okay=False, path_type=Path)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every job is told."""
    for option in reversed(
        (
            click.option(
                "--traces",
                required=True,
                type=directory,
                metavar="DIR",
                help="What brokers recorded.",
            ),
            click.option(
                "--out",
                required=True,
                type=directory,
                metavar="DIR",
                help="Where Parquet is kept; the same one next time, and only new days are read.",
            ),
            click.option(
                "--master",
                default=LOCAL,
                show_default=True,
                metavar="M",
                help="Where Spark runs: local[2], spark://HOST:PORT, yarn, k8s://URL, sc://HOST:PORT.",
            ),
            click.option(
                "--memory", default=MEMORY, show_default=True, help="What Spark's process may take."
            ),
            click.option(
                "--bits",
                default=BITS,
                show_default=True,
                type=click.IntRange(64, 65_536),
                help="How many publications of a publisher a profile remembers.",
            ),
            click.option(
                "--skip-unreadable",
                is_flag=True,
                help="Go on without files that cannot be read; they are counted.",
            ),
        )
    ):
        command = option(command)
    return command


to_option = click.option(
    "--to",
    metavar="TIME",
    help="As if the trace ended then: in seconds, as `runnel trace show` has it, or '2026-01-31 12:30:00' in UTC.",
)


@contextmanager
def running_job(told: dict[str, Any]) -> Iterator[Job]:
    """A session and a job in it; what can be seen to be wrong is said before Spark takes its time to start."""
    open_trace(told["traces"])
    until_ns = time_of("--to", told.get("to"))
    _make_out(told["out"], told["traces"])
    require_spark()
    from runnel.pipeline.jobs import Job

    began = perf_counter()

    def tell(what: str) -> None:
        click.echo(f"{perf_counter() - began:7.1f} s  {what}", err=True)

    tell(f"starting Spark, {told['master']}")
    spark = make_session(
        told["master"], memory=told["memory"], progress=sys.stderr.isatty(), name="runnel pipeline"
    )
    address = ui_address(spark)
    if address:
        tell(f"watch it at {address}")
    # Spark's own way with Ctrl-C is to ask Java for something in the middle of an answer of its.
    signal.signal(signal.SIGINT, _interrupt)
    job = Job(spark, told["traces"], told["out"], told["bits"], told["skip_unreadable"], tell=tell)
    job.until_ns = until_ns
    try:
        yield job
        tell("done")
    except KeyboardInterrupt:
        _hush(spark)
        tell("interrupted; run it again, and it goes on where it was")
        raise
    finally:
        spark.stop()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C, once: what falls over in the middle of something has nothing to tell, and ending takes a moment."""
    logging.disable(logging.CRITICAL)
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _hush(spark: SparkSession) -> None:
    """Spark says nothing more. The connection that was interrupted is the first to be tried, and in vain."""
    for _ in range(2):
        with suppress(Exception):  # also: a session of Spark Connect has no context
            spark.sparkContext.setLogLevel("OFF")
            spark.sparkContext.cancelAllJobs()


def _make_out(out: Path, traces: Path) -> None:
    """Make the directory for what comes out; an InputError if it cannot be, or would be among what was recorded."""
    whole, trace = out.resolve(), traces.resolve()
    if trace == whole or trace in whole.parents:
        raise InputError(
            f"--out: {out} is in {traces}: what is written there would take the place of what brokers recorded; "
            "choose another directory"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out):
            pass
    except OSError as error:
        raise InputError(f"--out: {out}: {error.strerror}: choose another directory") from None


def tell_table(job: Job, title: str, found: dict[str, int]) -> None:
    """One row of counts, and what was decided on the way."""
    table = make_table(title, *found)
    table.add_row(*(f"{count:,}" for count in found.values()))
    show(table)
    tell_decisions(job)


def tell_decisions(job: Job) -> None:
    """What was decided about what is not as it should be."""
    if job.reading.lines:
        click.echo("decided on the way:")
        for line in job.reading.lines:
            click.echo(f"  {line}")
