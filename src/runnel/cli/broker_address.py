"""Which broker a command connects to: from the option --broker, the environment, or a running `runnel up`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from runnel.errors import InputError
from runnel.net.addresses import DEFAULT_PORT, Address, parse_address
from runnel.net.tls import VARIABLES
from runnel.network.state import RUN_FOLDER, NetworkState, read_state
from runnel.operate.certificate_folder import OPERATOR, CertificateFolder

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


def use_certificates(folder: Path) -> None:
    """Show an operator's certificate of a folder from now on, unless the environment names others."""
    if not any(os.environ.get(variable) for variable in VARIABLES.values()):
        os.environ.update(CertificateFolder(folder).tls(OPERATOR).as_environment())


def use_network(folder: Path = RUN_FOLDER) -> NetworkState | None:
    """The network that `runnel up` started here, if any; with its certificates, if it has any."""
    state = read_state(folder)
    if state is not None and state.certificates:
        use_certificates(Path(state.certificates))
    return state


def find_broker(said: str | None, folder: Path = RUN_FOLDER) -> Address:
    """The address of the broker to connect to.

    >>> str(find_broker("localhost:7003"))
    'runnel://localhost:7003'
    """
    said = said or os.environ.get(VARIABLE)
    state = use_network(folder)
    if state is not None and state.brokers:
        if said is None:
            return parse_address(next(iter(state.brokers.values())).address)
        if said in state.brokers:
            return parse_address(state.brokers[said].address)
        # It could be a host without a dot and a port, but where brokers have names it is more likely a wrong name.
        if _PLAIN.fullmatch(said) and said != "localhost" and not said.isdecimal():
            raise InputError(
                f"no broker {said} here: {', '.join(state.brokers)}; a host is written with its port, {said}:7001"
            )
    return parse_address(said or DEFAULT)
