"""Which broker a command talks to: said on the command line, in the environment, or known from `runnel up`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from runnel.errors import InputError
from runnel.net.addresses import DEFAULT_PORT, Address, parse_address
from runnel.topology.state import RUN_FOLDER, read_state

VARIABLE = "RUNNEL_BROKER"
DEFAULT = f"runnel://127.0.0.1:{DEFAULT_PORT}"
DIAL_S = 3.0  # a person at a terminal does not wait long for a broker that is not there
_PLAIN = re.compile(r"[^:/.]+")
_C = TypeVar("_C", bound=Callable[..., object])


def broker_option(command: _C) -> _C:
    """Give a command the option --broker; its value is for `find_broker`."""
    return click.option(
        "--broker",
        "-b",
        metavar="URL",
        help=f"The broker: an address, or the name of one that `runnel up` started here. "
        f"[default: ${VARIABLE}, else what runs here, else {DEFAULT}]",
    )(command)


def find_broker(said: str | None, folder: Path = RUN_FOLDER) -> Address:
    """The address that is meant.

    >>> str(find_broker("localhost:7003"))
    'runnel://localhost:7003'
    """
    said = said or os.environ.get(VARIABLE)
    state = read_state(folder)
    if state is not None and state.brokers:
        if said is None:
            return parse_address(next(iter(state.brokers.values())).address)
        if said in state.brokers:
            return parse_address(state.brokers[said].address)
        # A host without a dot or a port could be meant, but it hardly is where names of brokers are known.
        if _PLAIN.fullmatch(said) and said != "localhost" and not said.isdecimal():
            raise InputError(
                f"no broker {said} here: {', '.join(state.brokers)}; a host is written with its port, {said}:7001"
            )
    return parse_address(said or DEFAULT)
