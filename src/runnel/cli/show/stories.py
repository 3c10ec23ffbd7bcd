"""The story of an event as lines for people, put together from what each broker noted.

Brokers note times by their own clocks; here they become times of day. A broker notes every link that an event came from
as its publisher; here clients that published it and brokers that forwarded it are told apart.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from runnel.quantities import MILLISECOND, SECOND

SAME_CLOCK_NS = 500 * MILLISECOND
"""Brokers on one machine share a clock; apart from that, clocks of two machines hardly ever agree so well."""

_PUBLISHED = re.compile(r"(?P<who>.*) published, for (?P<names>\[.*\])", re.DOTALL)


def story_lines(
    told: Mapping[str, dict[str, Any]], brokers: Collection[str], now_ns: int
) -> list[str]:
    """A line for everything that was noted, in the order in which it happened; `now_ns` is the time of the day.

    >>> entry = {"at_ns": 5, "what": "B1 published, for ['B3', 'alice']"}
    >>> [line.split("  ", 1)[1] for line in story_lines({"B2": {"now_ns": 9, "entries": [entry]}}, ["B1", "B3"], 99)]
    ['B2  came from B1; handed on: B2 → B3; delivered: B2 → alice']
    """
    entries: list[tuple[int, str, str]] = []
    known: list[int] = []
    for name, answer in told.items():
        offset = now_ns - int(answer["now_ns"])
        # Asking takes a while, so the same clock seems a little different each time.
        offset = next((other for other in known if abs(other - offset) < SAME_CLOCK_NS), offset)
        known.append(offset)
        for entry in answer["entries"]:
            says = describe_entry(name, str(entry["what"]), brokers)
            entries.append((int(entry["at_ns"]) + offset, name, says))
    width = max((len(name) for _, name, _ in entries), default=0)
    return [f"{_time(at)}  {name:<{width}}  {says}" for at, name, says in sorted(entries)]


def describe_entry(here: str, what: str, brokers: Collection[str]) -> str:
    """What a broker noted, in the words of an observer who sees the whole network.

    >>> describe_entry("B1", "nasdaq published, for ['B2']", ["B1", "B2"])
    'published by nasdaq; handed on: B1 → B2'
    >>> describe_entry("B1", "nasdaq published, for []", ["B1", "B2"])
    'published by nasdaq; nobody here or beyond wants it'
    >>> describe_entry("B1", "subscribed by alice", ["B1"])
    'subscribed by alice'
    """
    found = _PUBLISHED.fullmatch(what)
    if found is None:
        return what
    names: list[str] = ast.literal_eval(found["names"])
    from_broker = found["who"] in brokers
    parts = [f"came from {found['who']}" if from_broker else f"published by {found['who']}"]
    onward = [name for name in names if name in brokers]
    clients = [name for name in names if name not in brokers]
    if onward:
        parts.append(f"handed on: {here} → {', '.join(onward)}")
    if clients:
        parts.append(f"delivered: {here} → {', '.join(clients)}")
    if not names:
        parts.append("nobody here or beyond wants it")
    return "; ".join(parts)


def _time(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / SECOND).strftime("%H:%M:%S.%f")
