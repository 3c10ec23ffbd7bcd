"""`runnel pipeline`: from traces to what a planner needs, on Spark."""

from __future__ import annotations

from typing import Any

import click

from runnel.allocation.closeness import OF_TWO, Metric
from runnel.cli.pipeline_backtest import backtest
from runnel.cli.pipeline_place import place
from runnel.cli.pipeline_plan import init, plan
from runnel.cli.pipeline_report import report
from runnel.cli.pipeline_watch import watch
from runnel.cli.pipelinejob import job_options, running_job, tell_table, to_option

_METRICS = tuple(OF_TWO)


@click.group(short_help="From traces to plans, placements and reports, on Spark.")
def pipeline() -> None:
    """Turn what brokers recorded into what a planner needs, at any size.

    It runs on Spark: on this machine by itself, on a cluster with --master. Every job first brings up to date
    what it builds on, reads only days that are new, and says what it decided about rows that are not as
    they should be. `runnel[spark]` must be installed, which `make setup` does.

    Brokers record where their configuration says so: dir = "traces/" under [trace].

    \b
    From a trace to a smaller network:
      runnel pipeline init      --traces traces/ brokers.toml
      runnel pipeline plan      --traces traces/ --out profiles/ --brokers brokers.toml
      runnel apply profiles/plan.json
      runnel pipeline report    --traces traces/ --out profiles/

    \b
    What plans are made of, to look at or to go on with:
      runnel pipeline profiles  --traces traces/ --out profiles/
      runnel pipeline gifs      --traces traces/ --out profiles/
      runnel pipeline closeness --traces traces/ --out profiles/ --metric IOU

    \b
    Further questions:
      runnel pipeline place     --traces traces/ --out profiles/ --priority 'load 100%'
      runnel pipeline backtest  --traces traces/ --out profiles/ --subscriptions proposed.txt
      runnel pipeline watch     --traces traces/ --out profiles/ --plan profiles/plan.json
    """


@pipeline.command()
@job_options
@to_option
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
    with running_job(told) as job:
        tell_table(job, "profiles", job.profiles())


@pipeline.command()
@job_options
@to_option
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
    with running_job(told) as job:
        job.profiles()
        found = job.gifs()
        count, groups = found["subscriptions"], found["gifs"]
        fewer = round(100 * (1 - groups / count)) if count else 0
        tell_table(job, "groups of identical profiles", found | {"fewer, in percent": fewer})


@pipeline.command()
@job_options
@to_option
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
    with running_job(told) as job:
        job.profiles()
        groups = job.gifs()["gifs"]
        found = job.closeness(metric, minimum)
        tell_table(job, f"nearest partners, {metric}", {"gifs": groups} | found)


pipeline.add_command(backtest)
pipeline.add_command(init)
pipeline.add_command(place)
pipeline.add_command(plan)
pipeline.add_command(report)
pipeline.add_command(watch)
