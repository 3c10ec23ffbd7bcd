"""`runnel plan`: fewer brokers for the same work, as a document. It changes nothing in the network."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from click.core import ParameterSource

from runnel.cli.broker_address import broker_option, find_broker
from runnel.cli.commands.apply import roll_back
from runnel.cli.plan_files import read_plan, write_plan
from runnel.cli.plan_options import apply_planning_options, planning_options
from runnel.cli.show.plans import describe_changes, next_steps, scorecard
from runnel.cli.show.tables import show
from runnel.cli.spark_job import directory, open_job, spark_options, to_option
from runnel.errors import InputError
from runnel.modules.generations.questions import Generation
from runnel.net.addresses import Address, parse_address
from runnel.operate.ask import AskError, ask
from runnel.operate.croc import gather, plan_answers
from runnel.operate.picture import Answers
from runnel.pipeline.inventory import Inventory, read_inventory
from runnel.planning.documents.evidence import SAMPLE
from runnel.planning.documents.plan import Plan, compare_plans, to_json

_file = click.Path(dir_okay=False, path_type=Path)
_OF_BROKERS = ("standby", "sample", "timeout")
_OF_TRACES = ("brokers", "work", "master", "memory", "bits", "skip_unreadable", "to")
"""Parameters of `make` that go with one of the two places that plans come from, and not with the other."""


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
@planning_options
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
    "--from-traces",
    "traces",
    type=directory,
    metavar="DIR",
    help="From what brokers recorded there. The options below go with it.",
)
@click.option(
    "--brokers",
    type=_file,
    metavar="FILE",
    help="What brokers there are, and what to keep to; `runnel pipeline init` writes one.",
)
@click.option(
    "--work",
    type=directory,
    metavar="DIR",
    help="Keep Parquet there, as jobs of `runnel pipeline` do in --out; next time only new days are read.",
)
@spark_options
@to_option
def make(
    url: str | None,
    broker: str | None,
    out: Path | None,
    as_json: bool,
    traces: Path | None,
    brokers: Path | None,
    work: Path | None,
    **options: Any,
) -> None:
    """Plan a network anew from what its clients get and send. Nothing is changed.

    Of a running network one broker is enough: it asks all others. With --from-traces nobody is asked: Spark reads
    what brokers recorded, on this machine or on a cluster (--master). What brokers there are says --brokers then, else
    they are those that were traced; what is asked for on the command line wins.

    The scorecard says how many brokers it takes, what each would have to do, how many clients would move, and how
    sure that is; --out keeps the plan.

    \b
    Examples:
      runnel plan                                   the same as: runnel plan make
      runnel plan 127.0.0.1:7001 --algorithm bin-packing
      runnel plan --head-room 20% --max-moves 50 --out plan.json
      runnel plan --from-traces traces/ --brokers brokers.toml --out plan.json
      runnel plan --from-traces traces/ --work profiles/ --master spark://host:7077 --memory 8g

    \b
    Exit codes:
      0    there is a plan
      1    a broker does not answer; the message says which
      2    the command line or the trace cannot be used, brokers keep no profiles or too short
           ones, or not everything fits; the message says what to do
    """
    if traces is not None:
        if url or broker:
            raise InputError("either a broker is asked or traces are read: say one of them")
        _refuse_options(_OF_BROKERS, "brokers that are asked, not with --from-traces")
        found = _plan_from_traces(traces, brokers, work, options)
    else:
        _refuse_options(_OF_TRACES, "--from-traces DIR")
        found = _plan_from_brokers(find_broker(url or broker), options)
    if out is not None:
        write_plan(found, out)
    if as_json:
        click.echo(to_json(found), nl=False)
        return
    show(*scorecard(found))
    if out is not None:
        click.echo("\n".join(next_steps(found, out)))


def _refuse_options(names: tuple[str, ...], go_with: str) -> None:
    """An InputError that names those of some options that were said."""
    context = click.get_current_context()
    said = [
        option.opts[-1]
        for option in context.command.params
        if option.name in names
        and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if said:
        raise InputError(f"{', '.join(said)}: {'goes' if len(said) == 1 else 'go'} with {go_with}")


def _plan_from_traces(
    traces: Path, brokers: Path | None, work: Path | None, options: dict[str, Any]
) -> Plan:
    """The plan of the network that was traced; what was made of the traces is kept if there is a place for it."""
    asked = apply_planning_options(options, read_inventory(brokers) if brokers else Inventory())
    with ExitStack() as stack:
        out = work or Path(stack.enter_context(TemporaryDirectory(prefix="runnel-plan-")))
        job = stack.enter_context(open_job(options | {"traces": traces, "out": out}))
        from runnel.pipeline.planning import plan_network

        job.make_profiles()
        return plan_network(job, asked)


def _plan_from_brokers(first: Address, options: dict[str, Any]) -> Plan:
    """The plan of the network that a broker belongs to."""
    asked, timeout = apply_planning_options(options, Inventory()), options["timeout"]
    address, reserve = _find_serving_broker(first, timeout)
    answers = gather(address, timeout)
    for text in options["standby"]:
        answers.join(gather(find_broker(text), timeout))
    _join_reserve(answers, reserve, timeout)
    return plan_answers(answers, asked.options, asked.constraints, options["sample"])


@plan.command("show")
@click.argument("file", type=_file)
def show_plan(file: Path) -> None:
    """Show the scorecard of a plan that was kept.

    \b
    Example:
      runnel plan show plan.json

    \b
    Exit codes:
      0    it is shown
      2    the file cannot be used
    """
    show(*scorecard(read_plan(file)))


@plan.command("diff")
@click.argument("old", type=_file)
@click.argument("new", type=_file)
def diff_plans(old: Path, new: Path) -> None:
    """Show what one plan asks for that another does not.

    \b
    Example:
      runnel plan diff monday.json tuesday.json

    \b
    Exit codes:
      0    they ask for the same network
      1    they do not
      2    a file cannot be used
    """
    found = compare_plans(read_plan(old), read_plan(new))
    if found.same:
        click.echo("the same network")
        return
    click.echo("\n".join(describe_changes(found)))
    raise SystemExit(1)


@plan.command("rollback")
@click.argument("file", type=_file)
@click.option("--yes", is_flag=True, help="Do not ask.")
def rollback(file: Path, yes: bool) -> None:
    """Take back a plan that `runnel apply` carried out last, or is carrying out; asks first.

    A switch that is under way is taken back. Otherwise the network becomes what it was before the plan,
    in the same way: with nothing lost, and nobody stopped.

    \b
    Example:
      runnel plan rollback plan.json

    \b
    Exit codes:
      0    the network is as it was before the plan
      1    the switch back was itself taken back, a broker does not answer, or you said no
      2    the plan, or what is kept beside it, cannot be used
      130  Ctrl-C: the switch back was itself taken back
    """
    roll_back(file, yes)


def _find_serving_broker(address: Address, timeout_s: float) -> tuple[Address, dict[str, str]]:
    """A broker of the network that a broker belongs to, which may be on standby itself; and those that are."""
    try:
        answer = ask(address, Generation(), timeout_s)
    except AskError:
        return address, {}  # it knows no generations, or does not answer, which will be told
    return parse_address(answer["standby"]) if answer["standby"] else address, answer["reserve"]


def _join_reserve(answers: Answers, reserve: dict[str, str], timeout_s: float) -> None:
    """The brokers that earlier plans have freed may be used again; one that does not answer is planned without."""
    for name, where in reserve.items():
        if name not in answers.brokers:
            try:
                answers.join(gather(parse_address(where), timeout_s))
            except AskError as error:
                click.echo(f"{name} is on standby, and planned without: {error}", err=True)
