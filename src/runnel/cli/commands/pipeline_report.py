"""`runnel pipeline report`: what a trace says about a network, before and after a change, as a page with figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from runnel.cli.extras import require_lab
from runnel.cli.show.tables import make_table, show
from runnel.cli.spark_job import directory, job_options, open_job, print_decisions
from runnel.errors import InputError
from runnel.trace.reader import open_trace
from runnel.trace.window import time_of

if TYPE_CHECKING:
    from runnel.pipeline.jobs import Job
    from runnel.pipeline.report import WindowMetrics


class Times(NamedTuple):
    """What is looked at, in nanoseconds of the trace's clock: up to a change, and from its end on; None: all of it."""

    start_ns: int | None = None
    change_ns: int | None = None
    changed_ns: int | None = None
    end_ns: int | None = None


@click.command()
@job_options
@click.option(
    "--before",
    type=directory,
    metavar="DIR",
    help="A trace from before the change; --traces is from after it.",
)
@click.option(
    "--at",
    metavar="TIME[/TIME]",
    help="The change came at this time of the trace; or between two, and what is between them is left out.",
)
@click.option("--from", "start", metavar="TIME", help="Only from this time on.")
@click.option("--to", "end", metavar="TIME", help="Only before this time.")
def report(
    before: Path | None, at: str | None, start: str | None, end: str | None, **options: Any
) -> None:
    """Tell how a network did: rates, utilisations, delays, hops, forwarding, overhead; as a page with figures.

    With --before or --at it is told twice, before and after a change, with what became of each number.
    A TIME is in seconds, as `runnel trace show` has it, or '2026-01-31 12:30:00' in UTC.

    \b
    Written to --out:
      report/report.md            the page, with figures as SVG and PNG
      report/report.json          its numbers
      report/NAME/brokers         Parquet: every broker's load
      report/NAME/intervals       Parquet: the same, interval by interval

    \b
    Examples:
      runnel pipeline report --traces traces/ --out profiles/
      runnel pipeline report --traces tuesday/ --before monday/ --out profiles/
      runnel pipeline report --traces traces/ --at '2026-01-31 12:30:00' --out profiles/
      runnel pipeline report --traces traces/ --at 2026-01-31T12:30/2026-01-31T12:40 --out profiles/

    \b
    Exit codes:
      0    the page is written
      2    the command line or a trace cannot be used; the message says what to do
      130  interrupted by Ctrl-C: run it again, and it goes on where it was
    """
    if before and at:
        raise InputError("--before and --at say the same in two ways: take one of them")
    times = Times(time_of("--from", start), *_now_and_then(at), time_of("--to", end))
    if before:
        open_trace(before)
    require_lab()
    with open_job(options) as job:
        found = measure_all(job, before, times)
        from runnel.cli.show.report_page import rows_of, write_page

        table = make_table(
            "before → after" if len(found) > 1 else "measured", "", *found, "change", words=("",)
        )
        for label, *cells in rows_of(list(found.values())):
            table.add_row(label, *cells)
        show(table)
        print_decisions(job)
        click.echo(f"written to {write_page(job.out / 'report', found, job.decisions.lines)}")


def measure_all(job: Job, before: Path | None, times: Times) -> dict[str, WindowMetrics]:
    """One window, or two."""
    from runnel.pipeline.jobs import Job
    from runnel.pipeline.report import measure_window

    if before:
        options = (job.length, job.skip_unreadable, job.tell, job.decisions)
        is_same = before.resolve() == job.traces.resolve()  # then its files are looked at once
        earlier = job if is_same else Job(job.spark, before, job.out, *options)
        return {
            "before": measure_window(earlier, "before"),
            "after": measure_window(job, "after", times.start_ns, times.end_ns),
        }
    if times.change_ns is None:
        return {"measured": measure_window(job, "measured", times.start_ns, times.end_ns)}
    return {
        "before": measure_window(job, "before", times.start_ns, times.change_ns),
        "after": measure_window(job, "after", times.changed_ns, times.end_ns),
    }


def _now_and_then(text: str | None) -> tuple[int | None, int | None]:
    """When a change began and when it was over.

    >>> _now_and_then("3"), _now_and_then("3/4.5")
    ((3000000000, 3000000000), (3000000000, 4500000000))
    """
    if text is None:
        return None, None
    begin, _, end = text.partition("/")
    began, ended = time_of("--at", begin), time_of("--at", end or begin)
    assert began is not None and ended is not None
    if began > ended:
        raise InputError(f"--at: {text!r} ends before it begins: write the earlier time first")
    return began, ended
