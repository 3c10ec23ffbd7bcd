"""The meter: how busy a broker is, in the terms of balance §3.2.

Counts are kept all the time and cost an addition; rates come from comparing two readings. The clock that
measures matching is injected, like everything from outside.

    Ir   input utilisation ratio    ir / mr, input rate over the rate at which matching could go
    Or   output utilisation ratio   (t_busy / t_window) · (b_rx / b_tx), see `output_ratio`
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from runnel.quantities import SECOND


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
    discarded: int = 0  # publications for a peer that is gone or lost its memory, never sent to it
    in_doubt: int = 0  # … sent to it, and not acknowledged: it may have had them
    lost_at: int = 0  # when a publication was last dropped or discarded; 0: never
    links_dead: int = 0
    # Publications that clients may not publish, by reason.
    refused: Counter[str] = field(default_factory=Counter)
    matching_ns: int = 0  # time spent matching, by the injected clock; see `add_matching`
    messages_in: Counter[str] = field(default_factory=Counter)  # all but publications, by kind
    # Publications over links that are no more, by the kind of peer; a link counts its own while it lasts.
    received_from_gone: Counter[str] = field(default_factory=Counter)
    sent_to_gone: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Meter:
        """A reading."""
        return replace(
            self,
            refused=self.refused.copy(),
            messages_in=self.messages_in.copy(),
            received_from_gone=self.received_from_gone.copy(),
            sent_to_gone=self.sent_to_gone.copy(),
        )

    def add_matching(self, spent_ns: int) -> None:
        """Time that matching took and the broker's clock did not see: its driver has, or plays, a slower processor."""
        self.matching_ns += spent_ns


@dataclass(frozen=True, slots=True)
class Load:
    """What happened between two readings."""

    window_ns: int
    input_rate: float  # publications per second
    output_rate: float
    matching_delay_s: float  # per publication
    input_ratio: float  # Ir

    @classmethod
    def between(cls, before: Meter, after: Meter, window_ns: int, more_waiting: int = 0) -> Load:
        """The load of a window, after which so many more publications wait for the matcher than before.

        What arrived is what was taken in and what waits now and did not before, so Ir can be more than 1.

        >>> Load.between(Meter(), Meter(publications_in=50, matching_ns=10**8), SECOND).input_ratio
        0.1
        >>> Load.between(Meter(), Meter(publications_in=50, matching_ns=10**9), SECOND, 50).input_ratio
        2.0
        """
        count = after.publications_in - before.publications_in
        matching_ns = after.matching_ns - before.matching_ns
        arrived = (count + more_waiting) / count if count else 1.0
        return cls(
            window_ns=window_ns,
            input_rate=count * SECOND / window_ns,
            output_rate=(after.publications_out - before.publications_out) * SECOND / window_ns,
            matching_delay_s=matching_ns / count / SECOND if count else 0.0,
            input_ratio=matching_ns / window_ns * arrived,
        )


def output_ratio(busy_ns: int, window_ns: int, received_bytes: int, sent_bytes: int) -> float:
    """Or of balance eq. (3), with b_rx / b_tx held at 1 or more; a backlog that sends nothing is overload.

    >>> output_ratio(500, 1000, received_bytes=300, sent_bytes=200)
    0.75
    """
    if sent_bytes == 0:
        return 1.0 if received_bytes else 0.0
    return busy_ns / window_ns * max(1.0, received_bytes / sent_bytes)
