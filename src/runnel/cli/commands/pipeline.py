"""`runnel pipeline`: from traces to profiles, placements and reports, on Spark. Plans are made by `runnel plan`."""

from __future__ import annotations

from typing import Any

import click

from runnel.cli.commands.pipeline_backtest import backtest
from runnel.cli.commands.pipeline_init import init
from runnel.cli.commands.pipeline_place import place
from runnel.cli.commands.pipeline_report import report
from runnel.cli.commands.pipeline_watch import watch
from runnel.cli.spark_job import job_options, open_job, print_counts, to_option
from runnel.errors import InputError


@click.group(short_help="From traces to profiles, placements and reports, on Spark.")
def pipeline() -> None:
    """Turn what brokers recorded into what a planner needs, at any size.

    It runs on Spark: on this machine by itself, on a cluster with --master. Every job first brings up to date
    what it builds on, reads only days that are new, and says what it decided about rows that are not as
    they should be. `runnel[spark]` must be installed, which `make setup` does.

    Brokers record where their configuration says so: dir = "traces/" under [trace].

    \b
    From a trace to a smaller network:
      runnel pipeline init      --traces traces/ brokers.toml
      runnel plan --from-traces traces/ --brokers brokers.toml --work profiles/ --out plan.json
      runnel apply plan.json
      runnel pipeline report    --traces traces/ --out profiles/

    \b
    Further questions:
      runnel pipeline profiles  --traces traces/ --out profiles/
      runnel pipeline place     --traces traces/ --out profiles/ --priority 'load 100%'
      runnel pipeline backtest  --traces traces/ --out profiles/ --subscriptions proposed.txt
      runnel pipeline watch     --traces traces/ --out profiles/ --plan plan.json
    """


@pipeline.command()
@job_options
@to_option
def profiles(**options: Any) -> None:
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
    with open_job(options) as job:
        print_counts(job, "profiles", job.make_profiles())


@pipeline.command(
    hidden=True, add_help_option=False, context_settings={"ignore_unknown_options": True}
)
@click.argument("rest", nargs=-1, type=click.UNPROCESSED)
def plan(rest: tuple[str, ...]) -> None:
    """Nothing: whoever looks for it here is told where plans are made."""
    raise InputError(
        "plans are made by `runnel plan --from-traces DIR`; what jobs call --out is --work there"
    )


pipeline.add_command(backtest)
pipeline.add_command(init)
pipeline.add_command(place)
pipeline.add_command(report)
pipeline.add_command(watch)
