"""Storms: what happens many times in a moment is logged a few times, then counted, and the count is one more line.

    … WARNING B1 peer-error peer= error="not a Runnel peer: check the address"
    … WARNING B1 peer-error peer= error="not a Runnel peer: check the address" repeated=4211 within_s=10

Entries of one event make a storm, whoever they are about; a warning that says the same as the last is not logged again.
What is not foreseen (errors, bugs) is never left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from logging import ERROR, WARNING
from typing import Any, NamedTuple

WINDOW_S = 10.0
WARNINGS_MAX = 5  # of one event within a window
OTHERS_MAX = 200


class LogEntry(NamedTuple):
    """One entry of a log."""

    event: str
    level: int
    data: Mapping[str, Any]


@dataclass(slots=True)
class _Storm:
    """The entries of one event within a window."""

    since: float
    count: int = 0
    said: Mapping[str, Any] | None = None  # by the latest entry that was logged
    left_out: int = 0
    last: LogEntry | None = None  # that was left out


class Storms:
    """Decides which entries are logged; no I/O, and no clock."""

    def __init__(self) -> None:
        self._storms: dict[str, _Storm] = {}  # by event

    def admits(self, entry: LogEntry, now: float) -> bool:
        """Whether an entry is to be logged; if not, it will be part of a summary.

        >>> storms = Storms()
        >>> entries = [LogEntry("peer-error", WARNING, {"peer": peer}) for peer in "aabcdefgh"]
        >>> [entry.data["peer"] for entry in entries if storms.admits(entry, 0.0)]
        ['a', 'b', 'c', 'd', 'e']
        >>> [one.data for one in storms.summaries(10.0)]
        [{'peer': 'h', 'repeated': 4, 'within_s': 10}]
        """
        if entry.level >= ERROR:
            return True
        storm = self._storms.get(entry.event)
        if storm is None or (storm.last is None and now - storm.since >= WINDOW_S):
            storm = self._storms[entry.event] = _Storm(now)
        is_warning = entry.level >= WARNING
        is_news = not is_warning or storm.said != entry.data
        if is_news and storm.count < (WARNINGS_MAX if is_warning else OTHERS_MAX):
            storm.count += 1
            storm.said = entry.data
            return True
        storm.left_out += 1
        storm.last = entry
        return False

    @property
    def is_over(self) -> bool:
        """Whether there is nothing left to summarise."""
        return all(storm.last is None for storm in self._storms.values())

    def summaries(self, now: float, *, all_now: bool = False) -> Iterator[LogEntry]:
        """The summaries that are due, or all of them; with each its window ends."""
        for event, storm in list(self._storms.items()):
            if all_now or now - storm.since >= WINDOW_S:
                del self._storms[event]
                if storm.last is not None:
                    counted = {"repeated": storm.left_out, "within_s": round(now - storm.since)}
                    yield LogEntry(event, storm.last.level, {**storm.last.data, **counted})
