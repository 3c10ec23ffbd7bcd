"""The `runnel` program: the group that the commands hang from, and what they all share.

Rules:
- A user's mistake ends with exit code 2 and a message that says what to do, never with a traceback.
- Ctrl-C where a command does not expect it ends it without a word, with exit code 130.
- A command lives in the file of its name and is loaded when it is wanted: a broker need not carry what draws tables.
"""

import sys
from importlib import import_module

import click

from runnel.errors import InputError, NetworkError
from runnel.version import __version__

INTERRUPTED = 130
_COMMANDS = (
    *("broker", "up", "down", "status"),
    *("pub", "sub", "advertise", "explain"),
    *("placement", "move-publisher", "plan", "apply", "pipeline"),
    *("demo", "simulate", "match", "stocks", "trace", "reproduce", "completion"),
)


class _Program(click.Group):
    """A group that turns what its commands cannot do into a message: exit code 2, or 1 if it is the network."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"runnel.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
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
