"""`runnel pipeline init`: a file of brokers and constraints to begin with."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from runnel.cli.show.plans import count_of
from runnel.cli.spark_job import directory, open_job
from runnel.errors import InputError
from runnel.pipeline.inventory import inventory_text
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

    \b
    Exit codes:
      0    the file is written
      2    the file is there already, or the trace cannot be used; the message says what to do
    """
    if file.exists() and not force:
        raise InputError(f"{file}: is there already: choose another name, or say --force")
    text = inventory_text(str(file))
    if traces is not None:
        with TemporaryDirectory(prefix="runnel-init-") as folder:
            options = {"traces": traces, "out": Path(folder), "master": master, "memory": memory}
            with open_job(options | {"bits": 64, "skip_unreadable": True}) as job:
                from runnel.pipeline.planning import observe_brokers

                found = observe_brokers(job)
                text = inventory_text(str(file), found)
            click.echo(f"{count_of(len(found), 'broker')} traced")
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    click.echo(f"written to {file}")
