"""NetworkState files, configurations as TOML, and whose process a pid is."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import InputError
from runnel.network.processes import write_toml
from runnel.network.state import (
    BrokerState,
    NetworkState,
    is_ours,
    read_state,
    remove_state,
    write_state,
)


def test_a_state_is_read_back(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert read_state(folder) is None
    state = NetworkState(5, "net.toml", "running", {"B1": BrokerState(6, "runnel://h:1", "l", "c")})
    write_state(folder, state)
    assert read_state(folder) == state
    assert [path.name for path in folder.iterdir()] == ["state.json"]
    remove_state(folder)
    remove_state(folder)
    assert read_state(folder) is None


def test_a_state_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"pid": "x"}')
    with pytest.raises(InputError, match="if nothing runs, remove"):
        read_state(tmp_path)


def test_a_pid_is_ours_only_with_the_right_command_line() -> None:
    code = "import sys; print(flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "mine"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        with child.stdout:
            child.stdout.readline()  # for a moment after it was started it has no command line yet
        assert is_ours(child.pid, "mine")
        assert not is_ours(child.pid, "yours")
    finally:
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_ours(child.pid, "mine"), "a zombie runs no more"
        child.wait()
    assert not is_ours(child.pid, "mine")


PLAIN = st.text(st.characters(codec="utf-8")) | st.booleans() | st.integers(-(2**63), 2**63 - 1)
KEYS = st.text(st.characters(codec="utf-8"), max_size=8)
TABLES = st.dictionaries(
    KEYS, PLAIN | st.dictionaries(KEYS, PLAIN | st.floats(-1e9, 1e9), max_size=3), max_size=5
)


@given(TABLES)
def test_what_is_written_as_toml_is_read_back(tables: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(tables)) == tables
