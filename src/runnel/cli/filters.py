"""Filters as people type them: read, with a warning where they can hardly be meant."""

from __future__ import annotations

import click

from runnel.errors import InputError
from runnel.language import NOTHING, Selection, parse


def read_filter(text: str, *, quiet: bool = False) -> Selection:
    """Read a filter from the command line; one that can never match is warned of on stderr.

    The language reads empty text as everything, but on a command line it is rather a variable that was not set.

    >>> read_filter("")
    Traceback (most recent call last):
    runnel.errors.InputError: the filter is empty: to want everything, write TRUE
    """
    if not text.strip():
        raise InputError("the filter is empty: to want everything, write TRUE")
    selection = parse(text)
    if selection == NOTHING and not quiet:
        click.echo(f"warning: no event can ever match {text!r}: it contradicts itself", err=True)
    return selection
