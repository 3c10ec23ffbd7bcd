"""`runnel reproduce`: runs the experiments and shows what the papers say beside what comes out here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runnel.cli.extras import require_lab
from runnel.cli.show.experiments import SCALES, print_experiments, print_rows, show_progress

# Loaded when there is something to run: help need not wait for what draws figures.
if TYPE_CHECKING:
    from runnel.lab.experiment import Scale

ALL = "all"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--scale", type=click.Choice(SCALES), default="quick", show_default=True)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option(
    "--seeds",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="How many seeds, from --seed on; rows are judged by their median, and show the spread.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("reproduced"),
    show_default=True,
    help="Where results, figures and traces go.",
)
def reproduce(names: Sequence[str], scale: Scale, seed: int, seeds: int, out: Path) -> None:
    """Run experiments of the papers in simulated time; without a NAME, list them.

    Writes results.json (one row per claim), report.md with figures, timings.json, and traces of the runs. The
    same seeds give the same results, except for times by the clock. What a row is judged by is declared in the
    experiment's claims.toml.

    \b
    Examples:
      runnel reproduce
      runnel reproduce routing
      runnel reproduce green --seeds 10
      runnel reproduce all --scale paper --out results

    \b
    Exit codes:
      0    no row differs from the paper
      1    a row differs
      2    the command line cannot be used, or there is no such experiment
      130  interrupted by Ctrl-C: nothing was concluded
    """
    require_lab()
    from runnel.lab.experiment import experiments
    from runnel.lab.reproduce import reproduce as run_experiments

    known = experiments()
    if not names:
        print_experiments(known)
        return
    chosen = list(known) if ALL in names else list(names)
    try:
        with show_progress() as tell:
            found = run_experiments(chosen, scale, seed, out, tell, seeds)
    except KeyboardInterrupt:
        click.echo("interrupted: nothing was concluded", err=True)
        sys.exit(130)
    print_rows(found)
    if not found.holds:
        sys.exit(1)
