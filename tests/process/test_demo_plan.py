"""From traces to another network, on real processes: brokers record, Spark plans, `runnel apply` switches, traces tell.

The demonstration is the test: it gives the commands that a user would give, and counts by brute force.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from process import commands
from process.commands import Shell
from runnel.planning.documents.plan import from_json


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes a quarter of a minute on a machine that does nothing else, and much more on one that does."""
    monkeypatch.setattr(commands, "WITHIN_S", 400.0)


def test_fewer_brokers_do_the_same_work_and_nothing_is_lost(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        running = shell.start("demo", "--seconds", "4", "--keep", "kept", "--json")
        assert running.end() == 0, running.said
        assert shell.left() == []
        told = json.loads(running.out)
        assert told["lost"] == told["doubled"] == told["disordered"] == told["in_doubt"] == 0
        assert told["delivered"] == told["must"] > 1_000
        before, after = told["before"], told["after"]
        assert before["brokers"] == 7 and after["brokers"] < 7
        assert after["messages_per_s"] < before["messages_per_s"]
        told = json.loads((tmp_path / "kept" / "report" / "report.json").read_bytes())
        for when, one in (("before", before), ("after", after)):
            summary = told[when]["summary"]
            assert summary["messages_per_s"] == one["messages_per_s"] and summary["seconds"] > 1
            assert 0 <= summary["pure_forwards"] < summary["handled"]
        plan = from_json((tmp_path / "kept" / "plan.json").read_bytes())
        assert len(plan.overlay) == after["brokers"]
        assert len(plan.addresses) == 7 and set(plan.owners) == set(plan.publishers)
        assert plan.evidence is not None and plan.evidence.source == "traces"
        assert all(0 < load.output_ratio <= 1 for load in plan.after.values())
        shown = shell.run("plan", "show", "kept/plan.json")
        assert "rests on" in shown and "capacity" in shown
        asked = ("pipeline", "profiles", "--traces", "kept/traces", "--out")
        stopped = shell.start(*asked, "profiles").until("reading")
        assert stopped.end(signal.SIGINT) == 130
        assert "interrupted; run it again" in stopped.said, stopped.said
        assert "Traceback" not in stopped.said and "ERROR" not in stopped.said, stopped.said
        assert shell.left() == []


def test_ctrl_c_while_spark_plans_leaves_nothing(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        running = shell.start("demo", "--seconds", "3").until("looking at the files")
        assert running.end(signal.SIGINT) == 130
        assert shell.left() == []
    assert list(tmp_path.iterdir()) == []
