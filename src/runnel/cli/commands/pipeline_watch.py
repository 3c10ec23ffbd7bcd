"""`runnel pipeline watch`: profiles kept up while a trace grows, and another plan proposed when it is worth it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from runnel.cli.plan_files import read_plan
from runnel.cli.plan_options import parse_percent
from runnel.cli.spark_job import job_options, open_job, print_decisions
from runnel.pipeline.inventory import Inventory, read_inventory
from runnel.pipeline.session import require_spark

_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@job_options
@click.option(
    "--plan", "plan_file", required=True, type=_file, metavar="FILE", help="What is in force."
)
@click.option("--brokers", type=_file, metavar="FILE", help="What brokers there are.")
@click.option(
    "--drift",
    default="20%",
    show_default=True,
    metavar="PERCENT",
    help="How far message rates may be from what was planned.",
)
@click.option(
    "--saving",
    default="10%",
    show_default=True,
    metavar="PERCENT",
    help="What another plan must save to be proposed: brokers or messages.",
)
@click.option(
    "--hold",
    default=3,
    show_default=True,
    type=click.IntRange(1),
    help="For how many batches in a row there must be a reason.",
)
@click.option(
    "--rest",
    default=10,
    show_default=True,
    type=click.IntRange(0),
    help="For how many batches nothing is proposed after a proposal.",
)
@click.option("--every", default=10.0, show_default=True, help="Seconds between batches.")
@click.option("--once", is_flag=True, help="Read what is there, and end.")
@click.option(
    "--files",
    default=1_000,
    show_default=True,
    type=click.IntRange(1),
    help="How many files of a table a batch has at most.",
)
def watch(plan_file: Path, brokers: Path | None, **options: Any) -> None:
    """Watch a trace while it grows: keep profiles up, and propose another plan when the old one no longer fits.

    It does not fit when a broker would be overloaded, or the message rate is off by more than --drift. Another plan is
    made then, and written to --out if it saves enough: proposals/1.json, 2.json, … Nothing is applied. FILE is
    read anew for every batch: put the plan that you applied there.

    It may be stopped, or killed, at any time: everything counts exactly once when it is started again.

    \b
    Examples:
      runnel pipeline watch --traces traces/ --out profiles/ --plan plan.json
      runnel pipeline watch --traces traces/ --out profiles/ --plan plan.json --saving 20% --every 60
      runnel plan show profiles/proposals/1.json

    \b
    Exit codes:
      0    with --once: all that is there was read
      2    the command line, the trace or a file cannot be used; the message says what to do
      130  interrupted by Ctrl-C
    """
    require_spark()
    from runnel.pipeline.drift import DriftLimits
    from runnel.pipeline.stream import Watch, start_watch, wait_for_watch

    drift, saving = (parse_percent(options[name], f"--{name}") for name in ("drift", "saving"))
    limits = DriftLimits(drift, saving, options["hold"], options["rest"])
    inventory = read_inventory(brokers) if brokers else Inventory()
    read_plan(plan_file)
    with open_job(options) as job:
        watching = Watch(job, lambda: read_plan(plan_file), inventory, limits)
        query = start_watch(
            watching, once=options["once"], every_s=options["every"], files=options["files"]
        )
        wait_for_watch(watching, query)
        watched = watching.state
        click.echo(f"{watched.batch + 1:,} batches, {watched.proposals:,} proposals")
        print_decisions(job)
