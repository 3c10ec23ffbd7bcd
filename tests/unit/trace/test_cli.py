"""`runnel trace` as a person uses it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from runnel.cli.main import main
from runnel.trace.schemas import SubscriptionsRow
from support.taping import interval_row


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["trace", *map(str, arguments)])


@pytest.fixture
def directory(lab: Any) -> Path:
    for counter in range(1, 31):
        lab.publish(counter, "B1" if counter % 2 else "B2", at_s=counter, a=counter, b=5)
    lab.recorder.control("B1", 31 * 10**9, "moved", {"client": "alice", "to": "B2"})
    lab.recorder.add(
        interval_row(
            "B1",
            31 * 10**9,
            window_ns=10**10,
            input_ratio=0.25,
            matching_delay_s=0.001,
            **{"input_rate": 5.0, "output_rate": 6.0, "publications_in": 5, "publications_out": 6},
            **{"control_in": 1, "frames_out": 7, "bytes_in": 9, "bytes_out": 9},
            messages_in=[("control", 1)],
            **{"subscriptions": 3, "advertisements": 4, "clients": 2},
        )
    )
    lab.recorder.add(
        SubscriptionsRow(
            time_ns=1,
            broker="B1",
            client="alice",
            event="made",
            subscription=20,
            filter="a > 5",
            selection=b"\x90",
        )
    )
    lab.now = 32 * 10**9
    lab.writer.close()
    found: Path = lab.directory
    return found


def test_summary_for_people_and_for_programs(directory: Path) -> None:
    told = run("summary", directory)
    assert told.exit_code == 0
    assert "virtual time" in told.output and "nothing is missing" in told.output
    line = next(line for line in told.output.splitlines() if "publications" in line)
    assert "30" in line and "1.000000 s" in line and "30.000000 s" in line
    found = json.loads(run("summary", directory, "--json").output)
    assert found["tables"]["publications"]["rows"] == 30
    assert found["writers"][0]["state"] == "ended"


def test_a_summary_tells_what_is_missing(directory: Path) -> None:
    (part,) = (directory / "publications").rglob("part-*.parquet")
    part.write_bytes(b"torn")
    told = run("summary", directory)
    assert told.exit_code == 1
    assert part.name in told.output.replace("\n", "") and "cannot be read" in told.output


def test_show_filters_and_limits(directory: Path) -> None:
    wanted = ["publications", "--where", "a > 25 AND broker = 'B2'", "--json"]
    rows = [json.loads(line) for line in run("show", directory, *wanted).output.splitlines()]
    assert [row["attributes"]["a"] for row in rows] == [26, 28, 30]
    shown = run("show", directory, "publications", "--limit", 2)
    assert shown.stdout.count("quotes") == 2 and "a=1 b=5" in shown.stdout
    assert "more than 2 rows" in shown.stderr
    everything = run("show", directory, "publications", "--limit", 0, "--json")
    assert len(everything.stdout.splitlines()) == 30
    between = ["publications", "--from", 10, "--to", 12, "--broker", "B1", "--json"]
    (row,) = run("show", directory, *between).output.splitlines()
    assert json.loads(row)["counter"] == 11


def test_every_table_can_be_shown(directory: Path) -> None:
    assert "moved" in run("show", directory, "control").stdout
    assert "input_ratio=0.25" in run("show", directory, "intervals").stdout
    assert "a > 5" in run("show", directory, "subscriptions").stdout
    (row,) = run("show", directory, "subscriptions", "--json").stdout.splitlines()
    assert json.loads(row)["selection"] == "kA=="
    assert "no rows" in run("show", directory, "deliveries").stderr


def test_tail_is_the_end(directory: Path) -> None:
    lines = run("tail", directory, "-n", 3).output.splitlines()
    assert [line.split()[3] for line in lines] == ["publications", "intervals", "control"]
    (line,) = run("tail", directory, "-n", 1, "--table", "publications", "--json").output.split(
        "\n"
    )[:-1]
    assert json.loads(line)["counter"] == 30


def test_mistakes_are_explained(directory: Path, tmp_path: Path) -> None:
    for arguments, message in (
        (["summary", tmp_path / "nowhere"], "there is no such directory"),
        (["show", directory, "quotes"], "'quotes' is not one of"),
        (["show", directory, "control", "--where", "a = = 5"], "expected"),
    ):
        told = run(*arguments)
        assert told.exit_code == 2
        assert message in told.stderr


def test_follow_goes_on_with_what_is_written(make_lab: Any) -> None:
    lab = make_lab()
    lab.publish(1, at_s=1)
    lab.writer.flush()
    command = [sys.executable, "-m", "runnel", "trace", "tail", str(lab.directory)]
    with subprocess.Popen(
        [*command, "--follow", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["counter"] == 1
        for counter in (2, 3):
            lab.publish(counter, at_s=counter)
            lab.writer.flush()
            assert json.loads(tail.stdout.readline())["counter"] == counter
        tail.send_signal(signal.SIGINT)
        _, errors = tail.communicate(timeout=30)
    assert tail.returncode == 130 and "Traceback" not in errors
