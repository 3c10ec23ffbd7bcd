"""The parameters of publisher placement, with the paper's names and defaults (placement §III and §IV).

A broker has one default for its publishers, and may have another for some of them by name; both algorithms answer
what other brokers ask in any case. The types are the checks, for whoever reads them from a file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from runnel.placement.grape import Metric

Algorithm = Literal["off", "pop", "grape"]
Percent = Annotated[float, Meta(ge=0, le=100)]
Seconds = Annotated[float, Meta(ge=0.05, le=86_400)]
Count = Annotated[int, Meta(ge=1, le=30_000)]  # a trace session must fit its bit vector
Subscribers = Annotated[float, Meta(ge=0, le=1e9)]


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """What is wanted for one publisher; None: what its broker does for all."""

    algorithm: Algorithm | None = None
    metric: Metric | None = None
    weight_percent: Percent | None = None


class PlacementConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Both algorithms, at one broker.

    >>> config = PlacementConfig("grape", publishers={"quotes": Wanted(metric="delay", weight_percent=75)})
    >>> config.of("quotes")
    Wanted(algorithm='grape', metric='delay', weight_percent=75)
    >>> config.of("news"), config.can_be("pop")
    (Wanted(algorithm='grape', metric='load', weight_percent=100.0), False)
    """

    algorithm: Algorithm = "off"
    publishers: dict[str, Wanted] = {}
    dry_run: bool = False
    """Decide, but move nobody."""

    n: Count = 50
    """POP's N: at most so many publications of a publisher are traced in a window."""

    w_s: Seconds = 60.0
    """POP's W: how long a window is."""

    p_threshold: Count = 100
    """POP decides after so many trace results."""

    running_average: Annotated[float, Meta(gt=0, le=1)] = 0.25
    """What the newest trace result counts in POP's tables; the rest is the average so far."""

    damping: Subscribers = 0.0
    """By how many subscribers a neighbour must have more than everything else for POP to go there."""

    metric: Metric = "load"
    """What GRAPE minimises first."""

    weight_percent: Percent = 100.0
    """GRAPE's P: how much of it; `load 75%` is metric load and weight 75."""

    g_threshold: Count = 100
    """GRAPE traces so many consecutive publications in a session, then decides."""

    gain_percent_min: Percent = 5.0
    """GRAPE moves nobody for less. The paper has no such thing; but two measured delays are never equal, and a
    publisher that moves for the noise in them pauses for nothing. 0 is the paper's way."""

    ping_samples: Count = 5
    ping_every_s: Seconds = 600.0
    """How old GRAPE's time of a link may be; measuring it takes twice `ping_samples` messages."""

    answer_timeout_s: Seconds = 10.0
    """How long a publisher's broker waits for answers; those further on wait less, so that theirs come in time."""

    def of(self, publisher: str) -> Wanted:
        """What is wanted for a publisher."""
        own = self.publishers.get(publisher, _NOTHING_SPECIAL)
        return Wanted(
            self.algorithm_of(publisher),
            own.metric or self.metric,
            self.weight_percent if own.weight_percent is None else own.weight_percent,
        )

    def algorithm_of(self, publisher: str) -> Algorithm:
        """Who places a publisher; this alone is asked for every publication."""
        own = self.publishers.get(publisher)
        return self.algorithm if own is None else own.algorithm or self.algorithm

    def can_be(self, algorithm: str) -> bool:
        """Whether any publisher could be placed by this algorithm."""
        named = (wanted.algorithm for wanted in self.publishers.values())
        return algorithm in (self.algorithm, *named)


_NOTHING_SPECIAL = Wanted()
