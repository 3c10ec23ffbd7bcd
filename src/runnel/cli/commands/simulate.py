"""`runnel simulate`: runs many seeds to look for failures, or one seed step by step to see why it fails."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing, suppress

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from runnel.cli.show.simulation import print_step
from runnel.quantities import SECOND
from runnel.sim.campaign import SimulationPlan, draw_plan
from runnel.sim.run import SimulationRun
from runnel.sim.shrink import shrink
from runnel.sim.summary import CampaignSummary, outcomes

_STORY_LINES_MAX = 60
_TELL_EVERY_S = 30.0  # where there is no terminal for a progress bar


@click.command()
@click.option("--seeds", type=click.IntRange(1), help="Run so many seeds.")
@click.option("--first", default=1, show_default=True, help="The first of them.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1), help="Processes.")
@click.option("--json", "as_json", is_flag=True, help="Report as one JSON object, for programs.")
@click.option("--seed", type=int, help="Run one seed, and tell its story if it fails.")
@click.option("--steps", is_flag=True, help="With --seed: print everything that happens.")
@click.option("--shrink/--no-shrink", "shrinks", default=True, help="Look for a smaller failure.")
def simulate(
    seeds: int | None,
    first: int,
    jobs: int,
    as_json: bool,
    seed: int | None,
    steps: bool,
    shrinks: bool,
) -> None:
    """Run worlds of brokers and clients, full of faults, and check everything they do.

    \b
    Examples:
      runnel simulate --seeds 100              the first hundred seeds
      runnel simulate --seed 42 --steps        one of them, step by step

    \b
    Exit codes:
      0    nothing was found
      1    a seed failed
      2    the command line cannot be used
      130  interrupted by Ctrl-C
    """
    if seed is not None:
        sys.exit(_replay(draw_plan(seed), steps=steps, shrinks=shrinks))
    began = time.monotonic()
    wanted = range(first, first + (seeds or 100))
    summary = _run_many(wanted, jobs, quiet=as_json)
    seconds = time.monotonic() - began
    interrupted = summary.seeds < len(wanted)
    if as_json:
        click.echo(json.dumps(summary.as_dict(seconds) | {"interrupted": interrupted}))
    else:
        if interrupted:
            click.echo(f"interrupted; up to seed {first + summary.seeds - 1}:")
        click.echo(summary.line(seconds))
        for outcome in summary.failed:
            click.echo(f"seed {outcome.seed}: {outcome.violation}")
        if summary.failed and not interrupted:
            _replay(draw_plan(summary.failed[0].seed), steps=False, shrinks=shrinks)
    sys.exit(1 if summary.failed else 130 if interrupted else 0)


def _run_many(seeds: range, jobs: int, *, quiet: bool) -> CampaignSummary:
    """Run seeds one after the other, or as many of them as there is patience for."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    summary = CampaignSummary()
    with (
        Progress(
            *columns,
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        ) as progress,
        suppress(KeyboardInterrupt),
        closing(outcomes(seeds, jobs)) as found,
    ):
        task = progress.add_task("seeds", total=len(seeds))
        told_at = -_TELL_EVERY_S
        for outcome in found:
            summary.add(outcome)
            if outcome.violation and not quiet:  # at once: a campaign may be ended in many ways
                progress.console.print(f"seed {outcome.seed}: {outcome.violation}", highlight=False)
            if progress.disable and not quiet and time.monotonic() - told_at >= _TELL_EVERY_S:
                told_at = time.monotonic()
                so_far = f"{summary.seeds:,} of {len(seeds):,} seeds"
                click.echo(f"{so_far}, {len(summary.failed)} failed", err=True)
            progress.update(task, advance=1, description=f"seeds ({len(summary.failed)} failed)")
    return summary


def _replay(plan: SimulationPlan, *, steps: bool, shrinks: bool) -> int:
    """Run one plan with stories; the exit code."""
    outcome = _run_with_story(plan, steps=steps)
    if not outcome:
        return 0
    if shrinks:
        smaller = shrink(plan)
        click.echo(f"\nshrunk from {plan.size} operations and faults to {smaller.size}:")
        for number, round in enumerate(smaller.rounds):
            for item in (*round.faults, *round.operations):
                click.echo(f"  round {number + 1}: {item}")
        _run_with_story(smaller, steps=False)
    return 1


def _run_with_story(plan: SimulationPlan, *, steps: bool) -> str:
    run = SimulationRun(plan, tell_stories=True)
    if steps:
        run.world.on_step = print_step
    outcome = run.go()
    settings = plan.settings
    click.echo(
        f"seed {plan.seed}: {len(plan.brokers)} brokers, "
        f"covering {'on' if settings.covering else 'off'}, "
        f"advertisements {'on' if settings.advertisements else 'off'}, "
        f"{outcome.events:,} events in {outcome.virtual_ns / SECOND:.1f} s of its time, "
        f"log {outcome.log_hash}"
    )
    click.echo(f"  {outcome.violation or 'clean'}")
    for line in run.story(outcome.about)[-_STORY_LINES_MAX:]:
        click.echo(f"  {line}")
    return outcome.violation
