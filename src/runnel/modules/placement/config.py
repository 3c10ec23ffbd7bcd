"""The parameters of publisher placement, with the paper's names and defaults (placement §III and §IV).

A broker has defaults for its publishers, and may have other settings for single publishers by name. Both algorithms
always answer the requests of other brokers. The types are the checks for values read from a file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from runnel.modules.placement.grape import Metric

Algorithm = Literal["off", "pop", "grape"]
Percent = Annotated[float, Meta(ge=0, le=100)]
Seconds = Annotated[float, Meta(ge=0.05, le=86_400)]
Count = Annotated[int, Meta(ge=1, le=30_000)]  # a trace session must fit its bit vector
Subscribers = Annotated[float, Meta(ge=0, le=1e9)]


class PublisherSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of one publisher; None means the broker's default."""

    algorithm: Algorithm | None = None
    metric: Metric | None = None
    weight_percent: Percent | None = None


class PlacementConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of both algorithms at one broker.

    >>> config = PlacementConfig("grape", publishers={"quotes": PublisherSettings(metric="delay", weight_percent=75)})
    >>> config.of("quotes")
    PublisherSettings(algorithm='grape', metric='delay', weight_percent=75)
    >>> config.of("news"), config.uses_algorithm("pop")
    (PublisherSettings(algorithm='grape', metric='load', weight_percent=100.0), False)
    """

    algorithm: Algorithm = "off"
    publishers: dict[str, PublisherSettings] = {}
    dry_run: bool = False
    """Decide, but move nobody."""

    n: Count = 50
    """POP's N: at most so many publications of a publisher are traced in a window."""

    w_s: Seconds = 60.0
    """POP's W: how long a window is."""

    p_threshold: Count = 100
    """POP decides after so many trace results."""

    running_average: Annotated[float, Meta(gt=0, le=1)] = 0.25
    """The weight of the newest trace result in POP's running average."""

    damping: Subscribers = 0.0
    """By how many subscribers a neighbour must have more than everything else for POP to go there."""

    metric: Metric = "load"
    """What GRAPE minimises first."""

    weight_percent: Percent = 100.0
    """GRAPE's P: how much of it; `load 75%` is metric load and weight 75."""

    g_threshold: Count = 100
    """GRAPE traces so many consecutive publications in a session, then decides."""

    gain_percent_min: Percent = 5.0
    """GRAPE moves no publisher for a smaller gain. Not in the paper, which is 0: but measured delays are noisy, and a
    publisher pauses for every move."""

    ping_samples: Count = 5
    ping_every_s: Seconds = 600.0
    """How old a measured link time may be; measuring one takes twice `ping_samples` messages."""

    answer_timeout_s: Seconds = 10.0
    """How long a publisher's broker waits for answers. Brokers further away wait less, to answer in time."""

    def of(self, publisher: str) -> PublisherSettings:
        """The settings of a publisher, defaults filled in."""
        own = self.publishers.get(publisher, _NOTHING_SPECIAL)
        return PublisherSettings(
            self.algorithm_of(publisher),
            own.metric or self.metric,
            self.weight_percent if own.weight_percent is None else own.weight_percent,
        )

    def algorithm_of(self, publisher: str) -> Algorithm:
        """The algorithm that places a publisher; called for every publication, so it must be quick."""
        own = self.publishers.get(publisher)
        return self.algorithm if own is None else own.algorithm or self.algorithm

    def uses_algorithm(self, algorithm: str) -> bool:
        """Whether any publisher may be placed by this algorithm."""
        named = (wanted.algorithm for wanted in self.publishers.values())
        return algorithm in (self.algorithm, *named)


_NOTHING_SPECIAL = PublisherSettings()
