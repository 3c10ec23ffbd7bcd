"""Publishers in a whole network: where they are, what placement thinks of them, and a move by hand.

Each broker tells of its own publishers. One that is just migrating may be told of by two; the later place counts.
What takes a while is asked for again and again until it is there, or the time is over: no broker makes anybody wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from runnel.errors import InputError, MoveFailed
from runnel.inspection.ask import AskError
from runnel.inspection.questions import Decide, MovePublisher, Publishers
from runnel.topology.walk import Network

LOOK_EVERY_S = 0.05
NAMED_MAX = 10

Row = dict[str, Any]
"""What a broker tells of a publisher, with that broker's name as `at`; `missing` if it cannot decide."""


@dataclass(slots=True)
class Found:
    """The publishers, and why some brokers could not be asked."""

    rows: list[Row] = field(default_factory=list)
    silent: dict[str, str] = field(default_factory=dict)


def find_publishers(network: Network, name: str = "", *, candidates: bool = False) -> Found:
    """Ask all brokers for their publishers; those of one name, or all."""
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


def find_one(network: Network, name: str, advertisement: str = "") -> Row:
    """The one publisher that is meant; InputError says what there is instead."""
    rows = find_publishers(network, name).rows
    if advertisement:
        rows = [row for row in rows if f"{row['id']:x}" == advertisement.lower()]
        if not rows:
            raise InputError(f"no publisher {name} has the advertisement {advertisement}")
    if not rows:
        raise no_such_publisher(network, name)
    if len(rows) > 1:
        listed = "; ".join(f"{row['id']:x} at {row['at']} ({row['filter']})" for row in rows)
        raise InputError(f"several publishers are called {name}: say --advertisement ID: {listed}")
    return rows[0]


def no_such_publisher(network: Network, name: str) -> InputError:
    """The error that names those whose names are like it, or some."""
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


def decide(network: Network, rows: list[Row], *, candidates: bool = False) -> list[Row]:
    """Let the brokers decide about publishers now, and move nobody; the publishers with what came of it."""
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
            row["missing"] = what_is_missing(row)
    return [
        _decided(network, row, *asked[row["id"]], candidates) if row["id"] in asked else row
        for row in rows
    ]


def what_is_missing(row: Row) -> str:
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


def _decided(network: Network, row: Row, since_ns: int, deadline: float, candidates: bool) -> Row:
    """Wait for a decision, or for the broker to give up."""

    def look() -> Row | None:
        now = _at(network, row["at"], row, candidates)
        if now is None:
            return row | {"missing": f"it has left {row['at']} meanwhile"}
        decision = now["decision"]
        if decision is not None and decision["made_ns"] >= since_ns:
            return now
        if not now["progress"]["is_deciding"]:
            return now | {"missing": "some brokers have not answered"}
        return None

    return _until(look, deadline) or row | {"missing": "some brokers have not answered in time"}


# -- a move by hand -----------------------------------------------------------------------------------


def move(network: Network, row: Row, to: str, timeout_s: float) -> float:
    """Ask a publisher to go to a broker and wait until it is there; how long that took, in seconds."""
    name, source = row["publisher"], row["at"]
    if to not in network.brokers:
        unknown = f"; but {network.unknown()}" if network.silent else ""
        raise InputError(f"no broker {to}: there are {', '.join(network.brokers)}{unknown}")
    if to == source:
        raise InputError(f"{name} is at {to} already")
    began = time.monotonic()
    network.ask(source, MovePublisher(row["id"], to, str(network.addresses[to])))

    def look() -> bool | None:
        there = _at(network, to, row)
        return True if there is not None and not there["migrating"] else None

    if _until(look, began + timeout_s):
        return time.monotonic() - began
    raise MoveFailed(_why_not_moved(network, row, to, timeout_s))


def _why_not_moved(network: Network, row: Row, to: str, timeout_s: float) -> str:
    name, source = row["publisher"], row["at"]
    within = f"within {timeout_s:g} s"
    if _at(network, to, row) is not None:
        return f"{name} is on its way to {to}, but has not arrived {within}: see runnel placement"
    here = _at(network, source, row)
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


def _at(network: Network, broker: str, row: Row, candidates: bool = False) -> Row | None:
    """What a broker tells of a publisher now, if it is there."""
    answer = network.ask(broker, Publishers(row["publisher"], candidates=candidates))
    for found in answer["publishers"]:
        if found["id"] == row["id"]:
            found["at"] = broker
            return dict(found)
    return None


def _until(look: Callable[[], Any], deadline: float) -> Any:
    """Look until there is something to see, or the time is over."""
    while True:
        if seen := look():
            return seen
        if time.monotonic() >= deadline:
            return None
        time.sleep(LOOK_EVERY_S)
