"""`runnel pipeline backtest`: what proposed subscriptions would have received, from traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from runnel.cli.show.tables import make_table, show
from runnel.cli.spark_job import job_options, open_job, print_counts, to_option
from runnel.pipeline.session import require_spark

if TYPE_CHECKING:
    from runnel.pipeline.jobs import Job

SHOWN = 10


@click.command()
@job_options
@to_option
@click.option(
    "--subscriptions",
    "file",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A filter per line, or NAME, a tab and a filter; or Parquet with the columns subscription and filter.",
)
def backtest(file: Path, **options: Any) -> None:
    """Ask what filters would have received in the time of the trace, and what it would have cost.

    Every publication that was traced is matched against every filter, with the engine that brokers match with.
    Nobody is subscribed to anything.

    \b
    Written to --out, as Parquet:
      backtest    one row per filter: publications, bytes, both per second, publishers, first and last time

    \b
    Examples:
      runnel pipeline backtest --traces traces/ --out profiles/ --subscriptions proposed.txt

    \b
    What proposed.txt may hold:
      symbol = 'YHOO' AND volume > 100000
      cheap<tab>close < 5 OR low < 4

    \b
    Exit codes:
      0    done
      2    the command line, the trace or a filter cannot be used; the message says what to do
      130  interrupted by Ctrl-C: run it again, and it goes on where it was
    """
    require_spark()
    from runnel.pipeline.backtest import backtest as run
    from runnel.pipeline.proposals import read_proposals

    proposals = read_proposals(file)
    with open_job(options) as job:
        found = run(job, proposals)
        _print_largest(job)
        print_counts(job, "matched", found)


def _print_largest(job: Job) -> None:
    words = ("subscription", "filter")
    columns = (*words, "publications", "messages/s", "bytes/s", "publishers")
    table = make_table("subscriptions that would have got the most", *columns, words=words)
    frame = job.frame("backtest").orderBy("bytes", "subscription", ascending=[False, True])
    for row in frame.limit(SHOWN).collect():
        table.add_row(
            *(Text(row[name]) for name in words),
            f"{row['publications']:,}",
            f"{row['rate']:,.2f}",
            f"{row['bandwidth']:,.0f}",
            f"{row['publishers']:,}",
        )
    show(table)
