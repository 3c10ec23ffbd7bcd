"""The `runnel` program: the group that the commands hang from, and what they all share.

Rule: a user's mistake ends with exit code 2 and a message that says what to do, never with a traceback.
"""

import sys

import click

from runnel.cli.match import match
from runnel.cli.simulate import simulate
from runnel.cli.stocks import stocks
from runnel.errors import InputError
from runnel.matching import engine_note
from runnel.version import __version__


class _Program(click.Group):
    """A group that turns every InputError of its commands into a message and exit code 2."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except InputError as error:
            click.secho("Error: ", fg="red", bold=True, nl=False, err=True)
            click.echo(str(error), err=True)
            sys.exit(2)


def _print_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
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
    Try it without data of your own:
      runnel stocks build/demo
      runnel match --filters build/demo/filters.txt --events build/demo/quotes.parquet
    """


main.add_command(match)
main.add_command(simulate)
main.add_command(stocks)
