"""`runnel pipeline plan` and `init`, and `runnel plan --from-traces`: from what brokers recorded to a plan."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from runnel.allocation.plan import Plan
from runnel.cli.pipelinejob import directory, job_options, running_job, to_option
from runnel.cli.planasked import asked_options, take_asked
from runnel.cli.planfile import write_plan
from runnel.cli.plantext import counted, kept, scorecard
from runnel.cli.tables import show
from runnel.errors import InputError
from runnel.pipeline.inventory import Inventory, inventory_text, read_inventory
from runnel.pipeline.session import LOCAL, MEMORY

file_path = click.Path(dir_okay=False, path_type=Path)
INVENTORY = Path("brokers.toml")


@click.command(short_help="Write a file of brokers and constraints to begin with.")
@click.argument("file", type=file_path, default=INVENTORY, required=False)
@click.option(
    "--traces", type=directory, metavar="DIR", help="Name the brokers that recorded these."
)
@click.option("--force", is_flag=True, help="In place of a file that is there.")
@click.option("--master", default=LOCAL, show_default=True, metavar="M", help="Where Spark runs.")
@click.option("--memory", default=MEMORY, show_default=True, help="What Spark's process may take.")
def init(file: Path, traces: Path | None, force: bool, master: str, memory: str) -> None:
    """Write a commented FILE (brokers.toml) that says what brokers there are and what a plan must keep to.

    With --traces it has every broker that was traced, where it listens, and what it was measured to be able to do.

    \b
    Examples:
      runnel pipeline init
      runnel pipeline init --traces traces/ brokers.toml
      runnel plan --from-traces traces/ --brokers brokers.toml
    """
    if file.exists() and not force:
        raise InputError(f"{file}: is there already: choose another name, or say --force")
    text = inventory_text(str(file))
    if traces is not None:
        with TemporaryDirectory(prefix="runnel-init-") as folder:
            told = {"traces": traces, "out": Path(folder), "master": master, "memory": memory}
            with running_job(told | {"bits": 64, "skip_unreadable": True}) as job:
                from runnel.pipeline.planning import measure

                found = measure(job)
                text = inventory_text(str(file), found)
            click.echo(f"{counted(len(found), 'broker')} traced")
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    click.echo(f"written to {file}")


@click.command(short_help="Fewer brokers for the same work, as a document.")
@job_options
@to_option
@click.option("--brokers", type=file_path, metavar="FILE", help="What brokers there are.")
@click.option("-o", "--plan", "file", type=file_path, help="Where to.  [default: OUT/plan.json]")
@asked_options
def plan(brokers: Path | None, file: Path | None, **told: Any) -> None:
    """Plan the network that was traced: as few brokers as their capacity allows. Nothing is changed.

    The document is the same that `runnel plan` makes of a running network, for `runnel apply`. FILE says what brokers
    there are and what to keep to (`runnel pipeline init` writes one); without it, the brokers are those that
    were traced. What is asked for on the command line wins.

    \b
    Examples:
      runnel pipeline plan --traces traces/ --out profiles/
      runnel pipeline plan --traces traces/ --out profiles/ --brokers brokers.toml --head-room 20%
      runnel plan show profiles/plan.json

    \b
    Exit codes:
      0    there is a plan
      2    the command line, the trace or FILE cannot be used, or not everything fits
    """
    inventory = take_asked(told, read_inventory(brokers) if brokers else Inventory())
    found = _planned(inventory, told)
    out = file or told["out"] / "plan.json"
    write_plan(found, out)
    show(*scorecard(found))
    click.echo("\n".join(kept(found, out)))


def plan_from_traces(
    traces: Path, brokers: Path | None, work: Path | None, told: dict[str, Any]
) -> Plan:
    """What `runnel plan --from-traces` does; what was made of the traces is kept if there is a place for it."""
    inventory = take_asked(told, read_inventory(brokers) if brokers else Inventory())
    told = told | {"traces": traces}
    if work is not None:
        return _planned(inventory, told | {"out": work})
    with TemporaryDirectory(prefix="runnel-plan-") as folder:
        return _planned(inventory, told | {"out": Path(folder)})


def _planned(inventory: Inventory, told: dict[str, Any]) -> Plan:
    with running_job(told) as job:
        from runnel.pipeline.planning import plan_network

        job.profiles()
        return plan_network(job, inventory)
