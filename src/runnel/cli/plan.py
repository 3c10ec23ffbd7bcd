"""`runnel plan`: fewer brokers for the same work, as a document. It changes nothing in the network."""

from __future__ import annotations

from pathlib import Path

import click

from runnel.allocation.constraints import Constraints
from runnel.allocation.croc import SAMPLE, gather, plan_of
from runnel.allocation.picture import Answers
from runnel.allocation.plan import Plan, diff, from_json, to_json
from runnel.allocation.planner import ALGORITHMS, PlanOptions
from runnel.cli.plantext import changes, scorecard
from runnel.cli.tables import show
from runnel.cli.where import broker_option, find_broker
from runnel.errors import InputError
from runnel.inspection.ask import AskError, ask
from runnel.inspection.questions import Generation
from runnel.net.addresses import Address, parse_address

_NAMES = {name.lower().replace(" ", "-"): name for name in ALGORITHMS}
_file = click.Path(dir_okay=False, path_type=Path)


class _Group(click.Group):
    """A group in which `make` need not be said."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("--help", "-h")):
            args = ["make", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Group, short_help="Plan fewer brokers for the same work; changes nothing.")
def plan() -> None:
    """Plan a network anew from what its clients get and send: as few brokers as their capacity allows.

    It asks one broker about all of them, and prints what the plan would come to. Brokers must keep profiles:
    `enabled = true` under [profiles] in their configuration.

    \b
    Examples:
      runnel plan                                   the same as: runnel plan make
      runnel plan --head-room 20% --out plan.json
      runnel plan --exclude B3 --pin audit=B1       drain B3; the client audit stays at B1
      runnel plan --max-moves 50
      runnel plan show plan.json
      runnel plan diff monday.json tuesday.json
      runnel plan make --help                       all options
    """


@plan.command(short_help="From the network that runs (this is the default).")
@click.argument("url", required=False)
@broker_option
@click.option(
    "--algorithm",
    type=click.Choice(list(_NAMES), case_sensitive=False),
    default="cram-iou",
    show_default=True,
    help="How clients are put together.",
)
@click.option(
    "--head-room",
    default="0%",
    show_default=True,
    metavar="PERCENT",
    help="How much of its capacity each broker keeps free.",
)
@click.option("--exclude", multiple=True, metavar="BROKER", help="Not to be used; once for each.")
@click.option(
    "--standby",
    multiple=True,
    metavar="URL",
    help="A broker that no link leads to, but that may be used, beside those that a plan has freed.",
)
@click.option(
    "--pin",
    multiple=True,
    metavar="CLIENT=BROKER",
    help="A client, or CLIENT/PUBLISHER, that must be there; once for each.",
)
@click.option(
    "--max-moves", type=click.IntRange(0), metavar="N", help="How many may change their broker."
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=SAMPLE,
    show_default=True,
    metavar="N",
    help="How many publications of a publisher must have been followed.",
)
@click.option("--seed", default=0, show_default=True, help="For algorithms that draw lots.")
@click.option("--out", type=_file, metavar="FILE", help="Write the plan there.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan itself.")
@click.option("--timeout", default=10.0, show_default=True, help="Seconds to wait for all brokers.")
def make(
    url: str | None,
    broker: str | None,
    algorithm: str,
    head_room: str,
    exclude: tuple[str, ...],
    standby: tuple[str, ...],
    pin: tuple[str, ...],
    max_moves: int | None,
    sample: int,
    seed: int,
    out: Path | None,
    as_json: bool,
    timeout: float,
) -> None:
    """Ask a running network what its clients get and send, and plan it anew. Nothing is changed.

    One broker is enough. The scorecard says how many brokers it takes, what each would have to do, and
    how many clients would move; --out keeps the plan.

    \b
    Examples:
      runnel plan
      runnel plan 127.0.0.1:7001 --algorithm bin-packing
      runnel plan --head-room 20% --max-moves 50 --out plan.json
      runnel plan --pin audit=B1 --pin audit/log=B1

    \b
    Exit codes:
      0    there is a plan
      1    a broker does not answer; the message says which
      2    the command line cannot be used, brokers keep no profiles or too short ones, or
           not everything fits; the message says what to do
    """
    constraints = Constraints(pins(pin), exclude, percent(head_room), max_moves)
    address, reserve = _who_serves(find_broker(url or broker), timeout)
    answers = gather(*address, timeout)
    for text in standby:
        answers.join(gather(*find_broker(text), timeout))
    _join_reserve(answers, reserve, timeout)
    options = PlanOptions(_NAMES[algorithm.lower()], seed)
    found = plan_of(answers, options, constraints, sample)
    if out is not None:
        write_plan(found, out)
    if as_json:
        click.echo(to_json(found), nl=False)
        return
    show(*scorecard(found))
    if out is not None:
        click.echo(f"written to {out}")


@plan.command("show")
@click.argument("file", type=_file)
def show_plan(file: Path) -> None:
    """Show the scorecard of a plan that was kept."""
    show(*scorecard(read_plan(file)))


@plan.command("diff")
@click.argument("old", type=_file)
@click.argument("new", type=_file)
def diff_plans(old: Path, new: Path) -> None:
    """Show what one plan asks for that another does not.

    \b
    Exit codes:
      0    they ask for the same network
      1    they do not
      2    a file cannot be used
    """
    found = diff(read_plan(old), read_plan(new))
    if found.same:
        click.echo("the same network")
        return
    click.echo("\n".join(changes(found)))
    raise SystemExit(1)


@plan.command("rollback")
@click.argument("file", type=_file)
@click.option("--yes", is_flag=True, help="Do not ask.")
def rollback(file: Path, yes: bool) -> None:
    """Take back a plan that `runnel apply` carried out last, or is carrying out; asks first.

    A switch that is under way is taken back. Otherwise the network becomes what it was before the plan,
    in the same way: with nothing lost, and nobody stopped.
    """
    from runnel.cli.apply import roll_back  # which reads plans with the functions here

    roll_back(file, yes)


def _who_serves(address: Address, timeout_s: float) -> tuple[Address, dict[str, str]]:
    """A broker of the network that a broker belongs to, which may be on standby itself; and those that are."""
    try:
        answer = ask(*address, Generation(), timeout_s)
    except AskError:
        return address, {}  # it knows no generations, or does not answer, which will be told
    return parse_address(answer["standby"]) if answer["standby"] else address, answer["reserve"]


def _join_reserve(answers: Answers, reserve: dict[str, str], timeout_s: float) -> None:
    """The brokers that earlier plans have freed may be used again; one that does not answer is planned without."""
    for name, where in reserve.items():
        if name not in answers.brokers:
            try:
                answers.join(gather(*parse_address(where), timeout_s))
            except AskError as error:
                click.echo(f"{name} is on standby, and planned without: {error}", err=True)


def percent(text: str) -> float:
    """A percentage, with or without its sign.

    >>> percent("20%"), percent("12.5")
    (20.0, 12.5)
    """
    try:
        return float(text.strip().removesuffix("%"))
    except ValueError:
        raise InputError(f"--head-room: {text!r} is no percentage: write 20%") from None


def pins(said: tuple[str, ...]) -> dict[str, str]:
    """Who is to be where.

    >>> pins(("alice=B1", "a=b=B2"))
    {'alice': 'B1', 'a=b': 'B2'}
    """
    found = {}
    for text in said:
        client, sign, broker = text.rpartition("=")
        if not (client and sign and broker):
            raise InputError(f"--pin: {text!r} is no pin: write CLIENT=BROKER")
        found[client] = broker
    return found


def read_plan(path: Path) -> Plan:
    """A plan from a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    try:
        return from_json(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def write_plan(plan: Plan, path: Path) -> None:
    """Keep a plan; the file appears under its name when it is whole."""
    half = path.with_name(f"{path.name}.part")
    try:
        half.write_bytes(to_json(plan))
        half.replace(path)
    except OSError as error:
        raise InputError(f"--out: {path}: {error.strerror}") from None
