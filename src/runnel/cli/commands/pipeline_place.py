"""`runnel pipeline place`: where every publisher should be, from traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from runnel.cli.plan_files import read_plan
from runnel.cli.show.publishers import milliseconds
from runnel.cli.show.tables import make_table, show
from runnel.cli.spark_job import job_options, open_job, print_counts, to_option
from runnel.pipeline.session import require_spark

if TYPE_CHECKING:
    from runnel.pipeline.jobs import Job

MOVES_SHOWN = 10


@click.command()
@job_options
@to_option
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Over the overlay of a plan, with clients where it puts them; else as it was traced.",
)
@click.option(
    "--priority",
    default="load 100%",
    show_default=True,
    metavar="P",
    help="What is minimised first, and how much that counts: 'load 75%', 'delay 50%'.",
)
def place(plan_file: Path | None, priority: str, **options: Any) -> None:
    """Find the best broker for every publisher: GRAPE for all of them at once. Nobody is moved.

    What subscriptions got is known from their profiles; how long messages take in brokers and on links is
    measured in the last two days of the trace. All brokers of the overlay are candidates.

    \b
    Written to --out, as Parquet, beside what `profiles` writes:
      placements    one row per publisher: its home, the best broker, load and delay at both

    \b
    Examples:
      runnel pipeline place --traces traces/ --out profiles/
      runnel pipeline place --traces traces/ --out profiles/ --priority 'delay 50%' --plan plan.json

    \b
    Exit codes:
      0    done
      2    the command line, the trace or the plan cannot be used; the message says what to do
      130  interrupted by Ctrl-C: run it again, and it goes on where it was
    """
    require_spark()
    from runnel.pipeline.place import parse_priority
    from runnel.pipeline.place import place_all as run

    wanted = parse_priority(priority)
    plan = read_plan(plan_file) if plan_file else None
    with open_job(options) as job:
        job.make_profiles()
        found = run(job, wanted, plan)
        _print_moves(job)
        print_counts(job, f"publishers placed, {wanted.text}", found)


def _print_moves(job: Job) -> None:
    from runnel.pipeline.place import top_moves, total_messages

    placements = job.frame("placements")
    words = ("publisher", "from", "to")
    columns = (*words, "messages/s", "delay", "gain")
    table = make_table("moves that save the most", *columns, words=words)
    for row in top_moves(placements, MOVES_SHOWN).collect():
        table.add_row(
            *(Text(row[name]) for name in ("publisher", "home", "broker")),
            f"{row['messages_now']:,.1f} → {row['messages_after']:,.1f}",
            f"{milliseconds(row['delay_now_s'])} → {milliseconds(row['delay_after_s'])}",
            f"{row['gain_percent']:.0f}% {row['gain_in']}",
        )
    if table.row_count:
        show(table)
    now, after = total_messages(placements).first() or (0.0, 0.0)
    click.echo(f"messages    {now:,.1f} → {after:,.1f} a second, taken in by all brokers together")
