"""`runnel up`: runs a network from one file: first brokers and links, then clients; at the end it stops them all."""

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

from runnel.cli.broker_address import use_certificates
from runnel.cli.detach import detach
from runnel.cli.show.network import LiveView, outcome_tables, where_table
from runnel.cli.show.tables import show
from runnel.cli.stop_signals import Stopped, StopSignals
from runnel.errors import InputError, RunnelError
from runnel.lab.scenario import is_scenario, read_scenario
from runnel.lab.scenario_workload import as_topology
from runnel.network.clients import Runner
from runnel.network.examples import EXAMPLES
from runnel.network.file import read_topology
from runnel.network.outcome import TopologyOutcome
from runnel.network.processes import Processes, how_it_ended
from runnel.network.restarts import Restarts
from runnel.network.state import (
    RUN_FOLDER,
    NetworkState,
    Phase,
    is_ours,
    read_state,
    remove_state,
    write_state,
)
from runnel.network.topology import Topology, verify_ends
from runnel.node.config import read_config
from runnel.operate.ask import AskError
from runnel.operate.certificate_folder import OPERATOR, CertificateFolder
from runnel.sim.topology import simulate_topology

LOOK_EVERY_S = 1.0
HURRY_S = 2.0  # what is broken already is not waited for
LINE_EVERY = 5  # looks, where there is no terminal


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What the command line asked for."""

    path: Path
    folder: Path
    until_done: bool
    seconds: float | None
    as_json: bool
    clients: bool
    restart: bool
    certificates: Path | None  # a folder, with TLS


def _print_example(ctx: click.Context, option: click.Parameter, name: str | None) -> None:
    if name and not ctx.resilient_parsing:
        click.echo(EXAMPLES[name](), nl=False)
        ctx.exit()


@click.command(short_help="Start a network from a topology file.")
@click.argument("topology", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--detach", "detached", is_flag=True, help="Return when all is up; runnel down ends it."
)
@click.option("--restart", is_flag=True, help="Start a broker again that ends by itself.")
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
    "--tls", is_flag=True, help="Over TLS, with certificates that are made in the run folder."
)
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
    restart: bool,
    until_done: bool,
    seconds: float | None,
    simulated: bool,
    as_json: bool,
    clients: bool,
    tls: bool,
    folder: Path,
) -> None:
    """Start the brokers and clients of a TOPOLOGY file, and look after them until Ctrl-C.

    A scenario of the laboratory will do as well, as far as real processes can do what it says.

    Brokers and links are verified before the first client starts. Each broker is a process with a log of its own
    in the run folder. Whatever ends this command ends all of them, except kill -9; then: runnel down. If one broker
    ends by itself, the others are stopped too: what is left would not be the network of the file. With --restart it
    is started again instead: at once if it was up for 30 s, else after a pause, twice as long each time, up to 60 s.

    \b
    Examples:
      runnel up --example tree7 > tree7.toml
      runnel up tree7.toml                         watch it; runnel status and runnel explain work beside it
      runnel up tree7.toml --until-done --json     run to the end, report
      runnel up tree7.toml --simulate --json       the same report from the simulator
      runnel up tree7.toml --detach                and later: runnel down
      runnel up tree7.toml --detach --restart      for longer: a broker that is killed comes back
      runnel up tree7.toml --tls                   over TLS; commands here find the certificates by themselves

    \b
    Exit codes:
      0    ended by Ctrl-C or SIGTERM, or --until-done came to its end
      1    a broker ended by itself, or did not hand on everything in time
      2    the command line or the file cannot be used, or a port is taken
    """
    certs = folder / "certs" if tls else None
    options = UpOptions(topology, folder, until_done, seconds, as_json, clients, restart, certs)
    plan = (
        as_topology(read_scenario(topology)) if is_scenario(topology) else read_topology(topology)
    )
    if certs is not None:
        plan = _over_tls(plan, certs, simulated)
    _verify_settings(topology, plan)
    if simulated:
        _report(plan, simulate_topology(plan, seconds=seconds), as_json)
    elif detached:
        if until_done:
            raise InputError("--until-done waits for the end, --detach does not: leave one out")
        _verify_free(folder)
        state = detach(topology, folder, seconds, clients=clients, restart=restart, tls=tls)
        show(where_table(state.brokers))
        click.echo(f"{len(state.brokers)} brokers are up; runnel down ends them", err=True)
    else:
        if until_done:
            verify_ends(plan, seconds)
        _verify_free(folder)
        sys.exit(_Up(plan, options).run())


def _over_tls(plan: Topology, folder: Path, simulated: bool) -> Topology:
    """The same network over TLS: certificates are made where they are missing, and used here too."""
    if simulated:
        raise InputError("--tls is for real connections, and --simulate has none: leave one out")
    if named := [name for name, broker in plan.brokers.items() if broker.is_secure]:
        raise InputError(f"brokers.{named[0]}.tls: the file names certificates: leave --tls out")
    from runnel.operate.certificates import complete_folder  # slow to load

    complete_folder(folder, list(plan.brokers), [OPERATOR])
    use_certificates(folder)
    files = CertificateFolder(folder)
    return plan.with_tls({name: files.node_table(name) for name in plan.brokers})


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


def _report(plan: Topology, outcome: TopologyOutcome, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(outcome.as_dict(plan), ensure_ascii=False))
    else:
        show(outcome_tables(plan, outcome))


class _Up:
    """One network in the foreground."""

    def __init__(self, plan: Topology, options: UpOptions) -> None:
        self._plan = plan
        self._options = options
        self._processes = Processes(plan, options.folder)
        self._console = Console(stderr=True, highlight=False)
        self._view = LiveView()
        self._phase: Phase = "starting"
        self._written: NetworkState | None = None

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
                remove_state(self._options.folder)
            # A broker that is ended while it starts has nothing to hand over yet: the signal itself ends it.
            unwell = {
                name: code for name, code in codes.items() if code not in (0, -signal.SIGTERM)
            }
            for name, code in unwell.items():
                log = f"{self._options.folder}/{name}.log"
                self._say(f"{name} {how_it_ended(code)}: see {log}")
            self._say(f"all {len(codes)} brokers have ended")
            return 1 if unwell else 0

    def _say(self, text: str) -> None:
        if not self._options.as_json:
            self._console.print(text, markup=False, soft_wrap=True)

    def _write_state(self, phase: Phase) -> None:
        self._phase = phase
        brokers = {name: broker.state for name, broker in self._processes.brokers.items()}
        folder = self._options.certificates
        certificates = "" if folder is None else str(folder.absolute())
        state = NetworkState(
            os.getpid(), str(self._options.path), phase, brokers, certificates=certificates
        )
        if state != self._written:
            write_state(self._options.folder, state)
            self._written = state

    def _start(self) -> None:
        """Brokers, then links; both are shown to be there before anything else happens."""
        with self._progress("brokers", len(self._plan.brokers)) as advance:
            self._processes.start(self._processes.reserve(), advance)
        self._write_state("starting")
        with self._progress("links", len(self._plan.links)) as advance:
            self._processes.wait_for_links(advance)
        self._write_state("running")
        if not self._options.as_json:
            brokers = {name: broker.state for name, broker in self._processes.brokers.items()}
            show(where_table(brokers))
            if not self._options.until_done:
                self._say("Ctrl-C ends it; try runnel status")

    @contextmanager
    def _progress(self, what: str, total: int) -> Iterator[Any]:
        done = 0

        def text(last: str) -> str:
            return f"{what}: {done} of {total} up{f' ({last})' if last else ''}"

        if not self._console.is_terminal or self._options.as_json:
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
            self._plan if self._options.clients else Topology(self._plan.brokers, self._plan.links)
        )
        runner = Runner(plan, addresses, seconds=self._options.seconds)
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(runner))
                await runner.run()
                if self._options.until_done:
                    outcome = await runner.settle()
                    watching.cancel()
                    await self._count_links(outcome)
                    _report(self._plan, outcome, self._options.as_json)
                else:
                    self._write_state("done")
                    if plan.clients:
                        self._say("everything is published; Ctrl-C ends it")
        except* RunnelError as errors:
            raise errors.exceptions[0] from None
        finally:
            await runner.close()

    async def _count_links(self, outcome: TopologyOutcome) -> None:
        for name in self._plan.brokers:
            status = await asyncio.to_thread(self._processes.status, name)
            for link in status["links"]:
                outcome.links[name, link["name"]] = link["publications_out"]
                outcome.links[link["name"], name] = link["publications_in"]

    async def _watch(self, runner: Runner) -> None:
        """See that the brokers live, and show how things go."""
        looks = 0
        restarts = Restarts(self._processes) if self._options.restart else None
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                if restarts is None:
                    self._processes.check()
                else:
                    for line in restarts.look():
                        self._say(line)
                    self._write_state(self._phase)
                looks += 1
                if self._options.as_json:
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
