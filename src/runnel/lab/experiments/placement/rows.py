"""What is measured for each row of `claims.toml`, out of all runs of `placement`. Nothing is judged here.

"Up to" is the best over the sweep of X, and each such row has a curve over X. What is said of every X leaves out X = 1,
where all do the same. "Always" is the percentage of cases in which it is so; a comparison is the percentage by which it
is so, where that is least.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise

from runnel.lab.claims import Curve, RowValue
from runnel.lab.experiments.placement.cases import (
    ALGORITHMS,
    CLUSTER,
    DELAY,
    GRAPE,
    LOAD,
    POP,
    STATIC,
    THRESHOLD,
    WIDE,
    Mix,
    Model,
    PlacementCase,
    PlacementResult,
)
from runnel.lab.experiments.placement.sweeps import (
    PlacementSweeps,
    Value,
    delay,
    hops,
    memory,
    memory_mb,
    message_rate,
    output,
    overhead,
    pings,
    publication_rate,
    response,
    selection,
    utilisation,
    wait,
)
from runnel.lab.shapes import make_shape
from runnel.modules.placement.grape import BrokerReport, Metric, choose
from runnel.modules.placement.messages import BrokerTrace, Hop, Tia
from runnel.wire.codec import encode

Measure = Callable[[PlacementSweeps], RowValue]
MODELS = {"wide": WIDE, "cluster": CLUSTER}
HEADLINES: tuple[tuple[str, Value, str], ...] = (
    ("rate", message_rate, LOAD),
    ("input", utilisation, LOAD),
    ("delay", delay, DELAY),
)
"""What the abstract claims of POP, and of which of GRAPE's settings."""
VALUES: Mapping[str, Value] = {
    **{"rate": message_rate, "input": utilisation, "output": output, "delay": delay},
    **{"hops": hops, "overhead": overhead, "memory": memory},
}
VISIBLE = 1.0  # percent: of two that differ by less, none is higher or lower
LONG_PATH = 10
FEW = 4  # values of X
PINGED = 63
LARGER = (63, 127, 255)
"""Brokers of balanced trees."""
CHOICES = 21
METRICS: tuple[Metric, ...] = ("load", "delay")


def measures() -> dict[str, Measure]:
    """How each row is measured."""
    return {
        **_headlines(),
        **_enterprise(),
        **_fan_out(),
        **_costs(),
        **_times(),
        **_random(),
        **_weights(),
        **_thresholds(),
        **_ours(),
    }


# -- how values become rows -----------------------------------------------------------------------------------


def percent_above(one: float, other: float) -> float:
    """By how many percent one is above the other.

    >>> percent_above(3, 2)
    50.0
    """
    return 100 * (one / other - 1) if other else math.nan


def beyond_one(values: Mapping[int, float]) -> dict[int, float]:
    """Without X = 1."""
    return {x: value for x, value in values.items() if x > 1}


def mean(values: Iterable[float]) -> float:
    """The average."""
    return statistics.fmean(values)


def by_x(values: Mapping[int, float], digits: str = ".1f", unit: str = "%") -> str:
    """Values by X, for a note."""
    return ", ".join(f"X = {x}: {value:{digits}}{unit}" for x, value in values.items())


def enterprise(
    s: PlacementSweeps, value: Value, model: Model, algorithm: str, fan_out: int = 2
) -> dict[int, float]:
    """A value of the enterprise workload by X, beyond 1."""
    return beyond_one(s.values_by_x(value, model, "enterprise", algorithm, fan_out))


def share(steps: Iterable[bool], note: str = "") -> RowValue:
    """In how many percent of the cases it is so."""
    found = list(steps)
    return RowValue(100 * mean(map(float, found)) if found else math.nan, note)


# -- the abstract ---------------------------------------------------------------------------------------------


def _headlines() -> dict[str, Measure]:
    found: dict[str, Measure] = {}
    for what, value, grape in HEADLINES:
        for who, algorithm in (("pop", POP), ("grape", grape)):
            found[f"{what}-{who}"] = partial(_up_to, value=value, algorithm=algorithm)
            found[f"ours-{what}-{who}-beyond-1"] = partial(
                _up_to_beyond_one, value=value, algorithm=algorithm
            )
    return found


def _up_to(s: PlacementSweeps, value: Value, algorithm: str) -> RowValue:
    saved = s.reductions_by_x(value, WIDE, "enterprise", algorithm)
    curves: dict[str, Curve] = {"x": saved}
    if algorithm in GRAPE:
        curves["gain"] = _over_gain(s, value, algorithm)
    if value is utilisation:
        curves["matching"] = over_matching(s, algorithm)
    if value is delay:
        curves["last-mile"] = over_last_mile(s, algorithm)
        curves["latency"] = _over_latency(s, algorithm)
    return RowValue(max(saved.values()), by_x(saved), curves)


def _up_to_beyond_one(s: PlacementSweeps, value: Value, algorithm: str) -> RowValue:
    saved = beyond_one(s.reductions_by_x(value, WIDE, "enterprise", algorithm))
    return RowValue(max(saved.values()), by_x(saved))


def over_matching(s: PlacementSweeps, algorithm: str) -> dict[float, float]:
    """By how much input utilisation falls at X = 1, by what matching takes besides, in what it takes a subscription.

    Worked out of the rates and tables that were measured.
    """

    def used(name: str, ratio: float) -> float:
        found = s.found[PlacementCase(WIDE, "enterprise", 1, name)]
        return found.row_rate + ratio * found.publication_rate

    ratios = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
    return {ratio: 100 * (1 - used(algorithm, ratio) / used(STATIC, ratio)) for ratio in ratios}


def over_last_mile(s: PlacementSweeps, algorithm: str) -> dict[float, float]:
    """By how much delay falls at X = 1, by the way to clients in latencies between brokers.

    Worked out of the delays that were measured: in them the first mile is, the last is not.
    """

    def took_ms(name: str, share: float) -> float:
        found = s.found[PlacementCase(WIDE, "enterprise", 1, name)]
        return found.delay_ms - WIDE.client_ms + 2 * share * WIDE.latency_ms

    shares = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
    return {part: 100 * (1 - took_ms(algorithm, part) / took_ms(STATIC, part)) for part in shares}


def _over_gain(s: PlacementSweeps, value: Value, algorithm: str) -> dict[float, float]:
    """By how much a value falls at the X that is not swept, by the least gain for which GRAPE moves a publisher."""
    static = s.value_of(value, s.case_at_fixed_x(WIDE, "enterprise", STATIC))
    cases = s.cases_by_gain(s.case_at_fixed_x(WIDE, "enterprise", algorithm))
    return {gain: 100 * (1 - s.value_of(value, case) / static) for gain, case in cases.items()}


def _over_latency(s: PlacementSweeps, algorithm: str) -> dict[float, float]:
    """By how much delay falls at the X that is not swept, by the latency."""
    plain, placed = s.cases_by_latency(STATIC), s.cases_by_latency(algorithm)
    return {
        ms: 100 * (1 - s.value_of(delay, placed[ms]) / s.value_of(delay, plain[ms])) for ms in plain
    }


# -- §V-B1: the enterprise workload ---------------------------------------------------------------------------


def _enterprise() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "same-broker": _same_broker,
        "delay-load-above-static": _slower_than_static,
        "delay-little-on-cluster": _little_on_cluster,
        "relocations": _relocations,
    }
    for where, model in MODELS.items():
        for what in ("rate", "input", "output"):
            found[f"{what}-lowest-{where}"] = partial(_lowest, value=VALUES[what], model=model)
        found[f"delay-lowest-{where}"] = partial(_lowest_delay, model=model)
        for what in ("delay", "hops"):
            found[f"{what}-sacrificed-{where}"] = partial(
                _above, value=VALUES[what], model=model, one=LOAD, other=DELAY
            )
        for what in ("rate", "input", "output"):
            found[f"{what}-sacrificed-{where}"] = partial(
                _above, value=VALUES[what], model=model, one=DELAY, other=LOAD
            )
        for what in ("input", "delay", "hops"):
            found[f"{what}-pop-between-{where}"] = partial(
                _between, value=VALUES[what], model=model
            )
        found[f"rate-pop-above-{where}"] = partial(_pop_above, model=model)
    return found


def _lowest(s: PlacementSweeps, value: Value, model: Model, fan_out: int = 2) -> RowValue:
    """By how many percent any other is at least above `load 100%`."""
    mine = enterprise(s, value, model, LOAD, fan_out)
    above = {
        (x, other): percent_above(theirs, mine[x])
        for other in ALGORITHMS
        if other != LOAD
        for x, theirs in enterprise(s, value, model, other, fan_out).items()
    }
    if not above:
        return RowValue(math.nan)
    x, other = min(above, key=lambda key: above[key])
    return RowValue(above[x, other], f"the least: {other} at X = {x}")


def _lowest_delay(s: PlacementSweeps, model: Model, fan_out: int = 2) -> RowValue:
    """At how many X another has a visibly lower delay than `delay 100%`."""
    values = {name: enterprise(s, delay, model, name, fan_out) for name in ALGORITHMS}
    lost = {
        x: percent_above(mine, min(other[x] for other in values.values()))
        for x, mine in values[DELAY].items()
    }
    beaten = sum(percent > VISIBLE for percent in lost.values())
    weight = 1 if len(lost) >= FEW else 2  # of so few, one is not "almost all"
    return RowValue(weight * beaten if lost else math.nan, f"above the lowest by {by_x(lost)}")


def _relocations(s: PlacementSweeps) -> RowValue:
    """In how many of the runs with the paper's settings a publisher is moved more than once, and of how many runs."""
    moved = {
        case: s.found[case].moved_again for case in s.usual_cases() if case.algorithm != STATIC
    }
    again = sum(count > 0 for count in moved.values())
    return RowValue(max(moved.values()), f"so in {again} of {len(moved)} runs")


def _above(
    s: PlacementSweeps, value: Value, model: Model, one: str, other: str, fan_out: int = 2
) -> RowValue:
    """By how many percent one is above the other, on average over X beyond 1."""
    ours, theirs = (enterprise(s, value, model, name, fan_out) for name in (one, other))
    above = {x: percent_above(ours[x], theirs[x]) for x in ours}
    return RowValue(mean(above.values()), by_x(above), {"x": above})


def _between(s: PlacementSweeps, value: Value, model: Model) -> RowValue:
    """At how many percent of the X where the two differ POP lies between them, give or take what cannot be seen."""
    load, pop, fast = (enterprise(s, value, model, name) for name in (LOAD, POP, DELAY))
    room = 1 + VISIBLE / 100
    apart = [x for x in pop if abs(percent_above(load[x], fast[x])) > VISIBLE]
    is_between = [
        min(load[x], fast[x]) / room <= pop[x] <= max(load[x], fast[x]) * room for x in apart
    ]
    rows = (f"X = {x}: {load[x]:.4g}, {pop[x]:.4g}, {fast[x]:.4g}" for x in pop)
    return share(is_between, f"load, POP, delay by {'; '.join(rows)}")


def _pop_above(s: PlacementSweeps, model: Model) -> RowValue:
    rates = {name: enterprise(s, message_rate, model, name) for name in (POP, *GRAPE)}
    above = {
        (x, name): percent_above(rates[POP][x], rates[name][x])
        for name in GRAPE
        for x in rates[POP]
    }
    x, name = min(above, key=lambda key: above[key])
    plain = [
        s.value_of(publication_rate, PlacementCase(model, "enterprise", x, one))
        for one in (POP, name)
    ]
    return RowValue(
        above[x, name],
        f"the least: {name} at X = {x}, where publications alone are {plain[0]:.2f} msg/s with POP and {plain[1]:.2f} "
        "with it",
    )


def _same_broker(s: PlacementSweeps) -> RowValue:
    """For how many publishers they choose different brokers at X = 1."""
    differ = 0
    for model in MODELS.values():
        found = [
            s.found[PlacementCase(model, "enterprise", 1, name)].places for name in (POP, *GRAPE)
        ]
        differ += sum(len({places[name] for places in found}) > 1 for name in found[0])
    return RowValue(differ)


def _slower_than_static(s: PlacementSweeps) -> RowValue:
    """Also with as many brokers as the paper's cluster had, by which the paper explains it."""
    above = {
        x: -saved
        for x, saved in beyond_one(s.reductions_by_x(delay, CLUSTER, "enterprise", LOAD)).items()
    }
    usual = s.case_at_fixed_x(CLUSTER, "enterprise", LOAD)
    by_brokers = {
        brokers: percent_above(
            s.value_of(delay, case), s.value_of(delay, case.vary(algorithm=STATIC))
        )
        for brokers, case in s.cases_by_brokers(usual).items()
    }
    return RowValue(mean(above.values()), by_x(above), {"x": above, "brokers": by_brokers})


def _little_on_cluster(s: PlacementSweeps) -> RowValue:
    """By how many points delay falls less on the cluster, on average over algorithms and X."""
    wide, close = (
        mean(
            saved
            for name in (POP, DELAY)
            for saved in s.reductions_by_x(delay, model, "enterprise", name).values()
        )
        for model in (WIDE, CLUSTER)
    )
    return RowValue(wide - close, f"wide area {wide:.1f}%, cluster {close:.1f}%")


def _fan_out() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "rate-lowest-fan-out-4": partial(_lowest, value=message_rate, model=WIDE, fan_out=4),
        "delay-lowest-fan-out-4": partial(_lowest_delay, model=WIDE, fan_out=4),
        "input-lowest-fan-out-4": partial(_lowest, value=utilisation, model=WIDE, fan_out=4),
        "hops-sacrificed-fan-out-4": partial(
            _above, value=hops, model=WIDE, one=LOAD, other=DELAY, fan_out=4
        ),
    }
    for who, load_first, delay_first in (("pop", POP, POP), ("grape", LOAD, DELAY)):
        for what, value, algorithm in (
            ("rate", message_rate, load_first),
            ("delay", delay, delay_first),
        ):
            found[f"fan-out-{what}-{who}"] = partial(_saves_less, value=value, algorithm=algorithm)
        for what, value in (("selection", selection), ("wait", wait)):
            found[f"fan-out-{what}-{who}"] = partial(
                _falls_with_fan_out, value=value, algorithm=load_first
            )
    return found


def _saves_less(s: PlacementSweeps, value: Value, algorithm: str) -> RowValue:
    """By how many points a reduction is less with fan-out 4, on average over X."""
    wide, narrow = (
        s.reductions_by_x(value, WIDE, "enterprise", algorithm, fan_out) for fan_out in (2, 4)
    )
    less = {x: wide[x] - narrow[x] for x in wide if x in narrow}
    return RowValue(
        mean(less.values()), ", ".join(f"X = {x}: {wide[x]:.1f} → {narrow[x]:.1f}" for x in less)
    )


def _falls_with_fan_out(s: PlacementSweeps, value: Value, algorithm: str) -> RowValue:
    wide, narrow = (
        s.values_by_x(value, WIDE, "enterprise", algorithm, fan_out) for fan_out in (2, 4)
    )
    less = {x: -percent_above(narrow[x], wide[x]) for x in wide if x in narrow}
    less = {x: percent for x, percent in less.items() if math.isfinite(percent)}
    return RowValue(mean(less.values()) if less else math.nan, by_x(less))


# -- what it costs ----------------------------------------------------------------------------------------------


def _costs() -> dict[str, Measure]:
    return {
        "overhead-pop": lambda s: RowValue(
            *_most(s, overhead, (POP,)),
            {"rate": {x: s.value_of(overhead, c) for x, c in s.cases_by_rate(POP).items()}},
        ),
        "overhead-grape": lambda s: RowValue(*_most(s, overhead, GRAPE)),
        "memory-pop": lambda s: RowValue(*_most(s, memory, (POP,))),
        "memory-grape": lambda s: RowValue(*_most(s, memory, GRAPE)),
        "memory-grape-above-pop": lambda s: RowValue(
            _most(s, memory, GRAPE)[0] - _most(s, memory, (POP,))[0]
        ),
        "memory-pop-mb": lambda s: RowValue(*_most(s, memory_mb, (POP,))),
        "memory-grape-mb": lambda s: RowValue(*_most(s, memory_mb, GRAPE)),
        "memory-grape-above-pop-mb": lambda s: RowValue(
            _most(s, memory_mb, GRAPE)[0] - _most(s, memory_mb, (POP,))[0]
        ),
        "far-less-control": _far_less_control,
        "migration-messages": _migration_messages,
    }


def _usual(s: PlacementSweeps, names: Iterable[str]) -> dict[PlacementCase, PlacementResult]:
    """The runs of the sweep over X, enterprise workload."""
    return {
        case: s.found[case]
        for name in names
        for model in MODELS.values()
        for fan_out in (2, 4)
        for case in s.cases_by_x(model, "enterprise", name, fan_out).values()
    }


def _most(s: PlacementSweeps, value: Value, names: Iterable[str]) -> tuple[float, str]:
    runs = _usual(s, names)
    values = {case: value(case, found) for case, found in runs.items()}
    most = max(values, key=lambda case: values[case])
    return values[most], f"the most of {len(values)} runs: {most.name}"


def _far_less_control(s: PlacementSweeps) -> RowValue:
    """By how many percent GRAPE adds fewer messages than POP, at least."""
    fewer = {
        case: -percent_above(found.added, s.found[case.vary(algorithm=POP)].added)
        for case, found in _usual(s, GRAPE).items()
    }
    least = min(fewer, key=lambda case: fewer[case])
    return RowValue(fewer[least], f"the least: {least.name}")


def _migration_messages(s: PlacementSweeps) -> RowValue:
    """Mum and Mcm for each broker on the path of a migration, in the run with most; a path has O(log N) brokers."""
    each = {
        case: found.migration_messages / sum(links + 1 for links, _ in found.pauses)
        for case, found in s.found.items()
        if found.pauses and not found.undone
    }
    if not each:
        return RowValue(math.nan)
    most = max(each, key=lambda case: each[case])
    longest = max(links for case in each for links, _ in s.found[case].pauses)
    return RowValue(each[most], f"{most.name}; the longest path of all has {longest} links")


# -- times --------------------------------------------------------------------------------------------------------


def _times() -> dict[str, Measure]:
    return {
        "migration-wide": partial(_long_migration, model=WIDE),
        "migration-cluster": partial(_long_migration, model=CLUSTER),
        "wait-by-path": _wait_by_path,
        "wait-by-subscribers": _wait_by_subscribers,
        "selection-wide": partial(_selection, model=WIDE),
        "selection-cluster": partial(_selection, model=CLUSTER),
        "selection-by-subscribers": _selection_by_subscribers,
        "selection-by-path": _selection_by_path,
        "selection-above-pop": _selection_above_pop,
        "selection-pop-by-subscribers": _pop_by_subscribers,
        "selection-pop-by-path": _pop_by_path,
        "pings-wide": partial(_pings, model=WIDE, kind="in series"),
        "pings-cluster": partial(_pings, model=CLUSTER, kind="in series"),
        "pings-at-once": partial(_pings, model=CLUSTER, kind="once"),
        "pings-at-once-delay": lambda s: RowValue(
            percent_above(
                *(
                    s.value_of(delay, s.case_with_pings(CLUSTER, kind))
                    for kind in ("once", "in series")
                )
            )
        ),
        "pings-delay-1": _slowest_pings,
        "pings-load-100": lambda s: RowValue(s.value_of(pings, s.cases_with_pings()[LOAD])),
        "hundreds": lambda s: _hundreds(s, selection, " s"),
        "hundreds-overhead": lambda s: _hundreds(s, overhead, "%"),
        "selection-order": _selection_order,
        "tia-size": lambda s: RowValue(tia_bytes()),
        "selection-70-ms": lambda s: RowValue(
            selection_ms(), f"the longest of {CHOICES}: all of 63 brokers have subscribers"
        ),
    }


def _long_migration(s: PlacementSweeps, model: Model) -> RowValue:
    """Seconds that a publisher waits on average if it moves over ten links."""
    pauses = [
        ms
        for found in s.enterprise_with_placement(model)
        for links, ms in found.pauses
        if links == LONG_PATH
    ]
    return RowValue(mean(pauses) / 1e3 if pauses else math.nan, f"{len(pauses)} migrations")


def _wait_by_path(s: PlacementSweeps) -> RowValue:
    """Correlation of a migration's length and its wait, in the wide area."""
    pauses = [pause for found in s.enterprise_with_placement(WIDE) for pause in found.pauses]
    if len({links for links, _ in pauses}) < 3:
        return RowValue(math.nan, f"{len(pauses)} migrations")
    lengths, waits = zip(*pauses, strict=True)
    means = {
        n: mean(ms for links, ms in pauses if links == n) for n in sorted({n for n, _ in pauses})
    }
    return RowValue(
        statistics.correlation(lengths, waits),
        f"{len(pauses)} migrations; ms by links: "
        + ", ".join(f"{n}: {ms:.0f}" for n, ms in means.items()),
    )


def _wait_by_subscribers(s: PlacementSweeps) -> RowValue:
    """By how many percent the wait for each link is longer at the largest X than at the smallest."""
    each: dict[int, float] = {}
    for x in s.xs(WIDE, "enterprise"):
        pauses = [
            ms / links
            for name in (POP, *GRAPE)
            for links, ms in s.found[PlacementCase(WIDE, "enterprise", x, name)].pauses
            if links
        ]
        if pauses:
            each[x] = mean(pauses)
    if len(each) < 2:
        return RowValue(math.nan)
    return RowValue(percent_above(each[max(each)], each[min(each)]), by_x(each, unit=" ms a link"))


def _selection(s: PlacementSweeps, model: Model) -> RowValue:
    """Seconds of GRAPE at the largest X."""
    took = s.values_by_x(selection, model, "enterprise", LOAD)
    return RowValue(took[max(took)], by_x(took, ".3f", " s"), {"x": took})


def _selection_by_subscribers(s: PlacementSweeps) -> RowValue:
    took = s.values_by_x(selection, WIDE, "enterprise", LOAD)
    return RowValue(percent_above(took[max(took)], took[min(took)]), by_x(took, ".3f", " s"))


def _selection_by_path(s: PlacementSweeps) -> RowValue:
    """By how many percent the selection takes longer for the longest paths than for the shortest, at the same X."""
    found = s.found[s.case_at_fixed_x(WIDE, "enterprise", LOAD)].selections
    took = {
        n: mean(seconds for links, seconds in found if links == n) for n in {n for n, _ in found}
    }
    if len(took) < 2:
        return RowValue(math.nan)
    note = ", ".join(f"{n} links: {took[n]:.3f} s" for n in sorted(took))
    return RowValue(percent_above(took[max(took)], took[min(took)]), note)


def _selection_above_pop(s: PlacementSweeps) -> RowValue:
    """By how many percent GRAPE's selection takes longer, on average over X; the testbed where it is so the least."""
    took = {
        where: [mean(enterprise(s, selection, model, name).values()) for name in (LOAD, POP)]
        for where, model in MODELS.items()
    }
    above = {where: percent_above(*both) for where, both in took.items()}
    note = ", ".join(
        f"{where}: {ours:.4f} s, POP {pop:.4f} s" for where, (ours, pop) in took.items()
    )
    return RowValue(min(above.values()), note)


def _pop_by_subscribers(s: PlacementSweeps) -> RowValue:
    """By how many percent POP's selection takes longer for each link of the path, at the largest X."""
    each: dict[int, float] = {}
    for x, case in s.cases_by_x(WIDE, "enterprise", POP).items():
        took = [seconds / links for links, seconds in s.found[case].selections if links]
        if took:
            each[x] = mean(took)
    if len(each) < 2:
        return RowValue(math.nan)
    return RowValue(
        percent_above(each[max(each)], each[min(each)]), by_x(each, ".4f", " s for each link")
    )


def _pop_by_path(s: PlacementSweeps) -> RowValue:
    """Correlation of the path and the time of POP's selection, in the wide area."""
    cases = s.cases_by_x(WIDE, "enterprise", POP).values()
    found = [one for case in cases for one in s.found[case].selections]
    if len({links for links, _ in found}) < 3:
        return RowValue(math.nan, f"{len(found)} selections")
    lengths, took = zip(*found, strict=True)
    return RowValue(statistics.correlation(lengths, took), f"{len(found)} selections")


def _pings(s: PlacementSweeps, model: Model, kind: str) -> RowValue:
    """Seconds for 63 brokers; each publisher measures the brokers that its publications reach, so in proportion."""
    found = [one for one in s.found[s.case_with_pings(model, kind)].pings if one[0]]
    if not found:
        return RowValue(math.nan, "nobody was asked")
    counts, took = [count for count, _ in found], [seconds for _, seconds in found]
    note = f"{mean(took):.3f} s for {mean(counts):.1f} brokers, on average over {len(found)} publishers"
    if kind == "once":  # the farthest decides, however many there are
        return RowValue(mean(took), note)
    return RowValue(PINGED * sum(took) / sum(counts), note)


def _slowest_pings(s: PlacementSweeps) -> RowValue:
    """By how many milliseconds pings take longer with `delay 1%` than with the slowest other weight."""
    found = {name: 1e3 * s.value_of(pings, case) for name, case in s.cases_with_pings().items()}
    others = [took for name, took in found.items() if name != "delay 1%"]
    note = ", ".join(f"{name}: {took:.2f} ms" for name, took in found.items())
    return RowValue(found["delay 1%"] - max(others), note)


def _hundreds(s: PlacementSweeps, value: Value, unit: str) -> RowValue:
    """The most of both algorithms on hundreds of brokers with thousands of clients."""
    found = {case: s.value_of(value, case) for case in s.large_cases()}
    note = ", ".join(f"{case.algorithm}: {one:.4g}{unit}" for case, one in found.items())
    return RowValue(max(found.values()), note)


def _selection_order(s: PlacementSweeps) -> RowValue:
    """To which power of the number of brokers the time of the computation grows."""
    took = {brokers: selection_ms(brokers, middle=True) for brokers in LARGER}
    slope, _ = statistics.linear_regression(
        [math.log(count) for count in took], [math.log(ms) for ms in took.values()]
    )
    return RowValue(slope, ", ".join(f"{count}: {ms:.2f} ms" for count, ms in took.items()))


def tia_bytes() -> float:
    """By how many bytes one more broker makes a TIA longer: ids of ten characters, three neighbours, usual settings."""
    hops = tuple(Hop(f"broker-{n:03}", 50_000, 40_000_000) for n in range(3))
    one = BrokerTrace(
        *("broker-000", "10.0.0.1:7000", bytes(THRESHOLD // 8 + 1), THRESHOLD),
        *(20_000, 100_000, 50_000, hops),
    )
    few, many = (len(encode(Tia(1, THRESHOLD, (one,) * count, True))) for count in (1, 2))
    return many - few


def selection_ms(brokers: int = 63, *, middle: bool = False) -> float:
    """How long GRAPE takes to choose among brokers that all have subscribers: the longest of a few, or the median."""
    shape = make_shape("placement", {"brokers": brokers})
    neighbours: dict[str, list[str]] = {name: [] for name in shape.brokers}
    for one, other in shape.links:
        neighbours[one].append(other)
        neighbours[other].append(one)
    reports = {
        name: BrokerReport(
            name,
            tuple(others),
            bits=(1 << THRESHOLD) - 1 if place % 2 else 1 << place,
            deliveries=THRESHOLD + place,
            matching_s=1e-3,
            link_s=dict.fromkeys(others, 0.04 + place * 1e-4),
        )
        for place, (name, others) in enumerate(neighbours.items())
    }
    took = []
    for place in range(CHOICES):
        began = time.perf_counter()
        choose(reports, shape.brokers[-1], METRICS[place % 2], 50.0)
        took.append((time.perf_counter() - began) * 1e3)
    return statistics.median(took) if middle else max(took)


# -- §V-B2: the random workload -----------------------------------------------------------------------------------


def _random() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "random-pop-delay": _pop_is_fastest,
        "random-overhead": _random_overhead,
        "random-overhead-below-pop": lambda s: RowValue(
            -percent_above(
                *(s.found[s.case_at_fixed_x(CLUSTER, "random", n)].added for n in (LOAD, POP))
            )
        ),
        "random-output-above-static": lambda s: RowValue(
            min(_against(s, output, model, n, STATIC) for model in MODELS.values() for n in GRAPE)
        ),
        "random-overloads": _overloads,
        "random-no-overloads": _no_overloads,
        "random-prevents-overloads": _prevented,
        "random-overload-delay": _overload_delay,
        "random-weights": _random_weights,
    }
    for what, value in VALUES.items():
        found[f"random-{what}-alike"] = partial(_grapes_apart, value=value)
    for what in ("hops", "input", "output"):
        found[f"random-{what}-pop"] = partial(_pop_apart, value=VALUES[what])
    for where, model in MODELS.items():
        for what in ("rate", "input"):
            found[f"random-{what}-static-{where}"] = partial(
                _apart_from_static, value=VALUES[what], model=model
            )
        found[f"random-rate-pop-{where}"] = partial(_random_pop_rate, model=model)
    return found


def _against(s: PlacementSweeps, value: Value, model: Model, one: str, other: str) -> float:
    """By how many percent a value is above another's, at the X that is not swept."""
    ours, theirs = (
        s.value_of(value, s.case_at_fixed_x(model, "random", name)) for name in (one, other)
    )
    return percent_above(ours, theirs)


def _largest(apart: Mapping[str, float]) -> RowValue:
    """The one that is farthest from 0."""
    worst = max(apart, key=lambda key: abs(apart[key]))
    return RowValue(apart[worst], ", ".join(f"{key}: {value:.1f}%" for key, value in apart.items()))


def _grapes_apart(s: PlacementSweeps, value: Value) -> RowValue:
    return _largest({model.name: _against(s, value, model, *GRAPE) for model in MODELS.values()})


def _pop_apart(s: PlacementSweeps, value: Value) -> RowValue:
    return _largest(
        {
            f"{model.name}, {name}": _against(s, value, model, POP, name)
            for model in MODELS.values()
            for name in GRAPE
        }
    )


def _apart_from_static(s: PlacementSweeps, value: Value, model: Model) -> RowValue:
    saved = s.reductions_by_x(value, model, "random", LOAD)
    found = _largest({name: _against(s, value, model, name, STATIC) for name in GRAPE})
    return RowValue(found.value, found.note, {"x": {x: -percent for x, percent in saved.items()}})


def _random_pop_rate(s: PlacementSweeps, model: Model) -> RowValue:
    above = {name: _against(s, message_rate, model, POP, name) for name in GRAPE}
    return RowValue(mean(above.values()), ", ".join(f"{n}: {v:.1f}%" for n, v in above.items()))


def _pop_is_fastest(s: PlacementSweeps) -> RowValue:
    took = {
        n: s.value_of(delay, s.case_at_fixed_x(CLUSTER, "random", n)) for n in (POP, DELAY, LOAD)
    }
    return RowValue(
        -percent_above(took[POP], took[DELAY]),
        ", ".join(f"{name} {ms:.3f} ms" for name, ms in took.items()),
    )


def _random_overhead(s: PlacementSweeps) -> RowValue:
    shares = {
        case: s.value_of(overhead, case)
        for model in MODELS.values()
        for name in GRAPE
        for case in s.cases_by_x(model, "random", name).values()
    }
    most = max(shares, key=lambda case: shares[case])
    return RowValue(shares[most], f"the most of {len(shares)} runs: {most.name}")


def _count_overloaded(s: PlacementSweeps, name: str) -> int:
    return max(s.found[case].overloaded for case in s.cases_on_shared_machines(name))


def _overloads(s: PlacementSweeps) -> RowValue:
    over = {name: _count_overloaded(s, name) for name in (STATIC, POP, DELAY)}
    return RowValue(max(over.values()), ", ".join(f"{name}: {n}" for name, n in over.items()))


def _no_overloads(s: PlacementSweeps) -> RowValue:
    """It says something only where others are overloaded."""
    others = _overloads(s)
    if not others.value:
        return RowValue(math.nan, "no algorithm overloads a broker here")
    return RowValue(_count_overloaded(s, LOAD), f"others: {others.note}")


def _prevented(s: PlacementSweeps) -> RowValue:
    """By how many percent `load 100%` overloads fewer brokers than static."""
    ours, static = (_count_overloaded(s, name) for name in (LOAD, STATIC))
    return RowValue(-percent_above(ours, static), f"{ours} instead of {static}")


def _overload_delay(s: PlacementSweeps) -> RowValue:
    """How many times as long deliveries take where brokers are overloaded, of those that overload some."""
    times = {
        name: s.value_of(delay, case) / s.value_of(delay, case.vary(model=WIDE))
        for name in (STATIC, POP, DELAY)
        for case in s.cases_on_shared_machines(name)
        if s.found[case].overloaded
    }
    if not times:
        return RowValue(math.nan, "no algorithm overloads a broker here")
    return RowValue(
        min(times.values()), ", ".join(f"{name}: {one:.1f} times" for name, one in times.items())
    )


def _random_weights(s: PlacementSweeps) -> RowValue:
    """By how many percent the most is above the least over all weights: rate or delay, what is farther apart."""
    return _largest(
        {name: _weights_apart(s, VALUES[name], "random").value for name in ("rate", "delay")}
    )


# -- §V-B3: weights -----------------------------------------------------------------------------------------------


def _weights() -> dict[str, Measure]:
    found: dict[str, Measure] = {}
    for what in ("delay", "hops", "rate", "input", "output"):
        is_speed = what in ("delay", "hops")
        found[f"weights-load-{what}"] = partial(
            _monotone, metric="load", value=VALUES[what], rises=is_speed
        )
        found[f"weights-delay-{what}"] = partial(
            _monotone, metric="delay", value=VALUES[what], rises=not is_speed
        )
    for what in ("rate", "delay"):
        found[f"weights-load-1-{what}"] = partial(
            _same_end, value=VALUES[what], one="load 1%", other=DELAY
        )
        found[f"weights-delay-1-{what}"] = partial(
            _same_end, value=VALUES[what], one="delay 1%", other=LOAD
        )
    for what in ("memory", "overhead"):
        found[f"weights-{what}"] = partial(_weights_apart, value=VALUES[what])
    return found


def _monotone(s: PlacementSweeps, metric: str, value: Value, rises: bool) -> RowValue:
    """At how many percent of the steps from weight to weight a value goes the right way; 0 if the ends are alike."""
    cases = s.cases_by_weight(metric)
    found = {weight: s.value_of(value, case) for weight, case in cases.items()}
    note = ", ".join(f"{weight}%: {one:.4g}" for weight, one in found.items())
    values = list(found.values()) if rises else list(found.values())[::-1]
    if percent_above(values[-1], values[0]) < VISIBLE:
        return RowValue(0, f"{note}: the ends are alike, or the wrong way round")
    room = 1 + VISIBLE / 100
    return share([two * room >= one for one, two in pairwise(values)], note)


def _same_end(s: PlacementSweeps, value: Value, one: str, other: str) -> RowValue:
    cases = [s.case_at_fixed_x(CLUSTER, "enterprise", name) for name in (one, other)]
    return RowValue(
        percent_above(*(s.value_of(value, case) for case in cases)), _count_moved(s, *cases)
    )


def _count_moved(s: PlacementSweeps, one: PlacementCase, other: PlacementCase) -> str:
    """How many publishers two runs have put on different brokers."""
    places, others = s.found[one].places, s.found[other].places
    count = sum(place != others[name] for name, place in places.items())
    return f"{count} of {len(places)} publishers end at another broker"


def _weights_apart(s: PlacementSweeps, value: Value, mix: Mix = "enterprise") -> RowValue:
    """By how many percent the most is above the least, over all weights."""
    values = [
        s.value_of(value, case) for m in METRICS for case in s.cases_by_weight(m, mix).values()
    ]
    return RowValue(
        percent_above(max(values), min(values)), f"{min(values):.3g} to {max(values):.3g}"
    )


# -- §V-B4: thresholds --------------------------------------------------------------------------------------------


def _thresholds() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "grape-12800-moved": lambda s: RowValue(
            s.found[s.cases_by_threshold(LOAD)[12_800]].migrated
        ),
        "grape-12800-overhead": _lowest_overhead,
        "overhead-grape-least": lambda s: RowValue(min(_by_threshold(s, overhead, LOAD).values())),
        "overhead-grape-most": lambda s: RowValue(max(_by_threshold(s, overhead, LOAD).values())),
        "overhead-pop-least": lambda s: RowValue(min(_by_threshold(s, overhead, POP).values())),
        "overhead-pop-most": lambda s: RowValue(max(_by_threshold(s, overhead, POP).values())),
        "overhead-worst-below-pop": lambda s: RowValue(
            -percent_above(*(max(_by_threshold(s, overhead, n).values()) for n in (LOAD, POP)))
        ),
        "thresholds-best-grape": partial(_best_threshold, algorithm=LOAD),
        "thresholds-best-pop": partial(_best_threshold, algorithm=POP),
    }
    for what in ("delay", "rate", "input"):
        found[f"grape-10-{what}"] = partial(_few_samples, value=VALUES[what])
    for who, algorithm in (("grape", LOAD), ("pop", POP)):
        found[f"thresholds-response-{who}"] = partial(
            _along_thresholds, value=response, algorithm=algorithm, rises=True
        )
        found[f"thresholds-overhead-{who}"] = partial(
            _along_thresholds, value=overhead, algorithm=algorithm, rises=algorithm == POP
        )
    return found


def _by_threshold(s: PlacementSweeps, value: Value, algorithm: str) -> dict[int, float]:
    return {t: s.value_of(value, case) for t, case in s.cases_by_threshold(algorithm).items()}


def _lowest_overhead(s: PlacementSweeps) -> RowValue:
    """By how many percent the overhead with 12,800 samples is below that with any other threshold."""
    found = _by_threshold(s, overhead, LOAD)
    others = [value for threshold, value in found.items() if threshold != 12_800]
    return RowValue(-percent_above(found[12_800], min(others)), _by_samples(found, "%"))


def _by_samples(values: Mapping[int, float], unit: str) -> str:
    return ", ".join(f"{samples:,}: {value:.4g}{unit}" for samples, value in values.items())


def _few_samples(s: PlacementSweeps, value: Value) -> RowValue:
    found = _by_threshold(s, value, LOAD)
    cases = s.cases_by_threshold(LOAD)
    return RowValue(percent_above(found[10], found[400]), _count_moved(s, cases[10], cases[400]))


def _along_thresholds(s: PlacementSweeps, value: Value, algorithm: str, rises: bool) -> RowValue:
    """At how many percent of the steps from threshold to threshold a value goes the right way."""
    runs = s.cases_by_threshold(algorithm)
    found = {
        t: s.value_of(value, case)
        for t, case in runs.items()
        if value is not response or s.found[case].decided_s
    }
    steps = [(two > one) is rises for one, two in pairwise(found.values())]
    return share(steps, _by_samples(found, " s" if value is response else "%"))


def _best_threshold(s: PlacementSweeps, algorithm: str) -> RowValue:
    """The threshold with the best tradeoff: overhead, response, delay and rate count alike, each from 0 to 1.

    Where nothing was decided, the response is as long as the run.
    """
    runs = s.cases_by_threshold(algorithm)
    longest = max(found.decided_s for found in (s.found[case] for case in runs.values()))
    costs = dict.fromkeys(runs, 0.0)
    for value in (overhead, response, delay, message_rate):
        found = {
            t: (s.value_of(value, case) or longest)
            if value is response
            else s.value_of(value, case)
            for t, case in runs.items()
        }
        low, high = min(found.values()), max(found.values())
        for t, one in found.items():
            costs[t] += (one - low) / (high - low) if high > low else 0.0
    best = min(costs, key=lambda t: costs[t])
    return RowValue(best, f"cost by samples: {_by_samples(costs, '')}")


# -- our own --------------------------------------------------------------------------------------------------------


def _ours() -> dict[str, Measure]:
    return {
        "lost": _lost,
        "ours-duplicates": lambda s: RowValue(
            sum(found.delivered.duplicates for found in s.found.values())
        ),
        "ours-stray": lambda s: RowValue(sum(found.delivered.stray for found in s.found.values())),
        "ours-undrained": lambda s: RowValue(sum(not found.drained for found in s.found.values())),
        "ours-undone": lambda s: RowValue(sum(found.undone for found in s.found.values())),
        "ours-larger-network": _larger_network,
    }


def _lost(s: PlacementSweeps) -> RowValue:
    every = list(s.found.values())
    owed, moved = sum(one.delivered.owed for one in every), sum(one.migrated for one in every)
    return RowValue(
        sum(one.delivered.lost for one in every),
        f"of {owed:,} owed, in {len(every)} runs with {moved:,} migrations",
    )


def _larger_network(s: PlacementSweeps) -> RowValue:
    """By how many percent the message rate falls with more brokers, and what the same is on the usual network."""
    usual = s.case_at_fixed_x(CLUSTER, "enterprise", LOAD)
    saved = {
        brokers: -percent_above(
            s.value_of(message_rate, case), s.value_of(message_rate, case.vary(algorithm=STATIC))
        )
        for brokers, case in s.cases_by_brokers(usual).items()
    }
    return RowValue(saved[max(saved)], "", {"brokers": saved})
