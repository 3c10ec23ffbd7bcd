"""The `runnel` program: the group that the commands hang from."""

import click

from runnel.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="runnel")
def main() -> None:
    """Content-based publish/subscribe: who wants this event?"""
