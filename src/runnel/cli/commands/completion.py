"""`runnel completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from runnel.errors import InputError


@click.command(short_help="Completion for bash, zsh and fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete runnel's commands and options.

    \b
    Examples:
      eval "$(runnel completion bash)"                                     for this shell
      runnel completion bash >> ~/.bashrc                                  for all to come
      runnel completion fish > ~/.config/fish/completions/runnel.fish

    \b
    Exit codes:
      0    done
      2    there is no completion for this shell
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise InputError(f"no completion for {shell}: use bash, zsh or fish")
    program = ctx.find_root().command
    click.echo(kind(program, {}, "runnel", "_RUNNEL_COMPLETE").source())
