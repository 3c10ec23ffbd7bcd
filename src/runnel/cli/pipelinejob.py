"""What every job of `runnel pipeline` shares: its options, a session to run in, and how it tells what it found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from runnel.allocation.profiles import BITS
from runnel.cli.tables import make_table, show
from runnel.pipeline.session import LOCAL, MEMORY, make_session, require_spark, ui_address
from runnel.trace.reader import open_trace

if TYPE_CHECKING:
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


@contextmanager
def running_job(told: dict[str, Any]) -> Iterator[Job]:
    """A session and a job in it; what can be seen to be wrong is said before Spark takes its time to start."""
    open_trace(told["traces"])
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
    try:
        yield Job(
            spark, told["traces"], told["out"], told["bits"], told["skip_unreadable"], tell=tell
        )
        tell(f"done: {told['out']}")
    finally:
        spark.stop()


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
