"""`runnel pipeline`: from traces to what a planner needs, on Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from runnel.allocation.closeness import OF_TWO, Metric
from runnel.allocation.profiles import BITS
from runnel.cli.tables import make_table, show
from runnel.pipeline.session import LOCAL, MEMORY, make_session, require_spark, ui_address
from runnel.trace.reader import open_trace

if TYPE_CHECKING:
    from runnel.pipeline.jobs import Job

_directory = click.Path(file_okay=False, path_type=Path)
_METRICS = tuple(OF_TWO)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every job is told."""
    for option in reversed(
        (
            click.option(
                "--traces",
                required=True,
                type=_directory,
                metavar="DIR",
                help="What brokers recorded.",
            ),
            click.option(
                "--out",
                required=True,
                type=_directory,
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


@click.group(short_help="From traces to profiles, groups and partners, on Spark.")
def pipeline() -> None:
    """Turn what brokers recorded into what a planner needs, at any size.

    It runs on Spark: on this machine by itself, on a cluster with --master. Every job first brings up to date
    what it builds on, reads only days that are new, and says what it decided about rows that are not as
    they should be. `runnel[spark]` must be installed, which `make setup` does.

    Brokers record where their configuration says so: directory = "traces/" under [trace].

    \b
    Three jobs, each builds on the one before:
      runnel pipeline profiles  --traces traces/ --out profiles/
      runnel pipeline gifs      --traces traces/ --out profiles/
      runnel pipeline closeness --traces traces/ --out profiles/ --metric IOU
    """


@pipeline.command()
@_options
def profiles(**told: Any) -> None:
    """Make bit vectors of deliveries: which of each publisher's last publications every subscription got.

    \b
    Written to --out, as Parquet:
      publishers      name, home, rate, bandwidth, and the window that vectors are of
      subscriptions   client, home, whether it still stands
      vectors         one row per subscription and publisher: 64 publications a word
      brokers         measured output and matching delay
      links           who is joined to whom
      days/           what each day came to, so that it need not be read again

    \b
    Examples:
      runnel pipeline profiles --traces traces/ --out profiles/
      runnel pipeline profiles --traces traces/ --out profiles/ --master spark://host:7077 --memory 8g

    \b
    Exit codes:
      0    done
      2    the command line, or the trace, cannot be used; the message says what to do
    """
    with _job(told) as job:
        _told(job, "profiles", job.profiles())


@pipeline.command()
@_options
def gifs(**told: Any) -> None:
    """Group subscriptions that got exactly the same: each group is planned as one.

    \b
    Written to --out, as Parquet, beside what `profiles` writes:
      gifs       one row per group: its vectors, its size, its subscriptions
      members    the group of every subscription that got anything

    \b
    Example:
      runnel pipeline gifs --traces traces/ --out profiles/
    """
    with _job(told) as job:
        job.profiles()
        found = job.gifs()
        count, groups = found["subscriptions"], found["gifs"]
        fewer = round(100 * (1 - groups / count)) if count else 0
        _told(job, "groups of identical profiles", found | {"fewer, in percent": fewer})


@pipeline.command()
@_options
@click.option(
    "--metric",
    type=click.Choice(_METRICS, case_sensitive=False),
    default="IOU",
    show_default=True,
    help="What close means.",
)
@click.option("--minimum", default=0.0, show_default=True, help="What is less close is no partner.")
def closeness(metric: Metric, minimum: float, **told: Any) -> None:
    """Find the nearest partner of every group, without looking at all pairs.

    \b
    What close means, for groups that got the publications a and b:
      INTERSECT   |a ∩ b|                   XOR   1 / |a ⊕ b|
      IOS         |a ∩ b|² / (|a| + |b|)    IOU   |a ∩ b|² / |a ∪ b|

    \b
    Written to --out, as Parquet, beside what `gifs` writes:
      closeness/metric=IOU    one row per group: its partner, and how close it is

    \b
    Examples:
      runnel pipeline closeness --traces traces/ --out profiles/
      runnel pipeline closeness --traces traces/ --out profiles/ --metric INTERSECT --minimum 10
    """
    with _job(told) as job:
        job.profiles()
        groups = job.gifs()["gifs"]
        found = job.closeness(metric, minimum)
        _told(job, f"nearest partners, {metric}", {"gifs": groups} | found)


@contextmanager
def _job(told: dict[str, Any]) -> Iterator[Job]:
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


def _told(job: Job, title: str, found: dict[str, int]) -> None:
    table = make_table(title, *found)
    table.add_row(*(f"{count:,}" for count in found.values()))
    show(table)
    if job.reading.lines:
        click.echo("decided on the way:")
        for line in job.reading.lines:
            click.echo(f"  {line}")
