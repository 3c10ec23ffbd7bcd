"""What `runnel placement` prints of what brokers told."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from runnel.cli.show.publishers import print_publishers
from runnel.operate.publishers import Found

GRAPE: dict[str, Any] = {
    "id": 7,
    "publisher": "quotes",
    "at": "B1",
    "algorithm": "grape",
    "metric": "load",
    "weight_percent": 100.0,
    "migrating": False,
    "rests_s": 0.0,
    "progress": {"what": "publications", "have": 40, "wanted": 100, "is_deciding": False},
    "subscribers": None,
    "decision": {
        "to": "B3",
        "outcome": "moves",
        "age_s": 3.2,
        "numbers": {
            "publications": 100,
            "load": 300,
            "load_there": 100,
            "delay_s": 0.00123456,
            "delay_there_s": 0.0005,
        },
        "candidates": [
            {"broker": "B3", "hops": 2, "delay_s": 0.0005, "load": 100, "kept": True},
            {"broker": "B1", "hops": 0, "delay_s": 0.00123456, "load": 300, "kept": False},
        ],
    },
}
POP = GRAPE | {
    "publisher": "news",
    "algorithm": "pop",
    "subscribers": {"B1": 1.0, "B2": 3.25},
    "decision": None,
    "rests_s": 20.0,
    "progress": {"what": "trace results", "have": 7, "wanted": 100, "is_deciding": False},
}


def printed(
    capsys: pytest.CaptureFixture[str], *rows: dict[str, Any], candidates: bool = False
) -> str:
    print_publishers(Found(list(rows), {"B9": "no way"}), with_candidates=candidates)
    return " ".join(capsys.readouterr().out.split())


def test_a_line_says_where_to_why_and_when(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, GRAPE, POP)
    assert (
        "quotes B1 grape, load 100% B3 moves 3 s ago "
        "load 300 → 100, delay 1.23 ms → 0.5 ms, by 100 publications"
    ) in text
    assert "news B1 pop – – – 7 of 100 trace results so far; rests for 20 s" in text
    assert "B9 does not answer: no way" in text and "hops" not in text


def test_the_candidates_are_those_that_were_considered(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, GRAPE, POP, candidates=True)
    assert "B1 0 300 1.23 ms is here, too much load B3 2 100 0.5 ms best" in text
    assert "B1 (here) 1 B2 3.25" in text


def test_what_is_missing_and_what_is_under_way_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, POP | {"missing": "POP has 7 of 100 trace results"})
    assert "undecided – POP has 7 of 100 trace results" in text
    assert "migrating" in printed(capsys, GRAPE | {"migrating": True})
    assert "nobody publishes anything" in printed(capsys)


def test_nothing_is_cut_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "runnel.cli.show.tables.make_console", lambda: Console(width=80, highlight=False)
    )
    text = printed(capsys, GRAPE, POP)
    assert "…" not in text and "publications" in text and "3 s ago" in text
