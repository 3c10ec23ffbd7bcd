"""The story of one id: what happened to a publication, subscription or advertisement at this broker, in order.

Kept in a ring of bounded length, and only while somebody wants it (the simulator does; a node on request): a
failing run prints the story of what it failed on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from runnel.quantities import SECOND


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened."""

    at: int
    where: str
    what: str
    about: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.at / SECOND:14.9f} s  {self.where:<8} {self.what}"


class Story:
    """A bounded log that can be asked about one id.

    >>> story = Story("B1", lines_max=100)
    >>> story.tell(5, "subscribed by alice", 42)
    >>> [str(line) for line in story.of(42)]
    ['   0.000000005 s  B1       subscribed by alice']
    """

    def __init__(self, where: str, lines_max: int = 10_000) -> None:
        self._where = where
        self._lines: deque[Line] = deque(maxlen=lines_max)

    def tell(self, now: int, what: str, *about: Any) -> None:
        """Add a line about some ids."""
        self._lines.append(Line(now, self._where, what, about))

    def of(self, id: Any) -> list[Line]:
        """The lines about one id."""
        return [line for line in self._lines if id in line.about]
