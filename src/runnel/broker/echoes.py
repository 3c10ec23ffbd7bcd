"""Echoes: messages for the whole network that come back because links do not form a tree.

That is a mistake of the configuration, which `runnel status` names. Where there are several loops each broker would
get, and pass on, ever more copies of one message before its time to live is over; so it passes on a few per tick.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

COPIES_MAX = 8


class Echoes:
    """Which messages have come since the last tick.

    >>> echoes = Echoes()
    >>> [echoes.is_echo("a") for _ in range(COPIES_MAX + 1)].index(True) == COPIES_MAX
    True
    """

    def __init__(self) -> None:
        self._heard: Counter[Hashable] = Counter()

    def is_echo(self, message: Hashable) -> bool:
        """Whether this has come so often that it goes round."""
        self._heard[message] += 1
        return self._heard[message] > COPIES_MAX

    def tick(self) -> None:
        """Begin to count anew."""
        self._heard.clear()
