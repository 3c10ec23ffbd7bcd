"""`runnel apply`: carry a plan out on the running network, with nothing lost and nobody stopped."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from runnel.cli.broker_address import use_network
from runnel.cli.plan_files import read_plan, write_plan
from runnel.cli.show.plans import count_of, moves
from runnel.cli.stop_signals import StopSignals
from runnel.client.roaming import RELOCATION_TIMEOUT_S
from runnel.errors import InputError, MoveFailed, NetworkError
from runnel.net.addresses import parse_address
from runnel.operate.apply import Applying, look, make_intent, present_plan
from runnel.operate.ask import AskError
from runnel.operate.publishers import find_publishers, move
from runnel.operate.switch import Intent, Phase
from runnel.operate.walk import walk
from runnel.planning.documents.plan import Plan

WORDS = {
    Phase.OPENING: "open the new network beside the old one",
    Phase.JOINING: "clients join it",
    Phase.CROSSING: "publishers cross over",
    Phase.LEAVING: "clients leave the old network",
    Phase.CLOSING: "the old network ends",
    Phase.RETURNING: "publishers cross back",
    Phase.PARTING: "clients leave the new network",
    Phase.CLEARING: "the new network ends",
}
_file = click.Path(dir_okay=False, path_type=Path)


def undo_file(plan: Path) -> Path:
    """Where the network as it was before a plan is kept."""
    return plan.with_name(f"{plan.stem}.before.json")


@click.command(short_help="Carry a plan out on the running network; asks first.")
@click.argument("plan", type=_file)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--wave",
    default=10,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many clients with publishers cross over at the same time.",
)
@click.option(
    "--every",
    default=0.1,
    show_default=True,
    type=click.FloatRange(min=0.01),
    help="Seconds between two looks at all brokers, and so between two waves.",
)
@click.option(
    "--patience",
    default=30.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="Seconds without any progress after which everything is taken back.",
)
def apply(plan: Path, yes: bool, wave: int, every: float, patience: float) -> None:
    """Switch the running network over to a plan that `runnel plan --out FILE` made.

    A second network is opened beside the one that runs, in the same processes. Clients join it, publishers cross over
    in waves, clients leave the old network, and it ends. Applications notice a short pause of each publisher, no more:
    nothing is lost, nothing comes twice, order is kept. Brokers that are not needed any more stay on standby.

    Until clients leave the old network, Ctrl-C takes everything back, and so does a broker that does not answer.
    If this program is killed, the network goes on as it is: give the same command again to go on, or `runnel plan
    rollback` to take it back. The network as it was is kept beside the plan, for `runnel plan rollback`.

    \b
    Examples:
      runnel plan --head-room 20% --out plan.json
      runnel apply plan.json
      runnel plan rollback plan.json

    \b
    Exit codes:
      0    the network is as planned
      1    it was taken back, or a broker does not answer; the message says why
      2    the plan cannot be used
      130  Ctrl-C: it was taken back
    """
    use_network()
    wanted = read_plan(plan)
    state = look(wanted.addresses)
    old, new = min(state.generations), max(state.generations)
    if old == new:
        new = old + 1
        write_plan(present_plan(state, wanted), undo_file(plan))
    else:
        click.echo(f"A switch from generation {old} to {new} is under way; this goes on with it.")
    count, freed = len(wanted.overlay), len(wanted.addresses) - len(wanted.overlay)
    click.echo(
        f"{plan}: {count_of(count, 'broker')} in place of {count + freed}; moves {moves(wanted)}; "
        f"generation {old} becomes {new}"
    )
    confirm("Apply it now?", yes)
    carry_out(Applying(make_intent(wanted, old, new), wave, every, patience), back=False)
    relocate_publishers(wanted)
    click.echo(f"To take it back: runnel plan rollback {plan}")


def confirm(question: str, yes: bool) -> None:
    """Ask, unless a yes was given already."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError("there is nobody to ask: say --yes")
    click.confirm(question, abort=True)


def roll_back(plan: Path, yes: bool) -> None:
    """Take a plan back: one that is being applied, or the one that was applied last."""
    use_network()
    applied = read_plan(plan)
    state = look(applied.addresses)
    old, new = min(state.generations), max(state.generations)
    if old != new:
        click.echo(f"A switch from generation {old} to {new} is under way.")
        confirm("Take it back?", yes)
        carry_out(Applying(make_intent(applied, old, new)), back=True)
        return
    before = read_plan(undo_file(plan))
    click.echo(
        f"{undo_file(plan)}: back to {count_of(len(before.overlay), 'broker')} from {len(applied.overlay)}; "
        f"generation {new} becomes {new + 1}"
    )
    confirm("Switch back now?", yes)
    carry_out(Applying(make_intent(before, new, new + 1)), back=False)


def carry_out(applying: Applying, *, back: bool) -> None:
    """Carry out a switch, and print its progress. The first Ctrl-C takes it back, if it is not too late."""
    switch, began = applying.switch, time.monotonic()
    if back:
        applying.turn_back("you asked for it")
    said, shown = "", 0
    with StopSignals() as signals:
        for phase in applying.run():
            if signals.asked and not back:
                back = True
                if applying.turn_back("it was interrupted"):
                    click.echo("  interrupted: taking it back (nothing is lost)")
                else:
                    click.echo("  too late to take it back: it is about to end")
            text = WORDS.get(phase, "")
            waiting = len(switch.waits_for)
            is_news = text != said or (waiting != shown and sys.stdout.isatty())
            if text and is_news:
                more = f"  ({waiting} to go: {switch.waits_for[0]})" if waiting else ""
                click.echo(f"  {time.monotonic() - began:6.1f} s  {text}{more}")
                said, shown = text, waiting
    _print_outcome(applying, switch.intent, time.monotonic() - began, interrupted=signals.asked)


def _print_outcome(applying: Applying, intent: Intent, took_s: float, *, interrupted: bool) -> None:
    if not applying.why_back:
        freed = ", ".join(intent.freed) or "none"
        click.echo(
            f"Done in {took_s:.1f} s: {count_of(len(intent.dials), 'broker')} "
            f"{'serves' if len(intent.dials) == 1 else 'serve'} generation {intent.new}; "
            f"on standby: {freed}"
        )
        return
    click.echo(
        f"Taken back in {took_s:.1f} s: {applying.why_back}. Generation {intent.old} serves."
    )
    if applying.why_back != "you asked for it":
        sys.exit(130 if interrupted else 1)


def relocate_publishers(plan: Plan) -> None:
    """Migrate the publishers that the plan has at another broker than their client."""
    away = {
        key: broker
        for key, broker in plan.publishers.items()
        if key in plan.owners and plan.subscriptions.get(plan.owners[key].client, broker) != broker
    }
    if not away:
        return
    network = walk(parse_address(plan.addresses[next(iter(plan.overlay))]))
    for key, broker in away.items():
        owner = plan.owners[key]
        rows = [
            row
            for row in find_publishers(network, owner.publisher).rows
            if row["client"] == owner.client and row["at"] != broker
        ]
        for row in rows:
            try:
                move(network, row, broker, RELOCATION_TIMEOUT_S)
                click.echo(f"  {key} publishes at {broker} now")
            except (InputError, MoveFailed, NetworkError, AskError) as error:
                click.echo(f"  {key} stays at {row['at']}: {error}", err=True)
