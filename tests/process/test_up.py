"""`runnel up` and `runnel down` with real processes: what comes up comes down, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from process.commands import Shell

TOPOLOGY = """
links = [["B2", "B1"], ["B3", "B1"]]
[brokers.B1]
[brokers.B2]
[brokers.B3]
[[clients]]
name = "quotes"
broker = "B2"
publish = { advertise = "symbol = 'YHOO'", rate_per_s = 400, count = 100 }
[[clients]]
name = "watcher"
broker = "B3"
subscribe = ["symbol = 'YHOO'", "symbol = 'YHOO' AND volume > 45000"]
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "net.toml").write_text(TOPOLOGY)
    with Shell(tmp_path) as one:
        yield one


def test_a_run_to_the_end_reports_what_the_simulator_reports(shell: Shell) -> None:
    real = shell.json("up", "net.toml", "--until-done", "--json")
    assert real == shell.json("up", "net.toml", "--simulate", "--json")
    counts = {row["name"]: (row["published"], row["delivered"]) for row in real["clients"]}
    assert counts["quotes"] == (100, 0)
    assert counts["watcher"][1] > 100
    assert {"from": "B1", "to": "B3", "publications": 100} in real["links"]
    assert shell.left() == []
    assert not (shell.folder / ".runnel" / "state.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything_and_is_no_failure(shell: Shell, number: signal.Signals) -> None:
    up = shell.start("up", "net.toml").until("everything is published")
    assert "Ctrl-C ends it; try runnel status" in up.said
    assert len(shell.left()) == 4
    assert up.end(number) == 0
    assert "all 3 brokers have ended" in up.said
    assert shell.left() == []


def test_a_signal_while_brokers_start_leaves_nothing(shell: Shell) -> None:
    up = shell.start("up", "net.toml")
    state = shell.folder / ".runnel" / "state.json"
    while not state.exists() and up.popen.poll() is None:
        os.sched_yield()
    assert up.end(signal.SIGINT) == 0
    assert shell.left() == []


def test_detached_it_stays_and_down_ends_it(shell: Shell) -> None:
    told = shell.run("up", "net.toml", "--detach")
    assert "B1" in told and ".runnel/B3.log" in told
    status = shell.json("status", "--json")
    assert sorted(broker["name"] for broker in status["brokers"]) == ["B1", "B2", "B3"]
    assert "runs here already" in shell.run("up", "net.toml", code=2)
    shell.run("down")
    assert shell.left() == []
    shell.run("down")  # nothing to do is no failure


def test_down_ends_brokers_whose_up_was_killed(shell: Shell) -> None:
    up = shell.start("up", "net.toml", "--no-clients").until(".runnel/B3.log")
    up.end(signal.SIGKILL)
    assert len(shell.left()) == 3
    assert "brokers of an earlier run" in shell.run("up", "net.toml", code=2)
    shell.run("down")
    assert shell.left() == []


def test_a_broker_that_dies_ends_the_run_with_its_log(shell: Shell) -> None:
    up = shell.start("up", "net.toml").until("everything is published")
    state = json.loads((shell.folder / ".runnel" / "state.json").read_text())
    os.kill(state["brokers"]["B3"]["pid"], signal.SIGKILL)
    assert up.end() == 1
    assert "broker B3 was killed by SIGKILL, so the other 2 were stopped" in up.said
    assert "inspector-" not in up.said
    assert shell.left() == []


def test_with_restart_a_broker_that_dies_comes_back(shell: Shell) -> None:
    up = shell.start("up", "net.toml", "--restart", "--no-clients").until("Ctrl-C ends it")
    first = pid_of(shell, "B3")
    os.kill(first, signal.SIGKILL)
    up.until("broker B3 was killed by SIGKILL, and is started again now: .runnel/B3.log")
    up.until("broker B3 is up again")
    second = pid_of(shell, "B3")
    assert second != first
    shell.run("pub", "a=1", "-b", address_of(shell, "B3"))  # waits until routes are complete
    assert shell.json("status", "--json")["degraded"] == []
    os.kill(second, signal.SIGKILL)
    up.until("broker B3 was killed by SIGKILL, and is started again in 1 s")
    up.until("broker B3 is up again\nbroker B3 was killed")
    up.until("in 1 s: .runnel/B3.log may tell why\nbroker B3 is up again")
    assert up.end(signal.SIGINT) == 0
    assert shell.left() == []
    log = (shell.folder / ".runnel" / "B3.log").read_text()
    assert log.count(" listening ") == 3, "the log of its earlier lives is kept"


def test_with_restart_a_broker_that_cannot_start_does_not_end_the_others(shell: Shell) -> None:
    up = shell.start("up", "net.toml", "--restart", "--no-clients").until("Ctrl-C ends it")
    (shell.folder / ".runnel" / "B3.toml").write_text("nonsense")
    os.kill(pid_of(shell, "B3"), signal.SIGKILL)
    up.until("broker B3 ended with exit code 2, and is started again in 1 s")
    up.until("broker B3 ended with exit code 2, and is started again in 2 s")
    told = shell.run("status", code=1)
    assert "the link B1–B3 is down" in told
    assert up.end(signal.SIGINT) == 1
    assert shell.left() == []


def broker_of(shell: Shell, name: str) -> dict[str, Any]:
    state = json.loads((shell.folder / ".runnel" / "state.json").read_text())
    found: dict[str, Any] = state["brokers"][name]
    return found


def pid_of(shell: Shell, name: str) -> int:
    return int(broker_of(shell, name)["pid"])


def address_of(shell: Shell, name: str) -> str:
    return str(broker_of(shell, name)["address"])


def test_a_setting_that_brokers_refuse_is_told_before_any_starts(shell: Shell) -> None:
    text = TOPOLOGY.replace("[brokers.B3]", "[brokers.B3]\nlink = { heartbeat_s = -1 }")
    (shell.folder / "net.toml").write_text(text)
    told = shell.run("up", "net.toml", code=2)
    assert "net.toml: brokers.B3.link.heartbeat_s: must be at least 0.05, got -1" in told
    assert not (shell.folder / ".runnel").exists()


def test_a_port_that_is_taken_is_told(shell: Shell) -> None:
    shell.start("up", "net.toml", "--no-clients", "--run-folder", "one").until("one/B3.log")
    state = json.loads((shell.folder / "one" / "state.json").read_text())
    port = state["brokers"]["B1"]["address"].rpartition(":")[2]
    taken = TOPOLOGY.replace("[brokers.B1]", f"[brokers.B1]\nport = {port}")
    (shell.folder / "net.toml").write_text(taken)
    told = shell.run("up", "net.toml", code=2)
    assert "broker B1 ended with exit code 2" in told and "is taken" in told
    assert len(shell.left()) == 4  # those of the first one
    shell.run("down", "--run-folder", "one")


def test_publishers_without_an_end_need_a_limit_to_be_done(shell: Shell) -> None:
    (shell.folder / "net.toml").write_text(TOPOLOGY.replace(", count = 100", ""))
    assert "would publish for ever" in shell.run("up", "net.toml", "--simulate", code=2)
    assert "would publish for ever" in shell.run("up", "net.toml", "--until-done", code=2)
    limited = shell.json("up", "net.toml", "--until-done", "--seconds", "0.5", "--json")
    assert limited == shell.json("up", "net.toml", "--simulate", "--seconds", "0.5", "--json")
    assert limited["clients"][0]["published"] == 200
