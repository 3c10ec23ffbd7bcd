"""What all commands on Spark share: their options, a session to run in, and the counts that they print.

`runnel plan` has some of these options too, so nothing that loads Arrow or Spark is imported at the top.
"""

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

from runnel.cli.show.tables import make_table, show
from runnel.errors import InputError
from runnel.pipeline.session import LOCAL, MEMORY, make_session, require_spark, ui_address
from runnel.planning.profiles import BITS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from runnel.pipeline.jobs import Job

directory = click.Path(file_okay=False, path_type=Path)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every job."""
    command = spark_options(command)
    command = click.option(
        "--out",
        required=True,
        type=directory,
        metavar="DIR",
        help="Where Parquet is kept; the same one next time, and only new days are read.",
    )(command)
    return click.option(
        "--traces", required=True, type=directory, metavar="DIR", help="What brokers recorded."
    )(command)


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where Spark runs, and how it reads traces."""
    for option in reversed(
        (
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
                metavar="N",
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
def open_job(options: dict[str, Any]) -> Iterator[Job]:
    """A Spark session with a job in it. Mistakes that can be found without Spark are reported before it starts."""
    from runnel.trace.reader import open_trace  # Arrow takes a while to load
    from runnel.trace.window import time_of

    open_trace(options["traces"])
    until_ns = time_of("--to", options.get("to"))
    _make_out(options["out"], options["traces"])
    require_spark()
    from runnel.pipeline.jobs import Job

    began = perf_counter()

    def tell(what: str) -> None:
        click.echo(f"{perf_counter() - began:7.1f} s  {what}", err=True)

    tell(f"starting Spark, {options['master']}")
    spark = make_session(
        options["master"],
        memory=options["memory"],
        progress=sys.stderr.isatty(),
        name="runnel pipeline",
    )
    address = ui_address(spark)
    if address:
        tell(f"watch it at {address}")
    # Spark's own handler of Ctrl-C calls Java while another answer from Java is being read.
    signal.signal(signal.SIGINT, _interrupt)
    job = Job(
        spark,
        options["traces"],
        options["out"],
        options["bits"],
        options["skip_unreadable"],
        tell=tell,
    )
    job.until_ns = until_ns
    try:
        yield job
        tell("done")
    except KeyboardInterrupt:
        _silence_log(spark)
        tell("interrupted; run it again, and it goes on where it was")
        raise
    finally:
        spark.stop()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Handle the first Ctrl-C: no logging of what it breaks, and no second one, since ending takes a moment."""
    logging.disable(logging.CRITICAL)
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _silence_log(spark: SparkSession) -> None:
    """Switch off Spark's log. The first attempt fails, because it uses the connection that was interrupted."""
    for _ in range(2):
        with suppress(Exception):  # also: a session of Spark Connect has no context
            spark.sparkContext.setLogLevel("OFF")
            spark.sparkContext.cancelAllJobs()


def _make_out(out: Path, traces: Path) -> None:
    """Make the directory for results; an InputError if it cannot be written, or is inside the trace."""
    whole, trace = out.resolve(), traces.resolve()
    if trace == whole or trace in whole.parents:
        raise InputError(
            f"{out} is in {traces}: what is written there would take the place of what brokers recorded; "
            "choose another directory"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out):
            pass
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}: choose another directory") from None


def print_counts(job: Job, title: str, found: dict[str, int]) -> None:
    """Print one row of counts, and what was decided about rows that are not as they should be."""
    table = make_table(title, *found)
    table.add_row(*(f"{count:,}" for count in found.values()))
    show(table)
    print_decisions(job)


def print_decisions(job: Job) -> None:
    """Print what was decided about rows that are not as they should be."""
    if job.decisions.lines:
        click.echo("decided on the way:")
        for line in job.decisions.lines:
            click.echo(f"  {line}")
