"""The meter: how busy a broker is, in the terms of balance §3.2.

Counts are kept all the time and cost an addition; rates come from comparing two readings. The clock that
measures matching is injected, like everything from outside.

    Ir   input utilisation ratio    ir / mr, input rate over the rate at which matching could go
    Or   output utilisation ratio   (t_busy / t_window) · (b_rx / b_tx), see `output_ratio`
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

SECOND = 1_000_000_000


@dataclass(slots=True)
class Meter:
    """Counters since the broker started."""

    publications_in: int = 0
    publications_out: int = 0
    control_in: int = 0
    frames_out: int = 0  # of all kinds
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0  # publications, for want of room
    discarded: int = 0  # publications not acknowledged by a peer that is gone or lost its memory
    links_dead: int = 0
    matching_ns: int = 0  # time spent matching, by the injected clock
    messages_in: Counter[str] = field(default_factory=Counter)  # all but publications, by kind

    def copy(self) -> Meter:
        """A reading."""
        return replace(self, messages_in=self.messages_in.copy())


@dataclass(frozen=True, slots=True)
class Load:
    """What happened between two readings."""

    window_ns: int
    input_rate: float  # publications per second
    output_rate: float
    matching_delay_s: float  # per publication
    input_ratio: float  # Ir

    @classmethod
    def between(cls, before: Meter, after: Meter, window_ns: int) -> Load:
        """The load of a window.

        >>> Load.between(Meter(), Meter(publications_in=50, matching_ns=10**8), SECOND).input_ratio
        0.1
        """
        count = after.publications_in - before.publications_in
        matching_ns = after.matching_ns - before.matching_ns
        return cls(
            window_ns=window_ns,
            input_rate=count * SECOND / window_ns,
            output_rate=(after.publications_out - before.publications_out) * SECOND / window_ns,
            matching_delay_s=matching_ns / count / SECOND if count else 0.0,
            input_ratio=matching_ns / window_ns,
        )


def output_ratio(busy_ns: int, window_ns: int, received_bytes: int, sent_bytes: int) -> float:
    """Or of balance eq. (3), with b_rx / b_tx held at 1 or more; a backlog that sends nothing is overload.

    >>> output_ratio(500, 1000, received_bytes=300, sent_bytes=200)
    0.75
    """
    if sent_bytes == 0:
        return 1.0 if received_bytes else 0.0
    return busy_ns / window_ns * max(1.0, received_bytes / sent_bytes)
