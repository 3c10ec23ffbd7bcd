"""All runs of the experiment `placement` together: values by case, and one run compared with another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from runnel.lab.experiments.placement.cases import (
    ALGORITHMS,
    CLUSTER,
    STATIC,
    WIDE,
    Mix,
    Model,
    PlacementCase,
    PlacementResult,
    wide_with,
)

Value = Callable[[PlacementCase, PlacementResult], float]


def message_rate(case: PlacementCase, found: PlacementResult) -> float:
    """Messages that come into a broker per second, on average."""
    return found.message_rate


def publication_rate(case: PlacementCase, found: PlacementResult) -> float:
    """The same of publications alone."""
    return found.publication_rate


def utilisation(case: PlacementCase, found: PlacementResult) -> float:
    """Input utilisation in percent, on average over brokers."""
    return 100 * found.input_ratio


def output(case: PlacementCase, found: PlacementResult) -> float:
    """Bytes that leave a broker per second, on average; bandwidth has no limit."""
    return found.output_rate


def memory(case: PlacementCase, found: PlacementResult) -> float:
    """Percent that placement adds to what brokers keep."""
    return 100 * found.memory


def wait(case: PlacementCase, found: PlacementResult) -> float:
    """Milliseconds that a publisher waits while it migrates."""
    return found.pause_ms


def response(case: PlacementCase, found: PlacementResult) -> float:
    """Seconds until the first decision about a publisher."""
    return found.decided_s


def memory_mb(case: PlacementCase, found: PlacementResult) -> float:
    """The same in megabytes, for each broker."""
    return found.memory_mb


def selection(case: PlacementCase, found: PlacementResult) -> float:
    """Seconds that it took to choose a broker, without pings; NaN if nothing was chosen."""
    took = [seconds for _, seconds in found.selections]
    return sum(took) / len(took) if took else math.nan


def pings(case: PlacementCase, found: PlacementResult) -> float:
    """Seconds that a publisher took to measure brokers."""
    took = [seconds for _, seconds in found.pings]
    return sum(took) / len(took) if took else math.nan


def delay(case: PlacementCase, found: PlacementResult) -> float:
    """Milliseconds from publisher to subscriber; up to the client's queue, and the last mile."""
    return found.delay_ms + case.model.client_ms


def hops(case: PlacementCase, found: PlacementResult) -> float:
    """Links between brokers."""
    return found.hops


def overhead(case: PlacementCase, found: PlacementResult) -> float:
    """Percent of all messages that placement added."""
    return 100 * found.overhead


@dataclass(frozen=True, slots=True)
class PlacementSweeps:
    """All runs. `at` is the X of what is not swept over X."""

    found: Mapping[PlacementCase, PlacementResult]
    at: int

    def xs(self, model: Model, mix: Mix, fan_out: int = 2) -> list[int]:
        """The values of X that were swept, in order."""
        return sorted(
            case.x
            for case in self.found
            if case == PlacementCase(model, mix, case.x, STATIC, fan_out)
        )

    def cases_by_x(
        self, model: Model, mix: Mix, algorithm: str, fan_out: int = 2
    ) -> dict[int, PlacementCase]:
        """Runs by X."""
        return {
            x: PlacementCase(model, mix, x, algorithm, fan_out)
            for x in self.xs(model, mix, fan_out)
        }

    def value_of(self, value: Value, case: PlacementCase) -> float:
        """A value of one run."""
        return value(case, self.found[case])

    def values_by_x(
        self, value: Value, model: Model, mix: Mix, algorithm: str, fan_out: int = 2
    ) -> dict[int, float]:
        """A value by X."""
        cases = self.cases_by_x(model, mix, algorithm, fan_out)
        return {x: self.value_of(value, case) for x, case in cases.items()}

    def reductions_by_x(
        self, value: Value, model: Model, mix: Mix, algorithm: str, fan_out: int = 2
    ) -> dict[int, float]:
        """By how many percent an algorithm lowers a value against static, by X."""
        static = self.values_by_x(value, model, mix, STATIC, fan_out)
        ours = self.values_by_x(value, model, mix, algorithm, fan_out)
        return {x: 100 * (1 - ours[x] / static[x]) for x in ours}

    def case_at_fixed_x(self, model: Model, mix: Mix, algorithm: str) -> PlacementCase:
        """The run at the one X that is not swept."""
        return PlacementCase(model, mix, self.at, algorithm)

    def enterprise_with_placement(self, model: Model) -> Iterable[PlacementResult]:
        """All runs of the enterprise workload in which publishers may be moved."""
        for case in self.found:
            if case.algorithm != STATIC and case.mix == "enterprise" and case.model == model:
                yield self.found[case]

    def cases_by_threshold(self, algorithm: str) -> dict[int, PlacementCase]:
        """Runs by threshold, the lowest first."""
        cases = [c for c in self.found if c.algorithm == algorithm and c.publications]
        return {c.threshold: c for c in sorted(cases, key=lambda c: c.threshold)}

    def cases_by_rate(self, algorithm: str) -> dict[float, PlacementCase]:
        """Runs in the wide area by the rate of publishers, the lowest first."""
        usual = self.case_at_fixed_x(WIDE, "enterprise", algorithm)
        cases = [c for c in self.found if c.vary(rate_per_min=usual.rate_per_min) == usual]
        return {c.rate_per_min: c for c in sorted(cases, key=lambda c: c.rate_per_min)}

    def cases_by_latency(self, algorithm: str) -> dict[float, PlacementCase]:
        """Runs in the wide area by the latency between brokers, the lowest first."""
        usual = self.case_at_fixed_x(WIDE, "enterprise", algorithm)
        cases = [c for c in self.found if c == usual.vary(model=wide_with(c.model.latency_ms))]
        return {c.model.latency_ms: c for c in sorted(cases, key=lambda c: c.model.latency_ms)}

    def cases_by_gain(self, usual: PlacementCase) -> dict[float, PlacementCase]:
        """Runs like one, by the least gain for which GRAPE moves a publisher."""
        cases = [c for c in self.found if c.vary(gain_percent=usual.gain_percent) == usual]
        return {c.gain_percent: c for c in sorted(cases, key=lambda c: c.gain_percent)}

    def cases_by_brokers(self, usual: PlacementCase) -> dict[int, PlacementCase]:
        """Runs like one, by the number of brokers; 0: as many as usual."""
        cases = [c for c in self.found if c.vary(brokers=0) == usual]
        return {c.brokers: c for c in sorted(cases, key=lambda c: c.brokers)}

    def cases_on_shared_machines(self, algorithm: str) -> list[PlacementCase]:
        """Runs in the wide area in which brokers cannot keep up."""
        usual = self.case_at_fixed_x(WIDE, "random", algorithm)
        return [c for c in self.found if c.model != WIDE and c.vary(model=WIDE) == usual]

    def case_with_pings(self, model: Model, pings: str) -> PlacementCase:
        """The run in which publishers measure brokers in this way."""
        return next(c for c in self.found if c.model == model and c.pings == pings)

    def cases_with_pings(self) -> dict[str, PlacementCase]:
        """Runs by algorithm in which publishers measure brokers at once."""
        return {c.algorithm: c for c in self.found if c.pings == "at once"}

    def large_cases(self) -> list[PlacementCase]:
        """Runs on hundreds of brokers with thousands of clients."""
        return [case for case in self.found if case.publishers]

    def usual_cases(self) -> list[PlacementCase]:
        """Runs with the paper's settings: nothing is varied but X, the fan-out, the algorithm and the testbed."""
        return [
            case
            for case in self.found
            if case == PlacementCase(case.model, case.mix, case.x, case.algorithm, case.fan_out)
            and case.model in (WIDE, CLUSTER)
            and case.algorithm in ALGORITHMS
        ]

    def cases_by_weight(self, metric: str, mix: Mix = "enterprise") -> dict[int, PlacementCase]:
        """Runs of GRAPE on the cluster by weight, the lowest first."""
        found = {}
        for case in self.found:
            kind, _, weight = case.algorithm.rstrip("%").partition(" ")
            if case == PlacementCase(CLUSTER, mix, self.at, case.algorithm) and kind == metric:
                found[int(weight)] = case
        return dict(sorted(found.items()))
