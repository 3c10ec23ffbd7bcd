"""`runnel broker`: one broker in the foreground, until it is told to stop."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from runnel.errors import InputError
from runnel.net.addresses import Address
from runnel.net.loops import run
from runnel.network.file import verify_broker_name
from runnel.node.config import example_config, load_config
from runnel.node.node import AT_ONCE, Node

_file = click.Path(dir_okay=False, path_type=Path)


def _print_example(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(example_config(), nl=False)
        ctx.exit()


@click.command()
@click.option("--config", "config_path", type=_file, metavar="FILE", help="A TOML file.")
@click.option("--name", help="What the broker is called; unique in the network.")
@click.option("--listen", metavar="HOST:PORT", help="Where to listen; port 0 takes any.")
@click.option(
    "--neighbour",
    "neighbours",
    multiple=True,
    metavar="NAME=HOST:PORT",
    help="A broker to dial; once for each.",
)
@click.option(
    "--accept",
    multiple=True,
    metavar="NAME",
    help="A broker that may dial this one; once for each, '*' for any.",
)
@click.option("--allow-remote", is_flag=True, help="Listen beyond this machine, unauthenticated.")
@click.option(
    "--placement",
    type=click.Choice(["off", "pop", "grape"]),
    help="Whether, and by which algorithm, publishers are moved towards their subscribers.",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]))
@click.option("--log-format", type=click.Choice(["text", "json"]))
@click.option(
    "--port-file", type=_file, metavar="FILE", help="Write the address here once it listens."
)
@click.option(
    "--ready-fd", type=click.IntRange(0), metavar="N", help="The same, to a file descriptor."
)
@click.option(
    "--example-config",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_example,
    help="Print a configuration with every key, its default and what it does.",
)
def broker(
    config_path: Path | None,
    port_file: Path | None,
    ready_fd: int | None,
    **flags: Any,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C; then it hands on what it has, and ends.

    Options take the place of what the file says. The log goes to stderr. A second signal ends it at once.

    \b
    Examples:
      runnel broker --name B1                                     listens on 127.0.0.1:7001
      runnel broker --name B2 --listen 127.0.0.1:7002 --neighbour B1=127.0.0.1:7001
      runnel broker --example-config > b1.toml
      runnel broker --config b1.toml

    \b
    Exit codes:
      0    stopped as told, everything handed on
      1    stopped as told, but somebody did not take what was theirs in time
      2    the configuration cannot be used, or the port is taken
      70   a bug; the log tells
      130  stopped at once by a second signal
    """
    given = _options_as_tables(**flags)
    if config_path is None and "name" not in given:
        raise InputError("a broker has a name, unique in the network: say --name NAME")
    config = load_config(config_path, given)
    for name in (config.name, *config.neighbours):
        verify_broker_name(name)
    _allow_many_connections()
    try:
        code = run(_serve(Node(config), port_file, ready_fd))
    except KeyboardInterrupt:  # before the node had its own handler
        code = AT_ONCE
    sys.exit(code)


def _allow_many_connections() -> None:
    """Up to what the system allows at most: the usual limit of 1,024 files is low for clients."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _options_as_tables(
    neighbours: tuple[str, ...],
    accept: tuple[str, ...],
    allow_remote: bool,
    placement: str | None,
    log_level: str | None,
    log_format: str | None,
    **plain: str | None,
) -> dict[str, Any]:
    """The options that were given, in the shape of the file."""
    tables: dict[str, Any] = {key: value for key, value in plain.items() if value is not None}
    if neighbours:
        tables["neighbours"] = dict(map(_neighbour, neighbours))
    if accept:
        tables["accept"] = list(accept)
    if allow_remote:
        tables["allow_remote"] = True
    if placement is not None:
        tables["placement"] = {"algorithm": placement}
    log = {"level": log_level, "format": log_format}
    if given := {key: value for key, value in log.items() if value is not None}:
        tables["log"] = given
    return tables


def _neighbour(text: str) -> tuple[str, str]:
    name, equals, address = text.partition("=")
    if not equals:
        raise InputError(f"--neighbour {text!r}: write NAME=HOST:PORT")
    return name, address


async def _serve(node: Node, port_file: Path | None, ready_fd: int | None) -> int:
    address = await node.start()
    _announce_address(address, port_file, ready_fd)
    return await node.serve()


def _announce_address(address: Address, port_file: Path | None, ready_fd: int | None) -> None:
    """Say where it listens, in one piece: whoever looks sees nothing or all of it."""
    line = f"{address}\n"
    try:
        if port_file is not None:
            unfinished = port_file.with_name(f"{port_file.name}.{os.getpid()}")
            unfinished.write_text(line, encoding="utf-8")
            unfinished.replace(port_file)
        if ready_fd is not None:
            os.write(ready_fd, line.encode())
            os.close(ready_fd)
    except OSError as error:
        where = port_file if ready_fd is None else f"file descriptor {ready_fd}"
        raise InputError(f"cannot write the address to {where}: {error.strerror}") from None
