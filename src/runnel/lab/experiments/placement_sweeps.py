"""What the runs of the experiment `placement` say together: values by case, and one run against another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from runnel.lab.experiments.placement_cases import (
    CLUSTER,
    STATIC,
    WIDE,
    Case,
    Measured,
    Mix,
    Model,
)

Value = Callable[[Case, Measured], float]


def message_rate(case: Case, found: Measured) -> float:
    """Messages that come into a broker per second, on average."""
    return found.message_rate


def publication_rate(case: Case, found: Measured) -> float:
    """The same of publications alone."""
    return found.publication_rate


def utilisation(case: Case, found: Measured) -> float:
    """Input utilisation in percent, on average over brokers."""
    return 100 * found.input_ratio


def delay(case: Case, found: Measured) -> float:
    """Milliseconds from publisher to subscriber; up to the client's queue, and the last mile."""
    return found.delay_ms + case.model.client_ms


def hops(case: Case, found: Measured) -> float:
    """Links between brokers."""
    return found.hops


def overhead(case: Case, found: Measured) -> float:
    """Percent of all messages that placement added."""
    return 100 * found.overhead


@dataclass(frozen=True, slots=True)
class Sweeps:
    """All runs. `at` is the X of what is not swept over X."""

    found: Mapping[Case, Measured]
    at: int

    def xs(self, model: Model, mix: Mix, fan_out: int = 2) -> list[int]:
        """Which X were swept, in order."""
        return sorted(
            case.x for case in self.found if case == Case(model, mix, case.x, STATIC, fan_out)
        )

    def by_x(self, model: Model, mix: Mix, algorithm: str, fan_out: int = 2) -> dict[int, Case]:
        """Runs by X."""
        return {x: Case(model, mix, x, algorithm, fan_out) for x in self.xs(model, mix, fan_out)}

    def get(self, value: Value, case: Case) -> float:
        """A value of one run."""
        return value(case, self.found[case])

    def over_x(
        self, value: Value, model: Model, mix: Mix, algorithm: str, fan_out: int = 2
    ) -> dict[int, float]:
        """A value by X."""
        cases = self.by_x(model, mix, algorithm, fan_out)
        return {x: self.get(value, case) for x, case in cases.items()}

    def saved(
        self, value: Value, model: Model, mix: Mix, algorithm: str, fan_out: int = 2
    ) -> dict[int, float]:
        """By how many percent an algorithm lowers a value against static, by X."""
        static = self.over_x(value, model, mix, STATIC, fan_out)
        ours = self.over_x(value, model, mix, algorithm, fan_out)
        return {x: 100 * (1 - ours[x] / static[x]) for x in ours}

    def middle(self, model: Model, mix: Mix, algorithm: str) -> Case:
        """The run at the one X that is not swept."""
        return Case(model, mix, self.at, algorithm)

    def moved(self) -> Iterable[tuple[Case, Measured]]:
        """All runs in which publishers may be moved."""
        return [(case, found) for case, found in self.found.items() if case.algorithm != STATIC]

    def thresholds(self, algorithm: str) -> dict[int, Case]:
        """Runs by threshold, the lowest first."""
        cases = [c for c in self.found if c.algorithm == algorithm and c.publications]
        return {c.threshold: c for c in sorted(cases, key=lambda c: c.threshold)}

    def rates(self, algorithm: str) -> dict[float, Case]:
        """Runs in the wide area by the rate of publishers, the lowest first."""
        usual = self.middle(WIDE, "enterprise", algorithm)
        cases = [c for c in self.found if c.but(rate_per_min=usual.rate_per_min) == usual]
        return {c.rate_per_min: c for c in sorted(cases, key=lambda c: c.rate_per_min)}

    def weights(self, metric: str) -> dict[int, Case]:
        """Runs of GRAPE on the cluster by weight, the lowest first."""
        found = {}
        for case in self.found:
            kind, _, weight = case.algorithm.rstrip("%").partition(" ")
            if case == Case(CLUSTER, "enterprise", self.at, case.algorithm) and kind == metric:
                found[int(weight)] = case
        return dict(sorted(found.items()))
