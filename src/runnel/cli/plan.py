"""`runnel plan`: fewer brokers for the same work, as a document. It changes nothing in the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from runnel.allocation.croc import gather, plan_of
from runnel.allocation.evidence import SAMPLE
from runnel.allocation.picture import Answers
from runnel.allocation.plan import Plan, diff, to_json
from runnel.allocation.profiles import BITS
from runnel.cli.apply import roll_back
from runnel.cli.planasked import asked_options, take_asked
from runnel.cli.planfile import read_plan, write_plan
from runnel.cli.plantext import changes, kept, scorecard
from runnel.cli.tables import show
from runnel.cli.where import broker_option, find_broker
from runnel.errors import InputError
from runnel.inspection.ask import AskError, ask
from runnel.inspection.questions import Generation
from runnel.net.addresses import Address, parse_address
from runnel.pipeline.inventory import Inventory
from runnel.pipeline.session import LOCAL, MEMORY

_file = click.Path(dir_okay=False, path_type=Path)
_folder = click.Path(file_okay=False, path_type=Path)


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
    `enabled = true` under [profiles] in their configuration. Or it reads what they recorded (--from-traces).

    \b
    Examples:
      runnel plan                                   the same as: runnel plan make
      runnel plan --head-room 20% --out plan.json
      runnel plan --exclude B3 --pin audit=B1       drain B3; the client audit stays at B1
      runnel plan --max-moves 50
      runnel plan --from-traces traces/ --brokers brokers.toml
      runnel plan show plan.json
      runnel plan diff monday.json tuesday.json
      runnel plan make --help                       all options
    """


@plan.command(short_help="From the network that runs (this is the default), or from traces.")
@click.argument("url", required=False)
@broker_option
@asked_options
@click.option(
    "--standby",
    multiple=True,
    metavar="URL",
    help="A broker that no link leads to, but that may be used, beside those that a plan has freed.",
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=SAMPLE,
    show_default=True,
    metavar="N",
    help="How many publications of a publisher must have been followed.",
)
@click.option("-o", "--out", type=_file, metavar="FILE", help="Write the plan there.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan itself.")
@click.option("--timeout", default=10.0, show_default=True, help="Seconds to wait for all brokers.")
@click.option(
    "--from-traces", "traces", type=_folder, metavar="DIR", help="From what brokers recorded there."
)
@click.option(
    "--brokers", type=_file, metavar="FILE", help="With --from-traces: what brokers there are."
)
@click.option(
    "--work",
    type=_folder,
    metavar="DIR",
    help="With --from-traces: keep what was made of them there; next time only new days are read.",
)
@click.option("--master", default=LOCAL, metavar="M", help="With --from-traces: where Spark runs.")
@click.option("--memory", default=MEMORY, help="With --from-traces: what Spark's process may take.")
@click.option(
    "--bits",
    default=BITS,
    type=click.IntRange(64, 65_536),
    metavar="N",
    help="With --from-traces: how many publications of a publisher a profile remembers.",
)
@click.option(
    "--skip-unreadable",
    is_flag=True,
    help="With --from-traces: go on without files that cannot be read; they are counted.",
)
@click.option("--to", metavar="TIME", help="With --from-traces: as if the trace ended then.")
def make(
    url: str | None,
    broker: str | None,
    out: Path | None,
    as_json: bool,
    traces: Path | None,
    brokers: Path | None,
    work: Path | None,
    **told: Any,
) -> None:
    """Plan a network anew from what its clients get and send. Nothing is changed.

    Of a running network one broker is enough: it asks all others. With --from-traces nobody is asked: Spark reads
    what brokers recorded, on this machine or on a cluster (--master). The scorecard says how many brokers it takes,
    what each would have to do, how many clients would move, and how sure that is; --out keeps the plan.

    \b
    Examples:
      runnel plan
      runnel plan 127.0.0.1:7001 --algorithm bin-packing
      runnel plan --head-room 20% --max-moves 50 --out plan.json
      runnel plan --from-traces traces/ --brokers brokers.toml --out plan.json

    \b
    Exit codes:
      0    there is a plan
      1    a broker does not answer; the message says which
      2    the command line cannot be used, brokers keep no profiles or too short ones, or
           not everything fits; the message says what to do
    """
    if traces is not None:
        from runnel.cli.pipeline_plan import (
            plan_from_traces,
        )  # Arrow and Spark take a while to load

        if url or broker:
            raise InputError("either a broker is asked or traces are read: say one of them")
        found = plan_from_traces(traces, brokers, work, told)
    else:
        if brokers or work or told["skip_unreadable"] or told["to"]:
            raise InputError(
                "--brokers, --work, --skip-unreadable and --to go with --from-traces DIR"
            )
        found = _ask_all(find_broker(url or broker), told)
    if out is not None:
        write_plan(found, out)
    if as_json:
        click.echo(to_json(found), nl=False)
        return
    show(*scorecard(found))
    if out is not None:
        click.echo("\n".join(kept(found, out)))


def _ask_all(first: Address, told: dict[str, Any]) -> Plan:
    """The plan of the network that a broker belongs to."""
    asked, timeout = take_asked(told, Inventory()), told["timeout"]
    address, reserve = _who_serves(first, timeout)
    answers = gather(*address, timeout)
    for text in told["standby"]:
        answers.join(gather(*find_broker(text), timeout))
    _join_reserve(answers, reserve, timeout)
    return plan_of(answers, asked.options, asked.constraints, told["sample"])


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
