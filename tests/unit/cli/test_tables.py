"""What tables look like: no blanks at the ends of lines, and headings that are never cut."""

from __future__ import annotations

import re
from typing import Any

import pytest
from rich.console import Console

from runnel.cli.show.network import LiveView, where_table
from runnel.cli.show.status import print_network
from runnel.cli.show.stories import story_lines
from runnel.cli.show.tables import show
from runnel.net.addresses import Address
from runnel.network.state import BrokerState
from runnel.operate.walk import LiveNetwork

ADDRESS = "runnel://127.0.0.1:54321"


def link(name: str, kind: str, up: bool = True) -> dict[str, Any]:
    counts = dict.fromkeys(
        ("publications_in", "publications_out", "waiting_bytes", "flying_bytes"), 123_456
    )
    return {"name": name, "kind": kind, "up": up, "address": "", **counts}


def status(name: str, *links: dict[str, Any]) -> dict[str, Any]:
    meter = {
        "publications_in": 1_234_567,
        "publications_out": 1_234_567,
        "dropped": 0,
        "discarded": 0,
    }
    counts = {"clients": 1, "advertisements": 2, "subscriptions": 3, "uptime_s": 5.0}
    told = {"name": name, "address": ADDRESS, "version": "0", "links": list(links)}
    return {**told, **counts, "meter": meter}


def found(silent: bool = False) -> LiveNetwork:
    links = [link("B2", "broker", not silent), link("alice", "client")]
    network = LiveNetwork({"B1": status("B1", *links)}, {"B1": Address("127.0.0.1", 54321)})
    if silent:
        network.silent["B2"] = "connection refused"
    else:
        network.brokers["B2"] = status("B2", link("B1", "broker"), link("alice", "client"))
        network.addresses["B2"] = Address("127.0.0.1", 54322)
    return network


def test_no_line_ends_with_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    show(where_table({"B1": BrokerState(17, ADDRESS, ".runnel/B1.log", "x.toml")}))
    print_network(found(), {})
    lines = capsys.readouterr().out.splitlines()
    assert any("B1" in line for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


def test_headings_of_the_live_view_fit_80_columns() -> None:
    console = Console(width=80, highlight=False)
    with console.capture() as captured:
        console.print(LiveView().tables(dict(found().brokers), {}))
    text = captured.get()
    for heading in (
        "links up",
        "clients",
        "in/s",
        "out/s",
        "dropped",
        "delivered",
        "hops",
        "missed",
    ):
        assert heading in text
    assert "…" not in text


def test_so_do_those_of_status(capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal of 80 columns has no room for addresses."""
    with pytest.MonkeyPatch.context() as patch:
        narrow = Console(width=80, highlight=False)
        patch.setattr("runnel.cli.show.status.make_console", lambda: narrow)
        patch.setattr("runnel.cli.show.tables.make_console", lambda: narrow)
        print_network(found(), {})
    text = capsys.readouterr().out
    assert "waiting" in text and "← waiting" in text and "1,234,567" in text and "…" not in text


def test_a_wide_terminal_has_room_for_memory_and_tells_who_is_slow(
    capsys: pytest.CaptureFixture[str],
) -> None:
    network = found()
    network.brokers["B1"]["gauges"] = {"memory_bytes": 45 << 20, "waiting_publications": 1_234}
    network.brokers["B2"]["gauges"] = {"memory_bytes": None, "waiting_publications": None}
    with pytest.MonkeyPatch.context() as patch:
        wide = Console(width=100, highlight=False)
        patch.setattr("runnel.cli.show.status.make_console", lambda: wide)
        patch.setattr("runnel.cli.show.tables.make_console", lambda: wide)
        print_network(network, {})
    text = capsys.readouterr().out
    assert "memory" in text and "127.0.0.1:54321" in text and "…" not in text
    assert re.search(r"B1 .* 45 MiB\n", text)
    assert "B1 has 1,234 publications to match" in text and "B2 has" not in text


def test_status_names_who_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    print_network(found(silent=True), {})
    text = capsys.readouterr().out
    assert re.search("B2 +does not answer", text)
    assert "B2 does not answer; what is behind it is unknown" in text


def test_status_warns_of_a_name_at_two_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    print_network(found(), {})
    assert "alice is at B1 and at B2" in capsys.readouterr().out
    assert found(silent=True).doubles() == {}


def test_a_story_is_told_in_the_order_in_which_it_happened() -> None:
    """B2 was asked a little later: by its answer alone, its clock would seem to be behind."""
    told = {
        "B2": {"now_ns": 1_000, "entries": [{"at_ns": 700, "what": "B1 published, for ['bob']"}]},
        "B1": {"now_ns": 600, "entries": [{"at_ns": 500, "what": "x published, for ['B2']"}]},
    }
    lines = story_lines(told, ["B1", "B2"], 1_800_000_000_000_000_000)
    assert [line.split("  ", 1)[1] for line in lines] == [
        "B1  published by x; handed on: B1 → B2",
        "B2  came from B1; delivered: B2 → bob",
    ]
