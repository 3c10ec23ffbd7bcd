"""The `runnel` program: the group that the commands hang from, and what they all share.

Rules:
- A user's mistake ends with exit code 2 and a message that says what to do, never with a traceback.
- Ctrl-C has exit code 130. A command that has something to say then handles it itself; any other ends silently.
- A command is in the file of its name in commands/, which is imported only when the command is used, so that a broker
  does not load what draws tables. To add one, put its name into `_COMMANDS`; a `-` in the name is a `_` in those of the
  file and the function. All steps: docs/extending.md.
"""

import errno
import logging
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from runnel.errors import InputError, NetworkError
from runnel.version import __version__

INTERRUPTED = 130
_COMMANDS = (
    # To run brokers.
    "broker",
    "up",
    "down",
    "status",
    "certs",
    "access",
    # To publish and subscribe.
    "pub",
    "sub",
    "advertise",
    "explain",
    # To move publishers, and to need fewer brokers.
    "placement",
    "move-publisher",
    "plan",
    "apply",
    "pipeline",
    # To try, measure and prove; helpers.
    "demo",
    "simulate",
    "match",
    "stocks",
    "trace",
    "reproduce",
    "completion",
)
"""All commands, in the order in which `runnel --help` lists them."""

_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EAGAIN, errno.EIO)
"""Why nothing more can be written: nobody reads, or there is no room."""


def _give_up_output(error: OSError) -> None:
    """Say why the output cannot be written, unless its reader is gone, which is no mistake; and write nothing more."""
    if error.errno != errno.EPIPE:
        with suppress(OSError):
            click.secho("Error: ", fg="red", bold=True, nl=False, err=True)
            click.echo(f"the output cannot be written: {error.strerror}", err=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # or the interpreter tries again when it ends


class _Program(click.Group):
    """A group that turns InputError and NetworkError into a message and exit code 2 or 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"runnel.cli.commands.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except OSError as error:
            if error.errno not in _UNWRITABLE:
                raise
            _give_up_output(error)
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> object:
        # Commands say by themselves on stderr what there is to say.
        logging.getLogger("runnel.client").addHandler(logging.NullHandler())
        try:
            return super().invoke(ctx)
        except (InputError, NetworkError) as error:
            click.secho("Error: ", fg="red", bold=True, nl=False, err=True)
            click.echo(str(error), err=True)
            sys.exit(2 if isinstance(error, InputError) else 1)
        except KeyboardInterrupt:  # commands that have something to say about it have said it
            sys.exit(INTERRUPTED)


def _print_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from runnel.matching import engine_note  # not for every command: it takes a while to load

        click.echo(f"runnel {__version__}, {engine_note()}")
        ctx.exit()


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and the matching engine in use.",
)
def main() -> None:
    """Content-based publish/subscribe: who wants this event?

    \b
    A network of your own, in three terminals:
      runnel broker --name B1
      runnel sub "symbol = 'YHOO'"
      runnel pub symbol=YHOO close=18.37
    Seven brokers at once:
      runnel demo
      runnel up --example tree7 > tree7.toml
      runnel up tree7.toml
    """
