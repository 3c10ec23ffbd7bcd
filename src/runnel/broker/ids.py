"""Names that are unique in the whole network without asking anybody.

A maker of ids has a prefix of its own (43 bits, drawn by the driver: chance is an argument) and counts
below it (20 bits); when these are used up, another prefix is drawn. Ids fit 63 bits, so they are plain ints
in engines, on the wire and in traces.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from runnel.errors import BugError, PeerError

COUNTER_BITS = 20
PREFIX_MAX = 2 ** (63 - COUNTER_BITS) - 1


class IdConflict(PeerError):  # noqa: N818 - named for what it reports, not for being an error
    """A peer uses an id that is another's, or withdraws what it has not made.

    A client is at fault; a broker may only have handed on what a client said (`Broker._message`).
    """


class IdSource:
    """Hands out ids, each once.

    >>> source = IdSource(3)
    >>> source.next() == 3 << 20 | 1
    True
    """

    def __init__(self, prefix: int, more: Callable[[], int] | None = None) -> None:
        self._more = more
        self._start(prefix)

    def _start(self, prefix: int) -> None:
        if not 0 < prefix <= PREFIX_MAX:
            raise BugError(f"an id prefix lies between 1 and {PREFIX_MAX}, not {prefix}")
        self._next = prefix << COUNTER_BITS
        self._last = self._next + (1 << COUNTER_BITS) - 1

    def next(self) -> int:
        """A new id."""
        if self._next == self._last:
            if self._more is None:
                raise BugError(
                    "a million ids were made, and nobody said how to draw another prefix"
                )
            self._start(self._more())
        self._next += 1
        return self._next


def prefix_of(name: str, incarnation: int) -> int:
    """The prefix of a broker, which nobody draws for it: from its name, and the number of its run."""
    digest = blake2b(f"{name} {incarnation}".encode(), digest_size=8).digest()
    drawn: int = int.from_bytes(digest) % PREFIX_MAX
    return drawn + 1


def is_of_one_source(one: int, other: int) -> bool:
    """Whether two ids come from one maker; then the smaller one is the earlier.

    >>> source = IdSource(3)
    >>> is_of_one_source(source.next(), source.next()), is_of_one_source(source.next(), 4 << 20 | 1)
    (True, False)
    """
    return one >> COUNTER_BITS == other >> COUNTER_BITS
