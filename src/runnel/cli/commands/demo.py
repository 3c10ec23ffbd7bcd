"""`runnel demo`: shows on real processes that nothing is lost and nothing doubled, whatever is done to the network, and
that fewer brokers can do the same work."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import click

from runnel.cli.demo.disturbances import Demo
from runnel.cli.extras import require_lab
from runnel.cli.show.demo import DemoView, print_demo_report
from runnel.cli.stop_signals import Stopped, StopSignals
from runnel.errors import InputError, RunnelError
from runnel.network.tally import Result
from runnel.pipeline.java import find_java
from runnel.pipeline.session import require_spark

LOOK_EVERY_S = 1.0


@click.command(short_help="Seven brokers at work, disturbed, planned anew and checked.")
@click.option(
    "--seconds",
    default=15.0,
    show_default=True,
    type=click.FloatRange(3, 3600),
    help="How long publishers publish, before the plan.",
)
@click.option(
    "--plan/--no-plan",
    "with_plan",
    default=True,
    help="Plan fewer brokers from traces with Spark, and switch over to them; the default.",
)
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Leave traces, plan and logs there.",
)
@click.option("--json", "as_json", is_flag=True, help="Report as one JSON object, for programs.")
def demo(seconds: float, with_plan: bool, keep: Path | None, as_json: bool) -> None:
    """Run seven brokers with stock publishers and subscribers; cut a link, move a subscriber, plan fewer brokers from
    what was recorded, switch over to them, and count everything.

    Each broker is a process of its own. What had to be delivered is worked out by brute force and compared with what
    was. It takes a minute or two, most of it for Spark; --no-plan does without.

    \b
    Examples:
      runnel demo
      runnel demo --no-plan --keep build/demo

    \b
    Exit codes:
      0    everything arrived, once and in order
      1    something was lost, doubled or out of order; or the plan could not be made or applied
      2    the command line cannot be used, or Spark cannot start
      130  interrupted by Ctrl-C
    """
    if with_plan:
        require_spark()
        require_lab()
        find_java(os.environ)
    folder = _folder(keep)
    view = DemoView(quiet=as_json)
    run = Demo(seconds, folder, view.say, with_plan=with_plan)
    result = measured = None
    with StopSignals() as stop:
        run.processes.checkpoint = stop.check
        try:
            run.start()
            result = stop.run(_run_and_watch(run, view))
            run.stop()
            measured = stop.run(run.report())
        except Stopped:
            result = None
            view.say("stopped")
        except RunnelError:
            click.echo(f"the logs of the brokers are in {folder}", err=True)
            raise
        finally:
            run.stop()
    if result is None:
        _clean(folder, keep)
        sys.exit(130)
    print_demo_report(view, run, result, measured, as_json)
    if not result.is_clean:
        click.echo(f"something went wrong; the logs of the brokers are in {folder}", err=True)
        sys.exit(1)
    if with_plan and keep is None:
        view.say("runnel demo --keep DIR leaves traces, plan and report there")
    _clean(folder, keep)


def _folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="runnel-demo-"))
    if keep.exists() and any(keep.iterdir()):
        raise InputError(f"--keep: {keep} is not empty: choose another directory")
    keep.mkdir(parents=True, exist_ok=True)
    return keep.absolute()


def _clean(folder: Path, keep: Path | None) -> None:
    if keep is None:
        shutil.rmtree(folder, ignore_errors=True)


async def _run_and_watch(run: Demo, view: DemoView) -> Result:
    """Run it, and show how it goes."""
    watching = asyncio.get_running_loop().create_task(_watch(run, view))
    try:
        return await run.run()
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _watch(run: Demo, view: DemoView) -> None:
    with view.live():
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await asyncio.to_thread(run.look)
            view.look(run)
