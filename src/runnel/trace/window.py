"""A stretch of the time that a trace is of; what is measured from a trace is measured over one."""

from __future__ import annotations

from typing import NamedTuple

SECOND = 1_000_000_000


class Window(NamedTuple):
    """A stretch of time: from `start_ns` on, up to but without `end_ns`."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """How long it is.

        >>> Window(0, 1_500_000_000).seconds
        1.5
        """
        return (self.end_ns - self.start_ns) / SECOND
