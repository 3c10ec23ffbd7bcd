"""What the log calls what a broker traces."""

from __future__ import annotations

from logging import DEBUG, INFO, WARNING
from types import SimpleNamespace
from typing import Any

from runnel.broker.connections import EXPIRED
from runnel.broker.effects import WriteTrace
from runnel.node.wording import Wording

LINKS: Any = {
    "alice": SimpleNamespace(kind="client"),
    "B2": SimpleNamespace(kind="broker"),
    "inspector-1": SimpleNamespace(kind="operator"),
}


def entries(peer: str, reason: str) -> list[tuple[str, int, Any]]:
    wording = Wording()
    up = WriteTrace("link-up", {"peer": peer, "fresh": True})
    lost = WriteTrace("link-lost", {"peer": peer, "reason": reason})
    return [wording.log_entry(up, LINKS), wording.log_entry(lost, {})]


def test_a_client_that_says_farewell_has_left() -> None:
    up, lost = entries("alice", "alice left: the client leaves")
    assert up[:2] == ("link-up", INFO)
    assert lost == ("client-left", INFO, {"peer": "alice", "reason": "the client leaves"})


def test_one_that_does_not_is_lost() -> None:
    assert entries("alice", EXPIRED)[1][:2] == ("link-lost", WARNING)
    assert entries("B2", "B2 left: the broker leaves")[1][:2] == ("link-lost", INFO)


def test_who_only_asks_is_not_worth_a_line() -> None:
    levels = [level for _, level, _ in entries("inspector-1", "inspector-1 left: asked enough")]
    assert levels == [DEBUG, DEBUG]


def test_a_client_whose_name_was_taken_is_told_loudly() -> None:
    displaced = WriteTrace("client-displaced", {"peer": "alice"})
    assert Wording().log_entry(displaced, LINKS) == ("client-displaced", WARNING, {"peer": "alice"})


def test_of_decisions_only_those_that_move_somebody_are_worth_a_line() -> None:
    levels = {
        outcome: Wording().log_entry(WriteTrace("placement", {"outcome": outcome}), {})[1]
        for outcome in ("moves", "stays", "dry run")
    }
    assert levels == {"moves": INFO, "stays": DEBUG, "dry run": DEBUG}
