"""`runnel up`: a whole network from one file; brokers and links first, then the clients, then nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live

from runnel.cli.running import Stopped, StopSignals
from runnel.cli.tables import show
from runnel.cli.updetached import detach
from runnel.cli.upview import LiveView, outcome_tables, where_table
from runnel.errors import InputError, RunnelError
from runnel.inspection.ask import AskError
from runnel.lab.crowd import as_topology
from runnel.lab.scenario import is_scenario, read_scenario
from runnel.node.config import read_config
from runnel.sim.topology import simulate_topology
from runnel.topology.clients import Runner
from runnel.topology.examples import EXAMPLES
from runnel.topology.file import read_topology
from runnel.topology.outcome import Outcome
from runnel.topology.plan import Topology, verify_ends
from runnel.topology.processes import Processes, how_it_ended
from runnel.topology.state import (
    RUN_FOLDER,
    Phase,
    State,
    is_ours,
    read_state,
    remove_state,
    write_state,
)

LOOK_EVERY_S = 1.0
HURRY_S = 2.0  # what is broken already is not waited for
LINE_EVERY = 5  # looks, where there is no terminal


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asked for."""

    path: Path
    folder: Path
    until_done: bool
    seconds: float | None
    as_json: bool
    clients: bool


def _print_example(ctx: click.Context, option: click.Parameter, name: str | None) -> None:
    if name and not ctx.resilient_parsing:
        click.echo(EXAMPLES[name](), nl=False)
        ctx.exit()


@click.command(short_help="Start a network from a topology file.")
@click.argument("topology", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--detach", "detached", is_flag=True, help="Return when all is up; runnel down ends it."
)
@click.option("--until-done", is_flag=True, help="End when all is published and delivered; report.")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="Publish no longer than that."
)
@click.option(
    "--simulate", "simulated", is_flag=True, help="The same in the simulator: no process."
)
@click.option("--json", "as_json", is_flag=True, help="Report as one JSON object.")
@click.option("--clients/--no-clients", default=True, help="Start the clients too.")
@click.option(
    "--run-folder",
    "folder",
    default=RUN_FOLDER,
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where state and logs go.",
)
@click.option(
    "--example",
    type=click.Choice(list(EXAMPLES)),
    is_eager=True,
    expose_value=False,
    callback=_print_example,
    help="Print a topology to start from.",
)
def up(
    topology: Path,
    detached: bool,
    until_done: bool,
    seconds: float | None,
    simulated: bool,
    as_json: bool,
    clients: bool,
    folder: Path,
) -> None:
    """Start the brokers and clients of a TOPOLOGY file, and look after them until Ctrl-C.

    A scenario of the laboratory will do as well, as far as real processes can do what it says.

    Brokers and links are verified before the first client starts. Each broker is a process with a log of its own
    in the run folder. Whatever ends this command ends all of them, except kill -9; then: runnel down. If one broker
    ends by itself, the others are stopped too: what is left would not be the network of the file.

    \b
    Examples:
      runnel up --example tree7 > tree7.toml
      runnel up tree7.toml                         watch it; runnel status and runnel explain work beside it
      runnel up tree7.toml --until-done --json     run to the end, report
      runnel up tree7.toml --simulate --json       the same report from the simulator
      runnel up tree7.toml --detach                and later: runnel down

    \b
    Exit codes:
      0    ended by Ctrl-C or SIGTERM, or --until-done came to its end
      1    a broker ended by itself, or did not hand on everything in time
      2    the command line or the file cannot be used, or a port is taken
    """
    wishes = Wishes(topology, folder, until_done, seconds, as_json, clients)
    plan = (
        as_topology(read_scenario(topology)) if is_scenario(topology) else read_topology(topology)
    )
    _verify_settings(topology, plan)
    if simulated:
        _report(plan, simulate_topology(plan, seconds=seconds), as_json)
    elif detached:
        if until_done:
            raise InputError("--until-done waits for the end, --detach does not: leave one out")
        _verify_free(folder)
        state = detach(topology, folder, seconds, clients)
        show(where_table(state.brokers))
        click.echo(f"{len(state.brokers)} brokers are up; runnel down ends them", err=True)
    else:
        if until_done:
            verify_ends(plan, seconds)
        _verify_free(folder)
        sys.exit(_Up(plan, wishes).run())


def _verify_settings(path: Path, plan: Topology) -> None:
    """What is handed on to brokers is checked before any of them starts."""
    anywhere = dict.fromkeys(plan.links, "127.0.0.1:1")
    for name, broker in plan.brokers.items():
        try:
            read_config(plan.node_tables(name, broker.listen, anywhere))
        except InputError as error:
            raise InputError(f"{path}: brokers.{name}.{error}") from None


def _verify_free(folder: Path) -> None:
    state = read_state(folder)
    if state is None:
        return
    if is_ours(state.pid, "\0up\0"):
        raise InputError(
            f"{state.topology} runs here already (pid {state.pid}): runnel down ends it"
        )
    if left := [name for name, b in state.brokers.items() if is_ours(b.pid, b.config)]:
        raise InputError(
            f"brokers of an earlier run are still there ({', '.join(left)}): runnel down"
        )


def _report(plan: Topology, outcome: Outcome, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(outcome.as_dict(plan), ensure_ascii=False))
    else:
        show(outcome_tables(plan, outcome))


class _Up:
    """One network in the foreground."""

    def __init__(self, plan: Topology, wishes: Wishes) -> None:
        self._plan = plan
        self._wishes = wishes
        self._processes = Processes(plan, wishes.folder)
        self._console = Console(stderr=True, highlight=False)
        self._view = LiveView()

    def run(self) -> int:
        """From the first process to the last; the exit code."""
        with StopSignals() as stop:
            self._processes.checkpoint = stop.check
            self._write_state("starting")
            within_s = None
            try:
                self._start()
                stop.run(self._look_after())
            except Stopped:
                self._say("stopping")
            except RunnelError:
                within_s = HURRY_S
                raise
            finally:
                self._write_state("stopping")
                codes = self._processes.stop(within_s)
                remove_state(self._wishes.folder)
            # A broker that is ended while it starts has nothing to hand over yet: the signal itself ends it.
            unwell = {
                name: code for name, code in codes.items() if code not in (0, -signal.SIGTERM)
            }
            for name, code in unwell.items():
                log = f"{self._wishes.folder}/{name}.log"
                self._say(f"{name} {how_it_ended(code)}: see {log}")
            self._say(f"all {len(codes)} brokers have ended")
            return 1 if unwell else 0

    def _say(self, text: str) -> None:
        if not self._wishes.as_json:
            self._console.print(text, markup=False)

    def _write_state(self, phase: Phase) -> None:
        brokers = {name: broker.state for name, broker in self._processes.brokers.items()}
        state = State(os.getpid(), str(self._wishes.path), phase, brokers)
        write_state(self._wishes.folder, state)

    def _start(self) -> None:
        """Brokers, then links; both are shown to be there before anything else happens."""
        with self._progress("brokers", len(self._plan.brokers)) as advance:
            self._processes.start(self._processes.reserve(), advance)
        self._write_state("starting")
        with self._progress("links", len(self._plan.links)) as advance:
            self._processes.wait_for_links(advance)
        self._write_state("running")
        if not self._wishes.as_json:
            brokers = {name: broker.state for name, broker in self._processes.brokers.items()}
            show(where_table(brokers))
            if not self._wishes.until_done:
                self._say("Ctrl-C ends it; try runnel status")

    @contextmanager
    def _progress(self, what: str, total: int) -> Iterator[Any]:
        done = 0

        def text(last: str) -> str:
            return f"{what}: {done} of {total} up{f' ({last})' if last else ''}"

        if not self._console.is_terminal or self._wishes.as_json:
            yield lambda _: None
            self._say(f"{what}: all {total} up")
            return
        with self._console.status(text("")) as shown:

            def advance(last: str) -> None:
                nonlocal done
                done += 1
                shown.update(text(last))

            yield advance
        self._say(f"{what}: all {total} up")

    # -- while it runs --------------------------------------------------------------------------------

    async def _look_after(self) -> None:
        """Run the clients and watch the brokers; whichever fails first ends everything."""
        addresses = {name: str(b.address) for name, b in self._processes.brokers.items()}
        plan = (
            self._plan if self._wishes.clients else Topology(self._plan.brokers, self._plan.links)
        )
        runner = Runner(plan, addresses, seconds=self._wishes.seconds)
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(runner))
                await runner.run()
                if self._wishes.until_done:
                    outcome = await runner.settle()
                    watching.cancel()
                    await self._count_links(outcome)
                    _report(self._plan, outcome, self._wishes.as_json)
                else:
                    self._write_state("done")
                    if plan.clients:
                        self._say("everything is published; Ctrl-C ends it")
        except* RunnelError as errors:
            raise errors.exceptions[0] from None
        finally:
            await runner.close()

    async def _count_links(self, outcome: Outcome) -> None:
        for name in self._plan.brokers:
            status = await asyncio.to_thread(self._processes.status, name)
            for link in status["links"]:
                outcome.links[name, link["name"]] = link["publications_out"]
                outcome.links[link["name"], name] = link["publications_in"]

    async def _watch(self, runner: Runner) -> None:
        """See that the brokers live, and show how things go."""
        looks = 0
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                self._processes.check()
                looks += 1
                if self._wishes.as_json:
                    continue
                if self._console.is_terminal:
                    statuses = await asyncio.to_thread(self._statuses)
                    live.update(self._view.tables(statuses, runner.running), refresh=True)
                elif looks % LINE_EVERY == 0 and runner.running:
                    self._say(self._view.line(runner.running))

    def _statuses(self) -> dict[str, dict[str, Any]]:
        found = {}
        for name in self._plan.brokers:
            try:
                found[name] = self._processes.status(name)
            except AskError:
                continue  # one that is too busy to answer is not shown; one that ended is found by `check`
        return found
