"""All runs of the experiment `green` together: values by network, and one algorithm compared with another."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runnel.lab.experiments.green.cases import AWARE, MANUAL, GreenCase, Net
from runnel.lab.experiments.green.run import GreenResult

Value = Callable[[GreenResult], float]


def brokers(found: GreenResult) -> float:
    """Brokers that the plan uses."""
    return found.brokers


def mean_rate(found: GreenResult) -> float:
    """Publications that come into a broker per second, on average over the brokers in use."""
    return found.rate.mean


def peak_rate(found: GreenResult) -> float:
    """Publications per second that come into the broker with the most."""
    return found.rate.maximum


def mean_input(found: GreenResult) -> float:
    """Input utilisation in percent, on average over the brokers in use."""
    return 100 * found.input.mean


def peak_input(found: GreenResult) -> float:
    """Input utilisation in percent of the broker with the most."""
    return 100 * found.input.maximum


def mean_output(found: GreenResult) -> float:
    """Output utilisation in percent, on average over the brokers in use."""
    return 100 * found.output.mean


def peak_output(found: GreenResult) -> float:
    """Output utilisation in percent of the broker with the most."""
    return 100 * found.output.maximum


def overloaded(found: GreenResult) -> float:
    """Brokers that were to send more than they can."""
    return found.overloaded


def hops(found: GreenResult) -> float:
    """Links between brokers that a delivered publication has passed, on average."""
    return found.hops


def delay(found: GreenResult) -> float:
    """Milliseconds from publisher to subscriber, the wait for the last broker's output included."""
    return found.delay_ms


def clusters(found: GreenResult) -> float:
    """Clusters and single subscriptions at the end of CRAM."""
    return found.planning.clusters


def plan_time(found: GreenResult) -> float:
    """CPU seconds that planning took, by the clock."""
    return found.plan_cpu_s


def output_deviation(found: GreenResult) -> float:
    """Standard deviation of output utilisation over the brokers in use, in percentage points."""
    return 100 * found.output.deviation


def output_peak_above_mean(found: GreenResult) -> float:
    """Percentage points between the fullest broker and the average."""
    return peak_output(found) - mean_output(found)


def computations(found: GreenResult) -> float:
    """Computations of closeness in all."""
    return found.planning.computed


@dataclass(frozen=True, slots=True)
class GreenSweeps:
    """All runs, and the networks by what they are for. `minutes` is how long a usual run is."""

    found: Mapping[GreenCase, GreenResult]
    homogeneous: Sequence[Net]
    heterogeneous: Sequence[Net]
    large: Sequence[Net]
    at: Net
    small: Net
    minutes: float

    def usual_case(self, net: Net, algorithm: str) -> GreenCase:
        """A usual run."""
        return GreenCase(net, algorithm, self.minutes)

    def value_of(self, value: Value, case: GreenCase) -> float:
        """A value of one run."""
        return value(self.found[case])

    def values_by_net(self, value: Value, nets: Iterable[Net], algorithm: str) -> dict[Net, float]:
        """A value by network."""
        return {net: self.value_of(value, self.usual_case(net, algorithm)) for net in nets}

    def reductions_by_net(
        self, value: Value, nets: Iterable[Net], algorithm: str, against: str = MANUAL
    ) -> dict[Net, float]:
        """By how many percent an algorithm lowers a value against another, by network."""
        nets = list(nets)
        ours, theirs = (self.values_by_net(value, nets, name) for name in (algorithm, against))
        return {net: percent_less(ours[net], theirs[net]) for net in nets}

    def values_without_grape(
        self, value: Value, nets: Iterable[Net], algorithm: str
    ) -> dict[Net, float]:
        """A value by network, of runs in which publishers stay at the root."""
        return {
            net: self.value_of(value, self.usual_case(net, algorithm).vary(grape="without GRAPE"))
            for net in nets
        }

    def values_with_grape(self, value: Value, nets: Iterable[Net]) -> dict[Net, float]:
        """A value by network, of MANUAL with its publishers placed."""
        return {
            net: self.value_of(value, self.usual_case(net, MANUAL).vary(grape="with GRAPE"))
            for net in nets
        }

    @property
    def swept_nets(self) -> list[Net]:
        """Both kinds, without the large networks."""
        return [*self.homogeneous, *self.heterogeneous]

    @property
    def equal_nets(self) -> list[Net]:
        """All networks of equal brokers, the large ones too."""
        return [*self.homogeneous, *self.large]

    def cases_by_bits(self, algorithm: str) -> dict[int, GreenCase]:
        """Runs by the length of vectors, the shortest first."""
        return self._cases_by("bits", self.usual_case(self.at, algorithm))

    def cases_by_headroom(self, algorithm: str) -> dict[float, GreenCase]:
        """Runs by head-room."""
        return self._cases_by("headroom", self.usual_case(self.small, algorithm))

    def _cases_by(self, key: str, usual: GreenCase) -> dict[Any, GreenCase]:
        same = [c for c in self.found if c.vary(**{key: getattr(usual, key)}) == usual]
        return {getattr(c, key): c for c in sorted(same, key=lambda c: float(getattr(c, key)))}

    def cases_by_net_field(self, key: str, algorithm: str) -> dict[Any, GreenCase]:
        """Runs of the small network by something of the network, such as its days."""
        usual = self.small
        same = [
            case
            for case in self.found
            if case == self.usual_case(case.net, algorithm)
            and case.net._replace(**{key: getattr(usual, key)}) == usual
        ]
        return {getattr(c.net, key): c for c in sorted(same, key=lambda c: getattr(c.net, key))}

    def cases_without_allowance(self) -> list[GreenCase]:
        """Runs with the shortest vectors, whose load is reckoned without the paper's allowance."""
        return [case for case in self.found if not case.is_scaled]

    def longer_case(self, algorithm: str) -> GreenCase:
        """The one run that is longer than usual."""
        usual = self.usual_case(self.small, algorithm)
        return max(
            (c for c in self.found if c.vary(minutes=usual.minutes) == usual),
            key=lambda c: c.minutes,
        )

    def capacity_aware_results(
        self, nets: Iterable[Net], names: Collection[str] = AWARE
    ) -> dict[GreenCase, GreenResult]:
        """Usual runs of the algorithms that know what brokers can take, or of some of them."""
        wanted = set(nets)
        return {
            case: self.found[case]
            for case in self.found
            if case.net in wanted
            and case.algorithm in names
            and case == self.usual_case(case.net, case.algorithm)
        }


def percent_less(ours: float, theirs: float) -> float:
    """By how many percent ours is less.

    >>> percent_less(7.0, 80.0)
    91.25
    """
    return 100 * (1 - ours / theirs) if theirs else 0.0 if not ours else -math.inf


def percent_more(ours: float, theirs: float) -> float:
    """By how many percent ours is more.

    >>> percent_more(3.0, 2.0)
    50.0
    """
    return -percent_less(ours, theirs)


def list_by_net(values: Mapping[Net, float], digits: str = ".1f", unit: str = "%") -> str:
    """Values by network, for a note.

    >>> list_by_net({Net(80, 40, 50): 91.25, Net(1000, 100, 225): 90.5})
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


def growth_exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """To which power values grow with sizes: least squares on logarithms.

    >>> round(growth_exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    slope, _ = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(value) for value in values]
    )
    return slope
