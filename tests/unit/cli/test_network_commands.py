"""The commands around a network, as far as they need none: help, mistakes, where they look for a broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from runnel.cli.broker_address import DEFAULT, VARIABLE, find_broker
from runnel.cli.main import main
from runnel.errors import InputError
from runnel.network.state import BrokerState, NetworkState, write_state

COMMANDS = (
    *("up", "down", "status", "pub", "sub", "advertise", "explain", "demo", "completion"),
    *("placement", "move-publisher"),
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_worth_reading(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 8
    assert command in ("down", "demo") or f"runnel {command}" in result.output


@pytest.mark.parametrize(
    "command",
    [
        *("broker", "up", "status", "pub", "sub", "advertise", "explain", "demo", "simulate"),
        *("placement", "move-publisher"),
    ],
)
def test_exit_codes_are_listed_where_there_are_more_than_two(command: str) -> None:
    told = run(command, "--help").output.partition("Exit codes:")[2]
    assert all(f"  {code}  " in told for code in (0, 1, 2))


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All commands that do something, with the groups that they are in."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        if not found.hidden:
            yield from leaves(found, (*path, name))


@pytest.mark.parametrize("path", [*leaves(main)], ids=" ".join)
def test_every_command_has_examples_and_exit_codes(path: tuple[str, ...]) -> None:
    told = run(*path, "--help").output
    examples, _, codes = told.partition("Exit codes:")
    assert f"runnel {' '.join(path)}" in examples.partition("Example")[2]
    assert all(f"  {code}  " in codes for code in (0, 2))


def test_all_commands_are_listed_and_found() -> None:
    listed = run("--help").output
    assert all(f"  {command} " in listed for command in COMMANDS)
    assert run("nonsense").exit_code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_for_this_program(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0 and "_RUNNEL_COMPLETE" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sub", "volume >"], "expected a number"),
        (["sub"], "FILTER"),
        (["advertise", "= 3"], "expected"),
        (["pub", "volume"], "write name=value"),
        (["pub", "a=1", "--advertise", "a >"], "expected a number"),
        (["pub", "--payload", "x"], "--payload and --repeat are for an event"),
        (["pub", "a=1", "--broker", "http://x"], "write runnel://host:port"),
        (["explain", "--event", "a=1"], "say --event, --from and --to"),
        (["up", "nowhere.toml"], "nowhere.toml: cannot be opened"),
        (["status", "ftp://x"], "write runnel://host:port"),
        (["placement", "ftp://x"], "write runnel://host:port"),
        (["move-publisher", "quotes"], "Missing option '--to'"),
        (["broker", "--name", "B1", "--placement", "best"], "'best' is not one of 'off', 'pop'"),
        (["sub", " "], "the filter is empty: to want everything, write TRUE"),
        (["advertise", ""], "write TRUE"),
        (["pub", '{"a": null}'], "a: null is no value; leave it out"),
        (["broker"], "say --name NAME"),
        (["broker", "--name", "B 1"], "'B 1' is no name of a broker"),
        (["broker", "--name", "B1", "--listen", "7001"], "write HOST:PORT"),
        (["broker", "--name", "B1", "--listen", "127.0.0.1:99999"], "a port is 1–65535"),
    ],
)
def test_a_mistake_is_told_and_ends_with_code_2(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert said in result.output and "Traceback" not in result.output


def test_a_broker_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert str(find_broker(None, tmp_path)) == DEFAULT
    brokers = {
        name: BrokerState(1, f"runnel://127.0.0.1:{port}", "x.log", "x.toml")
        for name, port in (("B1", 7100), ("B2", 7200))
    }
    write_state(tmp_path, NetworkState(1, "net.toml", "running", brokers))
    assert find_broker(None, tmp_path).port == 7100
    assert find_broker("B2", tmp_path).port == 7200
    assert find_broker("localhost:9", tmp_path).port == 9
    with pytest.raises(InputError, match="no broker B9 here: B1, B2"):
        find_broker("B9", tmp_path)
    assert find_broker("localhost", tmp_path).host == "localhost"
    monkeypatch.setenv(VARIABLE, "127.0.0.1:7300")
    assert find_broker(None, tmp_path).port == 7300
    monkeypatch.setenv(VARIABLE, "B2")
    assert find_broker(None, tmp_path).port == 7200
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(InputError, match=r"state\.json cannot be read"):
        find_broker(None, tmp_path)
