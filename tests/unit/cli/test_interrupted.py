"""Ctrl-C at any moment: no traceback, exit code 130."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

import runnel.__main__ as entry
import runnel.cli.main as program


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_command_that_does_not_expect_it_ends_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = click.Command("down", callback=_interrupt)
    monkeypatch.setattr(type(program.main), "get_command", lambda *_: command)
    result = CliRunner().invoke(program.main, ["down"])
    assert (result.exit_code, result.output) == (130, "")


def test_so_does_a_program_that_is_still_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "main", _interrupt)
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 130


def test_nothing_slow_is_loaded_before_the_program_can_be_interrupted_quietly() -> None:
    code = "import runnel.__main__, sys; print([m for m in ('lark', 'asyncio', 'click') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_names_of_the_package_are_there_when_they_are_used() -> None:
    import runnel

    assert all(getattr(runnel, name) is not None for name in runnel.__all__)
    assert set(runnel.__all__) <= set(dir(runnel))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = runnel.nonsense  # type: ignore[attr-defined]
