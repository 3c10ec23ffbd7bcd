"""What the runs of the experiment `green` say together: values by network, and one algorithm against another."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runnel.lab.experiments.green_cases import AWARE, MANUAL, Case, Net
from runnel.lab.experiments.green_run import Measured

Value = Callable[[Measured], float]


def brokers(found: Measured) -> float:
    """Brokers that the plan uses."""
    return found.brokers


def mean_rate(found: Measured) -> float:
    """Publications that come into a broker per second, on average over the brokers in use."""
    return found.rate.mean


def peak_rate(found: Measured) -> float:
    """Publications per second that come into the broker with the most."""
    return found.rate.maximum


def mean_input(found: Measured) -> float:
    """Input utilisation in percent, on average over the brokers in use."""
    return 100 * found.input.mean


def peak_input(found: Measured) -> float:
    """Input utilisation in percent of the broker with the most."""
    return 100 * found.input.maximum


def mean_output(found: Measured) -> float:
    """Output utilisation in percent, on average over the brokers in use."""
    return 100 * found.output.mean


def peak_output(found: Measured) -> float:
    """Output utilisation in percent of the broker with the most."""
    return 100 * found.output.maximum


def overloaded(found: Measured) -> float:
    """Brokers that were to send more than they can."""
    return found.overloaded


def hops(found: Measured) -> float:
    """Links between brokers that a delivered publication has passed, on average."""
    return found.hops


def delay(found: Measured) -> float:
    """Milliseconds from publisher to subscriber, the wait for the last broker's output included."""
    return found.delay_ms


def clusters(found: Measured) -> float:
    """Clusters and single subscriptions at the end of CRAM."""
    return found.planning.clusters


def computed(found: Measured) -> float:
    """Computations of closeness in all."""
    return found.planning.computed


@dataclass(frozen=True, slots=True)
class Sweeps:
    """All runs, and the networks by what they are for. `minutes` is how long a usual run is."""

    found: Mapping[Case, Measured]
    homogeneous: Sequence[Net]
    heterogeneous: Sequence[Net]
    large: Sequence[Net]
    at: Net
    small: Net
    minutes: float

    def case(self, net: Net, algorithm: str) -> Case:
        """A usual run."""
        return Case(net, algorithm, self.minutes)

    def get(self, value: Value, case: Case) -> float:
        """A value of one run."""
        return value(self.found[case])

    def over(self, value: Value, nets: Iterable[Net], algorithm: str) -> dict[Net, float]:
        """A value by network."""
        return {net: self.get(value, self.case(net, algorithm)) for net in nets}

    def saved(
        self, value: Value, nets: Iterable[Net], algorithm: str, against: str = MANUAL
    ) -> dict[Net, float]:
        """By how many percent an algorithm lowers a value against another, by network."""
        nets = list(nets)
        ours, theirs = (self.over(value, nets, name) for name in (algorithm, against))
        return {net: less(ours[net], theirs[net]) for net in nets}

    def without_grape(self, value: Value, nets: Iterable[Net], algorithm: str) -> dict[Net, float]:
        """A value by network, of runs in which publishers stay at the root."""
        return {
            net: self.get(value, self.case(net, algorithm).but(grape="without GRAPE"))
            for net in nets
        }

    def with_grape(self, value: Value, nets: Iterable[Net]) -> dict[Net, float]:
        """A value by network, of MANUAL with its publishers placed."""
        return {
            net: self.get(value, self.case(net, MANUAL).but(grape="with GRAPE")) for net in nets
        }

    @property
    def swept(self) -> list[Net]:
        """Both kinds, without the large networks."""
        return [*self.homogeneous, *self.heterogeneous]

    @property
    def equal(self) -> list[Net]:
        """All networks of equal brokers, the large ones too."""
        return [*self.homogeneous, *self.large]

    def bits(self, algorithm: str) -> dict[int, Case]:
        """Runs by the length of vectors, the shortest first."""
        return self._by("bits", self.case(self.at, algorithm))

    def headrooms(self, algorithm: str) -> dict[float, Case]:
        """Runs by head-room."""
        return self._by("headroom", self.case(self.small, algorithm))

    def _by(self, key: str, usual: Case) -> dict[Any, Case]:
        same = [c for c in self.found if c.but(**{key: getattr(usual, key)}) == usual]
        return {getattr(c, key): c for c in sorted(same, key=lambda c: float(getattr(c, key)))}

    def nets_by(self, key: str, algorithm: str) -> dict[Any, Case]:
        """Runs of the small network by something of the network, such as its days."""
        usual = self.small
        same = [
            case
            for case in self.found
            if case == self.case(case.net, algorithm)
            and case.net._replace(**{key: getattr(usual, key)}) == usual
        ]
        return {getattr(c.net, key): c for c in sorted(same, key=lambda c: getattr(c.net, key))}

    def long(self, algorithm: str) -> Case:
        """The one run that is longer."""
        usual = self.case(self.small, algorithm)
        return max(
            (c for c in self.found if c.but(minutes=usual.minutes) == usual),
            key=lambda c: c.minutes,
        )

    def aware(self, nets: Iterable[Net]) -> dict[Case, Measured]:
        """Usual runs of the algorithms that know what brokers can take."""
        wanted = set(nets)
        return {
            case: found
            for case, found in self.found.items()
            if case.net in wanted
            and case.algorithm in AWARE
            and case == self.case(case.net, case.algorithm)
        }


def less(ours: float, theirs: float) -> float:
    """By how many percent ours is less.

    >>> less(7.0, 80.0)
    91.25
    """
    return 100 * (1 - ours / theirs) if theirs else 0.0 if not ours else -math.inf


def more(ours: float, theirs: float) -> float:
    """By how many percent ours is more.

    >>> more(3.0, 2.0)
    50.0
    """
    return -less(ours, theirs)


def listed(values: Mapping[Net, float], digits: str = ".1f", unit: str = "%") -> str:
    """Values by network, for a note.

    >>> listed({Net(80, 40, 50): 91.25, Net(1000, 100, 225): 90.5})
    '2,000 on 80: 91.2%, 22,500 on 1,000: 90.5%'
    """
    return ", ".join(
        f"{net.subscriptions:,} on {net.brokers:,}: {value:{digits}}{unit}"
        for net, value in values.items()
    )


def mean(values: Iterable[float]) -> float:
    """The average."""
    found = list(values)
    return sum(found) / len(found)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """To which power values grow with sizes: least squares on logarithms.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    slope, _ = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(value) for value in values]
    )
    return slope
