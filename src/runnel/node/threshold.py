"""The threshold: connections that nobody has let in yet. If there is no room for more, the oldest of them gives way.

Whoever can reach a port can connect and say nothing. An honest peer says at once who it is, so the oldest that has not
is one of those that never do; to turn newcomers away in its place would keep everybody out.
"""

from __future__ import annotations

from collections.abc import Callable


class Threshold:
    """See the top of the file.

    >>> threshold, gone = Threshold(), []
    >>> threshold.enter("a", lambda: gone.append("a"))
    >>> threshold.enter("b", lambda: gone.append("b"))
    >>> threshold.leave("a")
    >>> threshold.make_room(), threshold.make_room(), gone
    (True, False, ['b'])
    """

    def __init__(self) -> None:
        self._waiting: dict[object, Callable[[], None]] = {}  # the oldest first; how to end each

    def enter(self, connection: object, end: Callable[[], None]) -> None:
        """A connection has come."""
        self._waiting[connection] = end

    def leave(self, connection: object) -> None:
        """It is let in, or gone."""
        self._waiting.pop(connection, None)

    def make_room(self) -> bool:
        """End the oldest; False if there is none."""
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        self._waiting.pop(oldest)()
        return True
