"""What green claims of closeness metrics, of the length of bit vectors and of the planner's work.

What takes how long is told in timings.json; rows count computations of closeness, which are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runnel.lab.claims import Claim, at_least, at_most, near
from runnel.lab.experiments.green_cases import IOU, LAST, LAST_XOR, METRICS, PACKING, XOR, Net
from runnel.lab.experiments.green_sweeps import (
    Sweeps,
    Value,
    brokers,
    clusters,
    computed,
    delay,
    exponent,
    hops,
    less,
    listed,
    mean,
    mean_input,
    mean_output,
    mean_rate,
    more,
    peak_rate,
)

SECONDS = "how long it took is in timings.json"


def metrics(sweeps: Sweeps) -> Iterable[Claim]:
    """XOR against IOU, and the other three, which are alike."""
    source = "green §VI-B3, Figs. 6c to 6e"
    for one, other in ((XOR, IOU), (LAST_XOR, LAST)):
        for what, value, printed, within in (
            ("average message rate", mean_rate, 55.0, 20.0),
            ("maximum message rate", peak_rate, 93.0, 30.0),
            ("delay", delay, 18.0, 15.0),
        ):
            above = _above(sweeps, value, sweeps.swept, one, other)
            yield near(
                f"{one}: {what} above {other}'s, on average",
                *(mean(above.values()), printed),
                absolute=within,
                unit="%",
                source=source,
            ).with_note(f"percentage points; {listed(above, '.0f')}")
        far = {name: mean(sweeps.over(hops, sweeps.swept, name).values()) for name in (one, other)}
        yield near(
            f"{one}: hops above {other}'s",
            *(more(far[one], far[other]), 2_200.0),
            percent=50,
            unit="%",
            source=source,
        ).with_note(f"on average {far[one]:.3f} against {far[other]:.3f}")
    for kind, nets, printed in (
        ("homogeneous", sweeps.homogeneous, 74.0),
        ("heterogeneous", sweeps.heterogeneous, 41.0),
    ):
        fewer = sweeps.saved(clusters, nets, XOR, IOU)
        yield near(
            f"CRAM-XOR: clusters fewer than CRAM-IOU's, on average, {kind}",
            *(mean(fewer.values()), printed),
            absolute=15.0,
            unit="%",
            source=source,
        ).with_note(f"percentage points; {listed(fewer, '.0f')}")
    for kind, nets, printed in (
        ("homogeneous", sweeps.homogeneous, 105.0),
        ("heterogeneous", sweeps.heterogeneous, 75.0),
    ):
        above = _above(sweeps, computed, nets, XOR, IOU)
        yield at_least(
            f"CRAM-XOR: computations of closeness above CRAM-IOU's, on average, {kind}",
            *(mean(above.values()), printed),
            paper=f"time +{printed:g}%",
            unit="%",
            source=source,
        ).with_note(f"XOR has nothing to prune; {SECONDS}")
    yield from _alike(sweeps)


def _above(
    sweeps: Sweeps, value: Value, nets: Sequence[Net], one: str, other: str
) -> dict[Net, float]:
    return {net: -percent for net, percent in sweeps.saved(value, nets, one, other).items()}


def _alike(sweeps: Sweeps) -> Iterable[Claim]:
    """INTERSECT, IOS and IOU show almost no differences."""
    names = [name for name in METRICS if name != XOR]
    for what, value, within in (
        ("allocated brokers", brokers, 5.0),
        ("output utilisation", mean_output, 5.0),
        ("input utilisation", mean_input, 10.0),
        ("clusters", clusters, 10.0),
        ("computations of closeness", computed, 25.0),
    ):
        apart = {}
        for net in sweeps.swept:
            values = [sweeps.get(value, sweeps.case(net, name)) for name in names]
            apart[net] = more(max(values), min(values))
        yield at_most(
            f"INTERSECT, IOS and IOU: {what} differ by, on average",
            *(mean(apart.values()), within),
            paper="almost none",
            unit="%",
            source="green §VI-B3",
        ).with_note(listed(apart))


def bits(sweeps: Sweeps) -> Iterable[Claim]:
    """Longer vectors know more."""
    source = "green §VI-B6, Figs. 6g to 6i"
    for name in (IOU, PACKING):
        runs = sweeps.bits(name)
        count = {length: sweeps.get(brokers, case) for length, case in runs.items()}
        short, long = min(runs), max(runs)
        over = {length: sweeps.found[case].overloaded for length, case in runs.items()}
        error = {length: 100 * sweeps.found[case].output_error for length, case in runs.items()}
        yield at_most(
            f"{name}: brokers with {long:,} bits, below those with {short}",
            *(count[long] - count[short], -1),
            paper="fewer",
            source=source,
        ).with_note(
            f"by bits {_by(count, '.0f')}; of these overloaded {_by(over, '.0f')}; output predicted too high or too "
            f"low by {_by(error, '.1f')} %"
        )
    runs = sweeps.bits(IOU)
    short, long = min(runs), max(runs)
    peaks = {length: sweeps.get(peak_rate, case) for length, case in runs.items()}
    yield at_most(
        f"CRAM-IOU: maximum message rate with {long:,} bits against {short}",
        *(more(peaks[long], peaks[short]), 0.0),
        paper="decreases",
        unit="%",
        source=source,
    ).with_note(f"msg/s by bits {_by(peaks, '.1f')}")
    used = {length: sweeps.get(mean_input, case) for length, case in runs.items()}
    yield at_least(
        f"CRAM-IOU: average input utilisation with {long:,} bits against {short}",
        *(more(used[long], used[short]), 0.0),
        paper="increases",
        unit="%",
        source=source,
    ).with_note(f"percent by bits {_by(used, '.2f')}")
    # Every computation goes through both vectors from end to end.
    effort = {
        length: sweeps.found[case].planning.computed * length for length, case in runs.items()
    }
    slope = exponent(list(effort), list(effort.values()))
    yield near(
        "CRAM-IOU: bits that are compared grow with the length of vectors to the power",
        *(slope, 1.0),
        absolute=0.25,
        source=source,
    ).with_note(f"the paper's is its time; {SECONDS}")


def _by(values: dict[int, float] | dict[int, int], digits: str) -> str:
    return ", ".join(f"{length:,}: {value:{digits}}" for length, value in values.items())


def work(sweeps: Sweeps) -> Iterable[Claim]:
    """What planning takes, in computations of closeness."""
    nets = [*sweeps.homogeneous]
    for name in (IOU, XOR):
        done = sweeps.over(computed, nets, name)
        yield near(
            f"{name}: computations of closeness grow with subscriptions to the power",
            *(exponent([net.subscriptions for net in nets], list(done.values())), 2.0),
            absolute=0.25,
            source="green §VI-B1, Fig. 5i",
        ).with_note(
            f"the paper's is its time; {listed(done, ',.0f', '')}; {SECONDS}. Groups that share no publisher are not "
            "even compared, and of the others the poset leaves out most"
            if name == IOU
            else f"the paper's is its time; {listed(done, ',.0f', '')}; {SECONDS}"
        )
    every = [*sweeps.equal, *sweeps.heterogeneous]
    gifs = {net: sweeps.found[sweeps.case(net, IOU)].planning.gifs for net in every}
    cut = {net: less(count, net.subscriptions) for net, count in gifs.items()}
    short = {
        length: less(sweeps.found[case].planning.gifs, case.net.subscriptions)
        for length, case in sweeps.bits(IOU).items()
    }
    yield at_least(
        "groups of identical subscriptions cut their number by up to",
        *(max(cut.values()), 60.5),
        paper=61,
        unit="%",
        source="green §IV-C1",
    ).with_note(
        f"{listed(cut)}; by bits on {sweeps.at.subscriptions:,}: {_by(short, '.1f')}. There are as many groups as "
        "different vectors: 40% of a publisher's subscriptions make one, the others as many as there are thresholds "
        "that a quote can tell apart"
    )
    pruned = {
        net: less(sweeps.found[sweeps.case(net, IOU)].planning.first, count * (count - 1) / 2)
        for net, count in gifs.items()
    }
    net = sweeps.at
    first = sweeps.found[sweeps.case(net, IOU)].planning.first
    yield at_least(
        "poset pruning cuts the computations to find everybody's first partner by",
        *(pruned[net], 94.4),
        paper=94.4,
        unit="%",
        source="green §IV-C2",
    ).with_note(
        f"{gifs[net]:,} groups: {first:,} instead of {gifs[net] * (gifs[net] - 1) // 2:,}; the paper: 3,200 groups, "
        "280,000 instead of 5,000,000"
    )
