"""What is measured for each row of `claims.toml`, out of all runs of the experiment `green`. Nothing is judged here.

"Up to" is the best over the paper's networks, "always" the percentage of cases in which it is so, and a comparison the
percentage by which it is so, at the network where that is least. Rows about CRAM have a curve over the scheme that it
returns: the one with the fewest brokers, as built here; the last, as printed; and with clusters split, which is ours.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from runnel.lab.claims import Curve, RowValue
from runnel.lab.experiments.green.cases import (
    AUTOMATIC,
    FBF,
    IOU,
    LAST,
    LAST_XOR,
    MANUAL,
    METRICS,
    PACKING,
    PAIRWISE_K,
    PAIRWISE_N,
    PRINTED,
    RATE_PER_MIN,
    SPLIT,
    UNAWARE,
    XOR,
    GreenCase,
    Net,
)
from runnel.lab.experiments.green.run import GreenResult, LiveResult
from runnel.lab.experiments.green.sweeps import (
    GreenSweeps,
    Value,
    brokers,
    clusters,
    delay,
    growth_exponent,
    hops,
    list_by_net,
    mean,
    mean_input,
    mean_output,
    mean_rate,
    output_deviation,
    output_peak_above_mean,
    overloaded,
    peak_input,
    peak_output,
    peak_rate,
    percent_less,
    percent_more,
    plan_time,
)
from runnel.lab.shapes import make_shape
from runnel.planning.algorithms.cram.gifs import Gif
from runnel.planning.algorithms.cram.poset import GifPoset

Measure = Callable[[GreenSweeps], RowValue]
SCHEMES = {"fewest brokers": IOU, "last": LAST, "split": SPLIT}
XOR_SCHEMES = {"fewest brokers": (XOR, IOU), "last": (LAST_XOR, LAST)}
SORTED = (FBF, PACKING)
POSET_GROUPS = 3_200
PRINTED_BROKERS = 80


def measures() -> dict[str, Measure]:
    """How each row is measured."""
    return {
        **_brokers(),
        **_rates(),
        **_utilisation(),
        **_hops_and_delays(),
        **_grape(),
        **_metrics(),
        **_times(),
        **_bits(),
        **_related(),
        **_live(),
        **_ours(),
    }


# -- how values become rows -----------------------------------------------------------------------------------


def best(values: Mapping[Net, float], digits: str = ".1f", unit: str = "%") -> RowValue:
    """The best of all networks, or the most."""
    return RowValue(max(values.values()), list_by_net(values, digits, unit))


def least(values: Mapping[Net, float]) -> RowValue:
    """The network where it is so the least."""
    return RowValue(min(values.values()), list_by_net(values))


def average(values: Mapping[Net, float]) -> RowValue:
    """The average of all networks."""
    return RowValue(mean(values.values()), list_by_net(values))


def farthest(values: Mapping[Net, float]) -> RowValue:
    """The network where it is farthest from 0, so that more and less do not cancel."""
    return RowValue(max(values.values(), key=abs), list_by_net(values))


def share(cases: Mapping[Net, bool], note: str = "") -> RowValue:
    """In how many percent of the cases it is so, and where it is not."""
    failed = [net.name for net, is_so in cases.items() if not is_so]
    notes = [note] if note else []
    notes += [f"not on {'; '.join(failed)}"] if failed else []
    return RowValue(100 * mean(map(float, cases.values())), ". ".join(notes))


def by_scheme(measure: Callable[[str], RowValue]) -> RowValue:
    """A row about CRAM, and what it would be with other schemes."""
    found = {scheme: measure(name) for scheme, name in SCHEMES.items()}
    first = found["fewest brokers"]
    return with_curve(first, "scheme", {scheme: one.value for scheme, one in found.items()})


def with_curve(row: RowValue, constant: str, curve: Curve) -> RowValue:
    """The same row, shown over one more constant."""
    return replace(row, curves={**row.curves, constant: curve})


def over_constant(
    s: GreenSweeps, key: str, name: str, value: Callable[[GreenCase], float]
) -> dict[float, float]:
    """A value of the small network's runs, by its days or capacity, or by head-room."""
    cases = s.cases_by_headroom(name) if key == "headroom" else s.cases_by_net_field(key, name)
    return {x: value(case) for x, case in cases.items()}


def increases(
    s: GreenSweeps, value: Value, nets: Sequence[Net], one: str, other: str
) -> dict[Net, float]:
    """By how many percent one algorithm's value is above another's, by network."""
    ours, theirs = (s.values_by_net(value, nets, name) for name in (one, other))
    return {net: percent_more(ours[net], theirs[net]) for net in nets}


def networks_of_5d(s: GreenSweeps) -> list[Net]:
    """Fig. 5d: the most subscriptions on the cluster, and the large networks."""
    return [s.at, *s.large]


def all_networks(s: GreenSweeps) -> list[Net]:
    """All of both kinds."""
    return [*s.equal_nets, *s.heterogeneous]


# -- §VI-B1 ---------------------------------------------------------------------------------------------------


def _brokers() -> dict[str, Measure]:
    return {
        "brokers-homogeneous": _brokers_homogeneous,
        "brokers-heterogeneous": lambda s: by_scheme(
            lambda name: best(s.reductions_by_net(brokers, s.heterogeneous, name))
        ),
        "brokers-fewest": _fewest,
        "brokers-below-packing": _below_packing,
        "packing-one-fewer": _one_fewer,
        "less-than-half": _largest_share,
        "packing-share": lambda s: best(
            {
                net: 100 * count / net.brokers
                for net, count in s.values_by_net(brokers, all_networks(s), PACKING).items()
            }
        ),
        "brokers-scale": _scale,
        "allocate-all": lambda s: RowValue(
            100
            * mean(
                float(count == net.brokers)
                for name in UNAWARE
                for net, count in s.values_by_net(brokers, s.swept_nets, name).items()
            )
        ),
    }


def _brokers_homogeneous(s: GreenSweeps) -> RowValue:
    def saved(case: GreenCase) -> float:
        return percent_less(s.value_of(brokers, case), case.net.brokers)

    row = by_scheme(lambda name: best(s.reductions_by_net(brokers, s.equal_nets, name)))
    for key in ("capacity", "headroom"):
        row = with_curve(row, key, over_constant(s, key, IOU, saved))
    return row


def _fewest(s: GreenSweeps) -> RowValue:
    """Strictly: CRAM begins with BIN PACKING's scheme, so that it never needs more."""
    others = {name: s.values_by_net(brokers, all_networks(s), name) for name in SORTED}
    return by_scheme(
        lambda name: share(
            {
                net: all(count < other[net] for other in others.values())
                for net, count in s.values_by_net(brokers, all_networks(s), name).items()
            }
        )
    )


def _below_packing(s: GreenSweeps) -> RowValue:
    row = by_scheme(lambda name: best(s.reductions_by_net(brokers, all_networks(s), name, PACKING)))

    def saved(case: GreenCase) -> float:
        packed = case.vary(algorithm=PACKING)
        return percent_less(s.value_of(brokers, case), s.value_of(brokers, packed))

    return with_curve(row, "capacity", over_constant(s, "capacity", IOU, saved))


def _one_fewer(s: GreenSweeps) -> RowValue:
    packed, first = (s.values_by_net(brokers, all_networks(s), name) for name in (PACKING, FBF))
    fewer = {net: first[net] - packed[net] for net in packed}
    return share(
        {net: count == 1 for net, count in fewer.items()},
        f"fewer by {list_by_net(fewer, '.0f', '')}",
    )


def _largest_share(s: GreenSweeps) -> RowValue:
    runs = s.capacity_aware_results(all_networks(s), PRINTED)
    shares = {case: 100 * found.brokers / case.net.brokers for case, found in runs.items()}
    most = max(shares, key=lambda case: shares[case])
    curve = over_constant(
        s, "capacity", PACKING, lambda case: 100 * s.value_of(brokers, case) / case.net.brokers
    )
    return with_curve(RowValue(shares[most], most.name), "capacity", curve)


def _scale(s: GreenSweeps) -> RowValue:
    steps = [
        s.value_of(brokers, s.usual_case(many, name)) > s.value_of(brokers, s.usual_case(few, name))
        for name in (*SORTED, IOU)
        for nets in (s.homogeneous, s.heterogeneous)
        for few, many in pairwise(sorted(nets, key=lambda net: net.subscriptions))
    ]
    return RowValue(100 * mean(map(float, steps)), f"{sum(steps)} of {len(steps)} steps")


def _rates() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "rate-average": _rate_average,
        "rate-maximum": lambda s: by_scheme(
            lambda name: best(s.reductions_by_net(peak_rate, networks_of_5d(s), name))
        ),
        "rate-maximum-heterogeneous": lambda s: by_scheme(
            lambda name: best(s.reductions_by_net(peak_rate, s.heterogeneous, name))
        ),
        "rate-pairwise-n-average": lambda s: least(
            s.reductions_by_net(mean_rate, s.swept_nets, PAIRWISE_N)
        ),
        "rate-pairwise-n-maximum": lambda s: least(
            s.reductions_by_net(peak_rate, s.swept_nets, PAIRWISE_N)
        ),
        "packing-sinks-all": _sunk,
    }
    return found


def _rate_average(s: GreenSweeps) -> RowValue:
    row = by_scheme(lambda name: best(s.reductions_by_net(mean_rate, networks_of_5d(s), name)))

    def saved(case: GreenCase) -> float:
        plain = case.vary(algorithm=MANUAL)
        return percent_less(s.value_of(mean_rate, case), s.value_of(mean_rate, plain))

    return with_curve(row, "capacity", over_constant(s, "capacity", IOU, saved))


def _sunk(s: GreenSweeps) -> RowValue:
    sunk = s.values_by_net(mean_rate, s.swept_nets, PACKING)
    return average(
        {net: 100 * rate / (net.publishers * RATE_PER_MIN / 60) for net, rate in sunk.items()}
    )


def _utilisation() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "input-highest-average": lambda s: least(_packing_lead(s, mean_input)),
        "input-highest-maximum": lambda s: least(_packing_lead(s, peak_input)),
        "input-follows-rate": _correlation,
        "input-above-pairwise-n": lambda s: least(
            increases(s, mean_input, s.swept_nets, IOU, PAIRWISE_N)
        ),
        "output-packing": lambda s: with_curve(
            average(s.values_by_net(mean_output, all_networks(s), PACKING)),
            "headroom",
            over_constant(s, "headroom", PACKING, lambda case: s.value_of(mean_output, case)),
        ),
        "output-cram": lambda s: with_curve(
            by_scheme(lambda name: average(s.values_by_net(mean_output, all_networks(s), name))),
            "headroom",
            over_constant(s, "headroom", IOU, lambda case: s.value_of(mean_output, case)),
        ),
        "output-deviation": lambda s: _more_even(s, output_deviation),
        "output-spread": lambda s: _more_even(s, output_peak_above_mean),
        "output-pairwise-n": lambda s: least(
            s.reductions_by_net(mean_output, s.homogeneous, PAIRWISE_N)
        ),
        "none-overloaded": _none_overloaded,
        "cram-full": lambda s: by_scheme(
            lambda name: average(s.values_by_net(mean_output, s.homogeneous, name))
        ),
        "ours-none-overloaded-large": lambda s: _count_overloaded(s, s.large),
        "saturated": _saturated,
    }
    return found


def _packing_lead(s: GreenSweeps, value: Value) -> dict[Net, float]:
    others = [s.values_by_net(value, s.swept_nets, n) for n in (MANUAL, PAIRWISE_N, IOU)]
    ours = s.values_by_net(value, s.swept_nets, PACKING)
    return {net: percent_more(ours[net], max(one[net] for one in others)) for net in ours}


def _correlation(s: GreenSweeps) -> RowValue:
    names = (MANUAL, PAIRWISE_N, PACKING, IOU)
    runs = [s.found[s.usual_case(net, name)] for net in s.swept_nets for name in names]
    rates, inputs = [mean_rate(found) for found in runs], [mean_input(found) for found in runs]
    return RowValue(statistics.correlation(rates, inputs), f"{len(runs)} runs")


def _more_even(s: GreenSweeps, value: Value) -> RowValue:
    """By how many percent BIN PACKING and CRAM are at least below every algorithm that is not aware of capacities."""
    ours = [s.values_by_net(value, s.homogeneous, name) for name in (PACKING, IOU)]
    theirs = [s.values_by_net(value, s.homogeneous, name) for name in UNAWARE]
    return least(
        {
            net: percent_less(max(one[net] for one in ours), min(one[net] for one in theirs))
            for net in s.homogeneous
        }
    )


def _count_overloaded(s: GreenSweeps, nets: Sequence[Net]) -> RowValue:
    runs = s.capacity_aware_results(nets, PRINTED)
    over = [f"{case.name}: {found.overloaded}" for case, found in runs.items() if found.overloaded]
    fullest = max(runs, key=lambda case: peak_output(runs[case]))
    return RowValue(
        sum(found.overloaded for found in runs.values()),
        f"in {len(runs)} runs; the fullest broker has {peak_output(runs[fullest]):.1f}%: {fullest.name}"
        + (f". Overloaded: {'; '.join(over)}" if over else ""),
    )


def _none_overloaded(s: GreenSweeps) -> RowValue:
    row = _count_overloaded(s, s.swept_nets)
    for key in ("headroom", "days"):
        curve = over_constant(s, key, IOU, lambda case: s.value_of(overloaded, case))
        row = with_curve(row, key, curve)
    return row


def _saturated(s: GreenSweeps) -> RowValue:
    net = max(s.equal_nets, key=lambda net: net.brokers)
    found = s.found[s.usual_case(net, MANUAL)]
    return RowValue(peak_output(found), f"{found.overloaded} brokers are overloaded")


def _hops_and_delays() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "hops-heterogeneous": lambda s: by_scheme(
            lambda name: best(s.values_by_net(hops, s.heterogeneous, name), ".2f", "")
        ),
        "hops-order": _hops_in_order,
        "longest-path": lambda s: RowValue(longest_path(PRINTED_BROKERS)),
        "delay-pairwise-n": lambda s: best(increases(s, delay, s.homogeneous, PAIRWISE_N, MANUAL)),
        "delay-packing-above-fbf": lambda s: average(
            increases(s, delay, s.homogeneous, PACKING, FBF)
        ),
        "delay-cram-below-packing": lambda s: by_scheme(
            lambda name: average(s.reductions_by_net(delay, s.homogeneous, name, PACKING))
        ),
        "delay-cram-above-manual": lambda s: by_scheme(
            lambda name: average(increases(s, delay, s.homogeneous, name, MANUAL))
        ),
        "delay-automatic": lambda s: _beyond_range(s, AUTOMATIC),
        "delay-pairwise-k": lambda s: _beyond_range(s, PAIRWISE_K),
        "delay-heterogeneous": _smaller_delays,
        "delay-pairwise-n-heterogeneous": lambda s: average(
            increases(s, delay, s.heterogeneous, PAIRWISE_N, MANUAL)
        ),
    }
    return found


def longest_path(brokers: int) -> int:
    """Links of the longest path through MANUAL's tree of so many brokers.

    >>> longest_path(7)
    4
    """
    links: dict[str, list[str]] = {}
    for one, other in make_shape("green", {"brokers": brokers}).links:
        links.setdefault(one, []).append(other)
        links.setdefault(other, []).append(one)

    def farthest_from(start: str) -> tuple[str, int]:
        depths, edge = {start: 0}, [start]
        while edge:
            here = edge.pop()
            for other in links[here]:
                if other not in depths:
                    depths[other] = depths[here] + 1
                    edge.append(other)
        last = max(depths, key=lambda name: depths[name])
        return last, depths[last]

    end, _ = farthest_from(next(iter(links)))
    return farthest_from(end)[1]


def _hops_in_order(s: GreenSweeps) -> RowValue:
    order = (MANUAL, AUTOMATIC, PACKING, IOU)
    found = {name: s.values_by_net(hops, s.homogeneous, name) for name in order}
    return share(
        {
            net: all(found[one][net] > found[other][net] for one, other in pairwise(order))
            for net in s.homogeneous
        },
        "; ".join(f"{name} {list_by_net(values, '.2f', '')}" for name, values in found.items()),
    )


def _beyond_range(s: GreenSweeps, name: str) -> RowValue:
    """By how many percent a delay is above the highest of those that the figure shows."""
    shown = [s.values_by_net(delay, s.homogeneous, n) for n in (MANUAL, PAIRWISE_N, *SORTED, IOU)]
    ours = s.values_by_net(delay, s.homogeneous, name)
    return least({net: percent_more(ours[net], max(one[net] for one in shown)) for net in ours})


def _smaller_delays(s: GreenSweeps) -> RowValue:
    """Of algorithms that the paper does not except: each against the same number of subscribers of a publisher."""
    by_size = [
        sorted(nets, key=lambda net: net.subscriptions) for nets in (s.homogeneous, s.heterogeneous)
    ]
    less = {}
    for equal, mixed in zip(*by_size, strict=True):
        for name in (MANUAL, *SORTED, IOU):
            one, other = (s.value_of(delay, s.usual_case(net, name)) for net in (mixed, equal))
            less[f"{name} {mixed.subscriptions:,}"] = percent_less(one, other)
    worst = min(less, key=lambda key: less[key])
    fewer = sum(percent > 0 for percent in less.values())
    return RowValue(less[worst], f"the least: {worst}; smaller in {fewer} of {len(less)} cases")


# -- §VI-B2: what GRAPE adds ------------------------------------------------------------------------------------


def _grape() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "grape-alone": _grape_alone,
        "rooted-average": lambda s: by_rooted_scheme(lambda name: best(_rooted_saving(s, name))),
        "rooted-maximum": lambda s: by_rooted_scheme(lambda name: farthest(_rooted_peak(s, name))),
        "maximum-homogeneous-above": _maximum_by_kind,
        "grape-input": lambda s: average(_grape_gain(s, mean_input, s.swept_nets, IOU)),
        "grape-output": lambda s: farthest(_grape_gain(s, mean_output, s.swept_nets, IOU)),
        "grape-hops-zero": lambda s: best(s.values_by_net(hops, s.heterogeneous, IOU), ".2f", ""),
    }
    for what, value in (("hops", hops), ("delay", delay)):
        for kind in ("homogeneous", "heterogeneous"):
            found[f"grape-{what}-{kind}"] = partial(_grape_saving, value=value, kind=kind)
    return found


def by_rooted_scheme(measure: Callable[[str], RowValue]) -> RowValue:
    """The same for schemes that are also run with publishers at the root."""
    first, last = measure(IOU), measure(LAST)
    return with_curve(first, "scheme", {"fewest brokers": first.value, "last": last.value})


def _grape_alone(s: GreenSweeps) -> RowValue:
    placed = s.values_with_grape(mean_rate, s.swept_nets)
    plain = s.values_by_net(mean_rate, s.swept_nets, MANUAL)
    return farthest({net: percent_less(placed[net], plain[net]) for net in placed})


def _rooted_saving(s: GreenSweeps, name: str) -> dict[Net, float]:
    rooted = s.values_without_grape(mean_rate, s.homogeneous, name)
    plain = s.values_by_net(mean_rate, s.homogeneous, MANUAL)
    return {net: percent_less(rooted[net], plain[net]) for net in rooted}


def _rooted_peak(s: GreenSweeps, name: str) -> dict[Net, float]:
    rooted = s.values_without_grape(peak_rate, s.swept_nets, name)
    placed = s.values_with_grape(peak_rate, s.swept_nets)
    return {net: percent_more(rooted[net], placed[net]) for net in rooted}


def _grape_gain(s: GreenSweeps, value: Value, nets: Sequence[Net], name: str) -> dict[Net, float]:
    before, after = s.values_without_grape(value, nets, name), s.values_by_net(value, nets, name)
    return {net: percent_less(after[net], before[net]) for net in before}


def _grape_saving(s: GreenSweeps, value: Value, kind: str) -> RowValue:
    nets = s.homogeneous if kind == "homogeneous" else s.heterogeneous
    return by_rooted_scheme(lambda name: average(_grape_gain(s, value, nets, name)))


def _maximum_by_kind(s: GreenSweeps) -> RowValue:
    equal, mixed = (
        s.values_by_net(peak_rate, nets, IOU) for nets in (s.homogeneous, s.heterogeneous)
    )
    return RowValue(
        percent_more(mean(equal.values()), mean(mixed.values())),
        f"{list_by_net(equal, '.1f', ' msg/s')} against {list_by_net(mixed, '.1f', ' msg/s')}",
    )


# -- §VI-B3 and B4: closeness metrics, sorting --------------------------------------------------------------------


def _metrics() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "packing-input-above-fbf": lambda s: average(
            increases(s, mean_input, s.swept_nets, PACKING, FBF)
        ),
        "packing-output-above-fbf": lambda s: average(
            increases(s, mean_output, s.swept_nets, PACKING, FBF)
        ),
        "packing-maximum-above-fbf": lambda s: average(
            increases(s, peak_input, s.swept_nets, PACKING, FBF)
        ),
        "packing-rate-as-fbf": lambda s: farthest(
            increases(s, mean_rate, s.swept_nets, PACKING, FBF)
        ),
        "xor-hops": _xor_hops,
        "xor-clusters-homogeneous": lambda s: average(
            s.reductions_by_net(clusters, s.homogeneous, XOR, IOU)
        ),
        "xor-clusters-heterogeneous": lambda s: average(
            s.reductions_by_net(clusters, s.heterogeneous, XOR, IOU)
        ),
    }
    for id, value in (
        ("xor-rate-average", mean_rate),
        ("xor-rate-maximum", peak_rate),
        ("xor-delay", delay),
    ):
        found[id] = partial(_xor_increase, value=value)
    for id, value in (
        ("metrics-brokers", brokers),
        ("metrics-output", mean_output),
        ("metrics-input", mean_input),
        ("metrics-clusters", clusters),
        ("metrics-time", plan_time),
    ):
        found[id] = partial(_apart, value=value)
    return found


def by_xor_scheme(measure: Callable[[str, str], RowValue]) -> RowValue:
    """XOR against IOU, with the scheme of the fewest brokers, and with the last."""
    found = {scheme: measure(*names) for scheme, names in XOR_SCHEMES.items()}
    first = found["fewest brokers"]
    return with_curve(first, "scheme", {scheme: one.value for scheme, one in found.items()})


def _xor_increase(s: GreenSweeps, value: Value) -> RowValue:
    return by_xor_scheme(lambda one, other: average(increases(s, value, s.swept_nets, one, other)))


def _xor_hops(s: GreenSweeps) -> RowValue:
    def compare(one: str, other: str) -> RowValue:
        ours, theirs = (
            mean(s.values_by_net(hops, s.swept_nets, name).values()) for name in (one, other)
        )
        return RowValue(
            percent_more(ours, theirs) if theirs else math.nan,
            f"on average {ours:.3f} against {theirs:.3f}",
        )

    return by_xor_scheme(compare)


def _apart(s: GreenSweeps, value: Value) -> RowValue:
    """By how many percent INTERSECT, IOS and IOU differ, by network."""
    names = [name for name in METRICS if name != XOR]
    apart = {}
    for net in s.swept_nets:
        values = [s.value_of(value, s.usual_case(net, name)) for name in names]
        apart[net] = percent_more(max(values), min(values))
    return average(apart)


# -- time -----------------------------------------------------------------------------------------------------


def _times() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "time-shortest": _shortest_times,
        "time-cram-longest": _longest_time,
        "time-pairwise-homogeneous": lambda s: average(_pairwise_time(s, s.homogeneous)),
        "time-pairwise-heterogeneous": lambda s: average(_pairwise_time(s, s.heterogeneous)),
        "time-xor-homogeneous": lambda s: average(_xor_time(s, s.homogeneous)),
        "time-xor-heterogeneous": lambda s: average(_xor_time(s, s.heterogeneous)),
        "time-xor": lambda s: least(_xor_time(s, s.swept_nets)),
        "time-bits": lambda s: _grow_with_bits(s, IOU),
        "gifs": _gifs,
        "poset-pruning": _pruning,
        "search-order": _search_order,
        "time-bits-more-with-cram": _bits_more_with_cram,
        "poset-insertions": lambda s: RowValue(poset_seconds(POSET_GROUPS)),
        "poset-insertion-order": _insertion_order,
    }
    for id, name in (
        ("time-automatic", AUTOMATIC),
        ("time-fbf", FBF),
        ("time-packing", PACKING),
        ("time-cram", IOU),
        ("time-pairwise-k", PAIRWISE_K),
        ("time-pairwise-n", PAIRWISE_N),
    ):
        found[id] = partial(_grow_with_subscriptions, name=name)
    return found


def _shortest_times(s: GreenSweeps) -> RowValue:
    quick = [s.values_by_net(plan_time, s.homogeneous, n) for n in (AUTOMATIC, *SORTED)]
    slow = [s.values_by_net(plan_time, s.homogeneous, n) for n in (PAIRWISE_K, PAIRWISE_N, IOU)]
    return least(
        {
            net: percent_less(max(one[net] for one in quick), min(one[net] for one in slow))
            for net in s.homogeneous
        }
    )


def _longest_time(s: GreenSweeps) -> RowValue:
    others = [
        s.values_by_net(plan_time, s.homogeneous, n)
        for n in (AUTOMATIC, *SORTED, PAIRWISE_K, PAIRWISE_N)
    ]
    ours = s.values_by_net(plan_time, s.homogeneous, IOU)
    return least({net: percent_more(ours[net], max(one[net] for one in others)) for net in ours})


def _pairwise_time(s: GreenSweeps, nets: Sequence[Net]) -> dict[Net, float]:
    saved = [s.reductions_by_net(plan_time, nets, n, IOU) for n in (PAIRWISE_K, PAIRWISE_N)]
    return {net: mean(one[net] for one in saved) for net in nets}


def _xor_time(s: GreenSweeps, nets: Sequence[Net]) -> dict[Net, float]:
    """By how many percent XOR takes longer than the others on average."""
    others = [s.values_by_net(plan_time, nets, name) for name in METRICS if name != XOR]
    ours = s.values_by_net(plan_time, nets, XOR)
    return {net: percent_more(ours[net], mean(one[net] for one in others)) for net in nets}


def _grow_with_subscriptions(s: GreenSweeps, name: str) -> RowValue:
    took = s.values_by_net(plan_time, s.homogeneous, name)
    return RowValue(
        growth_exponent([net.subscriptions for net in took], list(took.values())),
        list_by_net(took, ".3f", " s"),
    )


def _grow_with_bits(s: GreenSweeps, name: str) -> RowValue:
    took = {bits: s.value_of(plan_time, case) for bits, case in s.cases_by_bits(name).items()}
    return RowValue(growth_exponent(list(took), list(took.values())), _by_bits(took, ".3f"))


def _gifs(s: GreenSweeps) -> RowValue:
    groups = {net: s.found[s.usual_case(net, IOU)].planning.gifs for net in all_networks(s)}
    return best({net: percent_less(count, net.subscriptions) for net, count in groups.items()})


def _pruning(s: GreenSweeps) -> RowValue:
    """By how many percent the first search computes less than all pairs."""
    found = s.found[s.usual_case(s.at, IOU)].planning
    pairs = found.gifs * (found.gifs - 1) // 2
    return RowValue(
        percent_less(found.first, pairs),
        f"{found.gifs:,} groups: {found.first:,} instead of {pairs:,}",
    )


def _search_order(s: GreenSweeps) -> RowValue:
    """To which power of the logarithm of all groups the computations for one of them grow, in the first search."""
    found = [s.found[s.usual_case(net, IOU)].planning for net in s.homogeneous]
    found.sort(key=lambda one: one.gifs)
    each = {one.gifs: one.first / one.gifs for one in found}
    if len(each) < 2:
        return RowValue(math.nan)
    return RowValue(
        growth_exponent([math.log(gifs) for gifs in each], list(each.values())),
        ", ".join(f"{gifs:,} groups: {count:.1f} each" for gifs, count in each.items()),
    )


def _bits_more_with_cram(s: GreenSweeps) -> RowValue:
    """By how many percent CRAM-IOU takes more seconds longer for longer vectors than BIN PACKING does."""
    longer = {}
    for name in (IOU, PACKING):
        took = {bits: s.value_of(plan_time, case) for bits, case in s.cases_by_bits(name).items()}
        longer[name] = took[max(took)] - took[min(took)]
    note = ", ".join(f"{name}: {seconds:.3f} s more" for name, seconds in longer.items())
    base = max(longer[PACKING], 1e-6)  # it may be nothing
    return RowValue(percent_more(longer[IOU], base), note)


def poset_seconds(count: int) -> float:
    """CPU seconds that it takes to insert so many groups into the poset: thresholds of forty publishers' quotes."""
    bits = 1_280
    profiles = [
        {number % 40: (1 << bits) - (1 << number * 7_919 % (bits - 1))} for number in range(count)
    ]
    groups = [Gif(number, profile) for number, profile in enumerate(profiles)]
    poset = GifPoset("IOU")
    began = time.process_time()
    for gif in groups:
        poset.add(gif)
    return time.process_time() - began


def _insertion_order(s: GreenSweeps) -> RowValue:
    """To which power of the logarithm of all groups the time for one of them grows."""
    counts = (POSET_GROUPS // 8, POSET_GROUPS // 2, POSET_GROUPS)
    each = {count: poset_seconds(count) / count for count in counts}
    note = ", ".join(f"{count:,} groups: {1e6 * took:.0f} µs each" for count, took in each.items())
    return RowValue(
        growth_exponent([math.log(count) for count in counts], list(each.values())), note
    )


# -- §VI-B6 and B5 ----------------------------------------------------------------------------------------------


def _bits() -> dict[str, Measure]:
    return {
        "bits-brokers-cram": lambda s: _from_short_to_long(s, IOU, brokers, is_less=True),
        "bits-brokers-packing": lambda s: _from_short_to_long(s, PACKING, brokers, is_less=True),
        "bits-maximum": lambda s: _from_short_to_long(s, IOU, peak_rate, is_less=True),
        "bits-input": lambda s: _from_short_to_long(s, IOU, mean_input, is_less=False),
        "bits-delay": _delay_of_fewer,
        "bits-allowance-needed": lambda s: RowValue(
            sum(s.value_of(overloaded, case) for case in s.cases_without_allowance()),
            ", ".join(
                f"{case.algorithm}, {case.bits} bits: {s.value_of(overloaded, case):.0f}"
                for case in s.cases_without_allowance()
            ),
        ),
        "bits-overloaded": lambda s: RowValue(
            sum(
                s.value_of(overloaded, case)
                for name in (IOU, PACKING)
                for case in s.cases_by_bits(name).values()
            )
        ),
    }


def _from_short_to_long(s: GreenSweeps, name: str, value: Value, *, is_less: bool) -> RowValue:
    """By how many percent a value changes from the shortest vectors to the longest."""
    found = {bits: s.value_of(value, case) for bits, case in s.cases_by_bits(name).items()}
    short, long = found[min(found)], found[max(found)]
    return RowValue(
        percent_less(long, short) if is_less else percent_more(long, short), _by_bits(found, ".4g")
    )


def _delay_of_fewer(s: GreenSweeps) -> RowValue:
    """How often BIN PACKING's delay rises where longer vectors have saved a broker."""
    runs = [s.found[case] for case in s.cases_by_bits(PACKING).values()]
    steps = [
        two.delay_ms > one.delay_ms for one, two in pairwise(runs) if two.brokers < one.brokers
    ]
    note = ", ".join(f"{found.brokers} brokers: {found.delay_ms:.1f} ms" for found in runs)
    return RowValue(100 * mean(map(float, steps)) if steps else math.nan, note)


def _by_bits(values: Mapping[int, float], digits: str) -> str:
    return ", ".join(f"{bits:,} bits: {value:{digits}}" for bits, value in values.items())


def _related() -> dict[str, Measure]:
    return {
        "overload-automatic": lambda s: _overloads(s, AUTOMATIC, s.swept_nets),
        "overload-pairwise-k": lambda s: _overloads(s, PAIRWISE_K, s.swept_nets),
        "overload-pairwise-n": lambda s: _overloads(
            s, PAIRWISE_N, [net for net in s.heterogeneous if net != _fewest_net(s)]
        ),
        "overload-of-output": _of_output,
        "pairwise-n-fewest": lambda s: RowValue(
            s.value_of(overloaded, s.usual_case(_fewest_net(s), PAIRWISE_N))
        ),
        "pairwise-n-homogeneous": lambda s: best(
            s.values_by_net(overloaded, s.homogeneous, PAIRWISE_N), ".0f", ""
        ),
    }


def _of_output(s: GreenSweeps) -> RowValue:
    """How many percent of the overloaded brokers were to send more than they can."""
    runs = [
        s.found[s.usual_case(net, name)]
        for name in (AUTOMATIC, PAIRWISE_K, PAIRWISE_N)
        for net in s.swept_nets
    ]
    over, output = (sum(getattr(one, what) for one in runs) for what in _OVERLOADS)
    return RowValue(100 * output / over if over else math.nan, f"{output} of {over}")


_OVERLOADS = ("overloaded", "overloaded_output")


def _fewest_net(s: GreenSweeps) -> Net:
    return min(s.heterogeneous, key=lambda net: net.subscriptions)


def _overloads(s: GreenSweeps, name: str, nets: Sequence[Net]) -> RowValue:
    over = s.values_by_net(overloaded, nets, name)
    return share(
        {net: count > 0 for net, count in over.items()},
        f"overloaded: {list_by_net(over, '.0f', '')}",
    )


# -- the live parts ---------------------------------------------------------------------------------------------


def _live() -> dict[str, Measure]:
    return {
        "live-brokers": lambda s: _of_live(
            s,
            lambda _, one: one.brokers - one.offline_brokers,
            lambda _, one: f"{one.brokers} of brokers' answers, {one.offline_brokers} offline",
        ),
        "live-rate": lambda s: _of_live(
            s,
            lambda _, one: percent_more(one.rate, one.offline_rate),
            lambda _, one: (
                f"{one.rate:.2f} msg/s of brokers' answers, {one.offline_rate:.2f} offline"
            ),
        ),
        "live-grape-homes": lambda s: _of_live(
            s,
            lambda _, one: 100 * one.same_homes / one.publishers,
            lambda _, one: f"{one.publishers} publishers, of which {one.moved} left the root",
        ),
        "live-grape-rate": lambda s: _of_live(
            s,
            lambda found, one: percent_more(found.rate.mean * found.brokers, one.rate),
            lambda found, one: (
                f"{found.rate.mean * found.brokers:.2f} msg/s, {one.rate:.2f} planned"
            ),
        ),
        "live-bir": lambda s: _of_live(
            s,
            lambda _, one: one.asking.requests / one.asking.brokers,
            lambda _, one: f"{one.asking.requests} for {one.asking.brokers} brokers",
        ),
        "live-bia": lambda s: _of_live(
            s,
            lambda _, one: 100 * one.asking.bytes / one.asking.written_bytes,
            lambda _, one: (
                f"{one.asking.bytes:,} bytes in {one.asking.answers} messages of "
                f"{one.asking.brokers} brokers, within {one.asking.seconds:.1f} s"
            ),
        ),
        "live-inexact": lambda s: _of_live(
            s,
            lambda found, one: (
                sum(
                    check.lost + check.duplicates + check.stray
                    for check in (found.delivered, one.profiled)
                )
                + (not one.profiled_drained)
            ),
            lambda found, one: f"of {found.delivered.owed + one.profiled.owed:,} owed, in two runs",
        ),
    }


def _of_live(
    s: GreenSweeps,
    value: Callable[[GreenResult, LiveResult], float],
    note: Callable[[GreenResult, LiveResult], str],
) -> RowValue:
    [(found, one)] = [(found, found.live) for found in s.found.values() if found.live]
    return RowValue(float(value(found, one)), note(found, one))


# -- our own ----------------------------------------------------------------------------------------------------


def _ours() -> dict[str, Measure]:
    found: dict[str, Measure] = {
        "ours-predicted-rate": lambda s: _prediction(s, lambda one: 100 * one.rate_error),
        "ours-predicted-output": lambda s: _prediction(s, lambda one: 100 * one.output_error),
        "ours-bytes": _bytes_each,
        "ours-longer-rate": lambda s: _longer(s, mean_rate),
        "ours-longer-output": lambda s: _longer(s, mean_output),
        "ours-busiest": lambda s: RowValue(
            s.value_of(peak_rate, s.usual_case(s.at, MANUAL))
            / (s.at.publishers * RATE_PER_MIN / 60)
        ),
        "ours-undrained": lambda s: RowValue(sum(not one.drained for one in s.found.values())),
    }
    for what in ("lost", "duplicates", "stray"):
        found[f"ours-{what}"] = partial(_delivered, what=what)
    return found


def _prediction(s: GreenSweeps, value: Value) -> RowValue:
    runs = s.capacity_aware_results([*s.swept_nets, *s.large])
    errors = {case: value(found) for case, found in runs.items()}
    worst = max(errors, key=lambda case: errors[case])
    row = RowValue(
        mean(errors.values()), f"{len(errors)} runs; the worst {errors[worst]:.2f}%: {worst.name}"
    )
    return with_curve(
        row, "days", over_constant(s, "days", IOU, lambda case: s.value_of(value, case))
    )


def _bytes_each(s: GreenSweeps) -> RowValue:
    runs = s.capacity_aware_results([*s.swept_nets, *s.large]).values()
    each = [found.bytes_each for found in runs]
    return RowValue(mean(each), f"from {min(each):.1f} to {max(each):.1f}")


def _longer(s: GreenSweeps, value: Value) -> RowValue:
    usual, long = s.usual_case(s.small, IOU), s.longer_case(IOU)
    return RowValue(
        percent_more(s.value_of(value, long), s.value_of(value, usual)),
        f"{long.minutes:g} minutes against {usual.minutes:g}",
    )


def _delivered(s: GreenSweeps, what: str) -> RowValue:
    checks = [one.delivered for one in s.found.values()]
    return RowValue(
        sum(getattr(one, what) for one in checks),
        f"of {sum(one.owed for one in checks):,} owed, in {len(checks)} runs",
    )
