"""Publishers in a whole network: where they are, what placement would decide, and a move by hand.

Each broker reports its own publishers. During a migration two brokers may report the same one; the later place counts.
Brokers answer at once: for what takes a while they are asked repeatedly until it is done or the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from runnel.errors import InputError, MoveFailed
from runnel.modules.placement.questions import Decide, MovePublisher, Publishers
from runnel.operate.ask import AskError
from runnel.operate.walk import LiveNetwork

LOOK_EVERY_S = 0.05
NAMED_MAX = 10

Row = dict[str, Any]
"""A broker's report about a publisher, with the broker's name as `at`; `missing` says why it cannot decide."""


@dataclass(slots=True)
class Found:
    """The publishers found, and why some brokers could not be asked."""

    rows: list[Row] = field(default_factory=list)
    silent: dict[str, str] = field(default_factory=dict)


def find_publishers(network: LiveNetwork, name: str = "", *, candidates: bool = False) -> Found:
    """Ask all brokers for their publishers, of one name or all."""
    found = Found(silent=dict(network.silent))
    by_id: dict[int, Row] = {}
    for broker in network.brokers:
        try:
            answer = network.ask(broker, Publishers(name, candidates=candidates))
        except AskError as error:
            found.silent[broker] = str(error)
            continue
        for row in answer["publishers"]:
            row["at"] = broker
            known = by_id.get(row["id"])
            if known is None or known["epoch"] < row["epoch"]:
                by_id[row["id"]] = row
    found.rows = list(by_id.values())
    return found


def find_one(network: LiveNetwork, name: str, advertisement: str = "") -> Row:
    """Find the one publisher that is meant, or raise an InputError that lists the candidates."""
    rows = find_publishers(network, name).rows
    if advertisement:
        rows = [row for row in rows if f"{row['id']:x}" == advertisement.lower()]
        if not rows:
            raise InputError(f"no publisher {name} has the advertisement {advertisement}")
    if not rows:
        raise unknown_publisher_error(network, name)
    if len(rows) > 1:
        listed = "; ".join(f"{row['id']:x} at {row['at']} ({row['filter']})" for row in rows)
        raise InputError(f"several publishers are called {name}: say --advertisement ID: {listed}")
    return rows[0]


def unknown_publisher_error(network: LiveNetwork, name: str) -> InputError:
    """The error for an unknown name; it lists similar names, or some of all."""
    names = list(dict.fromkeys(row["publisher"] for row in find_publishers(network).rows))
    unknown = f"; but {network.unknown()}" if network.silent else ""
    if not names:
        return InputError(f"nobody publishes anything in this network{unknown}")
    near = get_close_matches(name, names, n=3)
    if near:
        return InputError(f"no publisher {name}: did you mean {' or '.join(near)}?{unknown}")
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return InputError(
        f"no publisher {name}: there are {', '.join(names[:NAMED_MAX])}{more}{unknown}"
    )


# -- a decision now -----------------------------------------------------------------------------------


def decide(network: LiveNetwork, rows: list[Row], *, candidates: bool = False) -> list[Row]:
    """Let the brokers decide about publishers now, without moving them; returns the publishers with the decisions."""
    asked: dict[int, tuple[int, float]] = {}  # when, by the broker's clock, and until when to wait
    for row in rows:
        try:
            answer = network.ask(row["at"], Decide(row["id"]))
        except AskError as error:
            row["missing"] = str(error)
            continue
        if answer["deciding"]:
            asked[row["id"]] = answer["now_ns"], time.monotonic() + answer["timeout_s"] + 1.0
        else:
            row["missing"] = missing_reason(row)
    return [
        _wait_for_decision(network, row, *asked[row["id"]], candidates)
        if row["id"] in asked
        else row
        for row in rows
    ]


def missing_reason(row: Row) -> str:
    """Why nothing can be decided about a publisher."""
    if row["progress"] is None:
        return "placement is off for it"
    return f"{row['algorithm'].upper()} has {progress_text(row['progress'])}"


def progress_text(progress: Row) -> str:
    """How far a decision is.

    >>> progress_text({"what": "publications", "have": 40, "wanted": 100})
    '40 of 100 publications'
    """
    return f"{progress['have']} of {progress['wanted']} {progress['what']}"


def _wait_for_decision(
    network: LiveNetwork, row: Row, since_ns: int, deadline: float, candidates: bool
) -> Row:
    """Wait for a decision, or for the broker to give up."""

    def look() -> Row | None:
        now = _ask_about(network, row["at"], row, candidates)
        if now is None:
            return row | {"missing": f"it has left {row['at']} meanwhile"}
        decision = now["decision"]
        if decision is not None and decision["made_ns"] >= since_ns:
            return now
        if not now["progress"]["is_deciding"]:
            return now | {"missing": "some brokers have not answered"}
        return None

    return _poll(look, deadline) or row | {"missing": "some brokers have not answered in time"}


# -- a move by hand -----------------------------------------------------------------------------------


def move(network: LiveNetwork, row: Row, to: str, timeout_s: float) -> float:
    """Ask a publisher to migrate and wait until it is there; returns how long that took, in seconds."""
    name, source = row["publisher"], row["at"]
    if to not in network.brokers:
        unknown = f"; but {network.unknown()}" if network.silent else ""
        raise InputError(f"no broker {to}: there are {', '.join(network.brokers)}{unknown}")
    if to == source:
        raise InputError(f"{name} is at {to} already")
    began = time.monotonic()
    network.ask(source, MovePublisher(row["id"], to, str(network.addresses[to])))

    def look() -> bool | None:
        there = _ask_about(network, to, row)
        return True if there is not None and not there["migrating"] else None

    if _poll(look, began + timeout_s):
        return time.monotonic() - began
    raise MoveFailed(_why_not_moved(network, row, to, timeout_s))


def _why_not_moved(network: LiveNetwork, row: Row, to: str, timeout_s: float) -> str:
    name, source = row["publisher"], row["at"]
    within = f"within {timeout_s:g} s"
    if _ask_about(network, to, row) is not None:
        return f"{name} is on its way to {to}, but has not arrived {within}: see runnel placement"
    here = _ask_about(network, source, row)
    if here is not None and not here["connected"]:
        return (
            f"{name} did not move {within}: its client {row['client']} is not connected to {source}"
        )
    if here is not None:
        return (
            f"{name} was asked and did not move {within}; it goes on at {source}: its client may have "
            f"been connected with follows=False, or cannot reach {network.addresses[to]}"
        )
    again = [one["at"] for one in find_publishers(network, name).rows]
    if again:
        return f"{name} could not get to {to} and was set up anew at {' and '.join(again)}"
    return f"{name} is gone: it was withdrawn, or its client has left"


def _ask_about(network: LiveNetwork, broker: str, row: Row, candidates: bool = False) -> Row | None:
    """Ask a broker for its report about a publisher; None if it is not there."""
    answer = network.ask(broker, Publishers(row["publisher"], candidates=candidates))
    for found in answer["publishers"]:
        if found["id"] == row["id"]:
            found["at"] = broker
            return dict(found)
    return None


def _poll(look: Callable[[], Any], deadline: float) -> Any:
    """Call `look` until it returns something, or the time is over."""
    while True:
        if seen := look():
            return seen
        if time.monotonic() >= deadline:
            return None
        time.sleep(LOOK_EVERY_S)
