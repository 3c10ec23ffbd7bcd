"""What green claims, beside what came out: the rows of the experiment `green` about brokers, rates and delays.

Rows about metrics, vectors and work are in green_micro.py.

"Up to" is the best over the paper's sweep. A percentage is printed without decimals, so half a point below it is still
it. What the text says without a number (lower, highest, all) is a row with the number by which it is so. Rows that name
CRAM-SPLIT or CRAM-LAST (green_cases.py) set our own algorithms beside the paper's figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from runnel.lab.claims import Claim, at_least, at_most, exactly, near
from runnel.lab.experiments.green_cases import (
    AUTOMATIC,
    FBF,
    IOU,
    LAST,
    MANUAL,
    PACKING,
    PAIRWISE_K,
    PAIRWISE_N,
    RATE_PER_MIN,
    SPLIT,
    Net,
)
from runnel.lab.experiments.green_micro import bits, metrics, work
from runnel.lab.experiments.green_sweeps import (
    Sweeps,
    Value,
    brokers,
    delay,
    hops,
    less,
    listed,
    mean,
    mean_input,
    mean_output,
    mean_rate,
    more,
    overloaded,
    peak_input,
    peak_output,
    peak_rate,
)

ROUNDED = 0.5  # of a percentage that is printed without decimals
ERROR_MAX = 5.0  # percent that predictions may be off, on average: our own aim
OURS = (IOU, LAST, SPLIT)
COPIES = (
    "A copy takes 4 ms of a full broker's output and a link 1 ms, so that here the delay is mostly the time in which "
    "one broker sends its copies one after the other, and what is left over from publications before"
)
MAXIMUM = "maximum message rate falls by up to, heterogeneous"


def claims(sweeps: Sweeps) -> list[Claim]:
    """All rows."""
    return [
        *headlines(sweeps),
        *utilisation(sweeps),
        *predictions(sweeps),
        *delays(sweeps),
        *breakdown(sweeps),
        *metrics(sweeps),
        *related(sweeps),
        *bits(sweeps),
        *work(sweeps),
        *correct(sweeps),
    ]


def _best(saved: dict[Net, float]) -> float:
    return max(saved.values())


def _up_to(
    what: str, saved: dict[Net, float], printed: float, source: str, note: str = ""
) -> Claim:
    """The best over networks against what is printed."""
    return at_least(
        what, _best(saved), printed - ROUNDED, paper=printed, unit="%", source=source
    ).with_note("; ".join(part for part in (listed(saved), note) if part))


def headlines(sweeps: Sweeps) -> Iterable[Claim]:
    """What the abstract and the conclusions say."""
    every = [*sweeps.equal, *sweeps.heterogeneous]
    rows: list[tuple[str, Value, Sequence[Net], float, str]] = [
        ("brokers fall by up to, homogeneous", brokers, sweeps.equal, 91, "Fig. 5b"),
        ("brokers fall by up to, heterogeneous", brokers, sweeps.heterogeneous, 80, "Fig. 5a"),
        ("average message rate falls by up to", mean_rate, every, 92, "abstract, Fig. 5d"),
        (MAXIMUM, peak_rate, sweeps.heterogeneous, 85, "§VI-B2, Fig. 6a"),
    ]
    for what, value, nets, printed, source in rows:
        for name in OURS:
            # The base is as strong as MANUAL is saturated: brokers that do nothing count in its average too.
            saved = sweeps.saved(value, nets, name)
            row = _up_to(
                f"{name}: {what}", saved, printed, f"green {source}", _fewest(sweeps, name)
            )
            if value is brokers:  # the head-room was chosen knowing what it costs here
                row = row.with_note(row.note, calibrated=True)
            yield row
    for name in OURS:
        yield _up_to(
            f"{name}: fewer brokers than BIN PACKING, up to",
            sweeps.saved(brokers, every, name, PACKING),
            *(47, "green §VI-B1"),
        )
    yield _one_fewer(sweeps, every)
    yield _less_than_half(sweeps, every)
    total = sweeps.at.publishers * RATE_PER_MIN / 60
    yield near(
        "MANUAL: the broker with the most sinks all publications",
        *(sweeps.get(peak_rate, sweeps.case(sweeps.at, MANUAL)), total),
        percent=1,
        unit="msg/s",
        source="green Fig. 5c, the dotted line",
    )
    sunk = sweeps.over(mean_rate, sweeps.swept, PACKING)
    yield at_least(
        "BIN PACKING: brokers sink almost all publications, on average",
        *(100 * mean(sunk.values()) / total, 90.0),
        paper="almost all",
        unit="%",
        source="green §VI-B1",
    ).with_note(listed(sunk, ".1f", " msg/s"))


def _fewest(sweeps: Sweeps, name: str) -> str:
    """What a scheme with the fewest brokers costs in rate, and the other way round."""
    net = sweeps.large[0] if sweeps.large else sweeps.at
    found = sweeps.found[sweeps.case(net, name)]
    return (
        f"on {net.brokers:,} brokers it uses {found.brokers} at {found.rate.mean:.1f} msg/s each, "
        f"MANUAL {sweeps.get(mean_rate, sweeps.case(net, MANUAL)):.1f}"
    )


def _one_fewer(sweeps: Sweeps, nets: Sequence[Net]) -> Claim:
    sorted_, first = (sweeps.over(brokers, nets, name) for name in (PACKING, FBF))
    fewer = {net: first[net] - sorted_[net] for net in nets}
    return exactly(
        f"BIN PACKING allocates one broker fewer than FBF; so many of {len(nets)} networks",
        *(sum(count == 1 for count in fewer.values()), len(nets)),
        paper="always one",
        source="green §VI-B1",
    ).with_note(
        f"fewer by: {listed(fewer, '.0f', '')}. FBF is first fit in an order by lot: how many brokers that takes "
        "hangs on the lot, and on what the overlay needs on top"
    )


def _less_than_half(sweeps: Sweeps, nets: Sequence[Net]) -> Claim:
    shares = {
        case: 100 * found.brokers / case.net.brokers for case, found in sweeps.aware(nets).items()
    }
    most = max(shares, key=lambda case: shares[case])
    return at_most(
        "algorithms that know capacities: the most brokers that one allocates",
        *(shares[most], 50.0),
        paper="less than half",
        unit="%",
        source="green §VI-B1",
    ).with_note(most.name)


def utilisation(sweeps: Sweeps) -> Iterable[Claim]:
    """How full brokers are, and whether any is too full."""
    every = [*sweeps.equal, *sweeps.heterogeneous]
    for name in (PACKING, *OURS):
        used = sweeps.over(mean_output, every, name)
        yield near(
            f"{name}: output utilisation of allocated brokers",
            *(mean(used.values()), 80.0),
            absolute=10.0,
            unit="%",
            source="green §VI-B1, Fig. 5f",
        ).with_note(
            f"percentage points; {listed(used, '.0f')}. Predictions are nearly exact here, so brokers can be filled "
            "up to the head-room; where they must allow for more, less is used (figure: head-room)"
        )
    for nets, calibrated in ((sweeps.swept, True), (sweeps.large, False)):
        yield _none_overloaded(sweeps, nets, calibrated)
    yield _saturated(sweeps)
    yield from _inputs(sweeps)
    lower = sweeps.saved(mean_output, sweeps.homogeneous, PAIRWISE_N)
    yield at_least(
        "PAIRWISE-N: output utilisation below MANUAL's, homogeneous",
        *(min(lower.values()), 0.0),
        paper="lower",
        unit="%",
        source="green Fig. 5f",
    ).with_note(listed(lower))


def _none_overloaded(sweeps: Sweeps, nets: Sequence[Net], calibrated: bool) -> Claim:
    runs = sweeps.aware(nets)
    over = [case.name for case, found in runs.items() if found.overloaded]
    sizes = " and ".join(f"{size:,}" for size in sorted({net.brokers for net in nets}))
    fullest = max(runs, key=lambda case: peak_output(runs[case]))
    return exactly(
        f"FBF, BIN PACKING, CRAM on {sizes} brokers: overloaded brokers when the plan is run",
        *(sum(found.overloaded for found in runs.values()), 0),
        paper=0,
        source="green §VI-B1",
    ).with_note(
        f"in {len(runs)} runs; the fullest broker has {peak_output(runs[fullest]):.1f}%: {fullest.name}"
        + (". The head-room was chosen by this" if calibrated else "")
        + (f". Overloaded: {'; '.join(over)}" if over else ""),
        calibrated=calibrated,
    )


def _saturated(sweeps: Sweeps) -> Claim:
    net = max(sweeps.equal, key=lambda net: net.brokers)
    found = sweeps.found[sweeps.case(net, MANUAL)]
    return near(
        "MANUAL on the largest network: output utilisation of the fullest broker",
        *(peak_output(found), 100.0),
        absolute=5.0,
        unit="%",
        source="green §VI-A, saturated",
    ).with_note(
        f"percentage points; {found.overloaded} brokers are overloaded. The capacity was chosen by this",
        calibrated=True,
    )


def _inputs(sweeps: Sweeps) -> Iterable[Claim]:
    """Input utilisation follows the message rate."""
    for what, value in (("average", mean_input), ("maximum", peak_input)):
        lead = {
            net: sweeps.get(value, sweeps.case(net, PACKING))
            / max(sweeps.get(value, sweeps.case(net, n)) for n in (MANUAL, PAIRWISE_N, IOU))
            for net in sweeps.swept
        }
        yield at_least(
            f"BIN PACKING has the highest {what} input utilisation; at least so many times that of others",
            *(min(lead.values()), 1.0),
            paper="highest",
            source="green Fig. 5e",
        ).with_note(f"against MANUAL, PAIRWISE-N and CRAM-IOU: {listed(lead, '.2f', '')}")
    above = {
        net: -percent
        for net, percent in sweeps.saved(mean_input, sweeps.swept, IOU, PAIRWISE_N).items()
    }
    yield at_least(
        "CRAM-IOU: average input utilisation above PAIRWISE-N's",
        *(min(above.values()), 0.0),
        paper="higher",
        unit="%",
        source="green Fig. 5e",
    ).with_note(listed(above, ".0f"))


def predictions(sweeps: Sweeps) -> Iterable[Claim]:
    """What the planner expects of brokers, against what they had to do."""
    runs = sweeps.aware([*sweeps.swept, *sweeps.large])
    for what, errors in (
        ("message rate", {case: 100 * found.rate_error for case, found in runs.items()}),
        ("output", {case: 100 * found.output_error for case, found in runs.items()}),
    ):
        worst = max(errors, key=lambda case: errors[case])
        yield at_most(
            f"prediction of a broker's {what} is off by, on average",
            *(mean(errors.values()), ERROR_MAX),
            unit="%",
        ).with_note(f"{len(errors)} runs; the worst {errors[worst]:.2f}%: {worst.name}")
    each = [found.bytes_each for found in runs.values()]
    yield near(
        "bytes that leave a broker for each publication, against what the capacity reckons with",
        *(mean(each), 244.0),
        percent=1,
        unit="bytes",
    ).with_note(
        f"from {min(each):.1f} to {max(each):.1f}; a frame has 243 or 244 bytes, acknowledgements add up to one"
    )
    usual, long = sweeps.case(sweeps.small, IOU), sweeps.long(IOU)
    for what, value in (("average message rate", mean_rate), ("output utilisation", mean_output)):
        yield near(
            f"CRAM-IOU: {what} over {long.minutes:g} minutes against {usual.minutes:g}",
            *(more(sweeps.get(value, long), sweeps.get(value, usual)), 0.0),
            absolute=1.0,
            unit="%",
        ).with_note(
            "percentage points; publishers repeat their quotes, so longer windows see the same"
        )


def delays(sweeps: Sweeps) -> Iterable[Claim]:
    """Hops and delays."""
    far = sweeps.over(hops, sweeps.heterogeneous, IOU)
    yield at_most(
        "CRAM-IOU: hops, heterogeneous, the most of all workloads",
        *(max(far.values()), 0.05),
        paper=0,
        source="green §VI-B1, Fig. 5g",
    ).with_note(listed(far, ".2f", ""))
    order = (MANUAL, AUTOMATIC, PACKING, IOU)
    found = {name: sweeps.over(hops, sweeps.homogeneous, name) for name in order}
    kept = sum(
        all(found[one][net] > found[other][net] for one, other in pairwise(order))
        for net in sweeps.homogeneous
    )
    yield exactly(
        f"hops fall from MANUAL to AUTOMATIC to BIN PACKING to CRAM-IOU; workloads of {len(sweeps.homogeneous)}",
        *(kept, len(sweeps.homogeneous)),
        paper="all",
        source="green Fig. 5g",
    ).with_note("; ".join(f"{name} {listed(values, '.2f', '')}" for name, values in found.items()))
    later = {
        net: -percent
        for net, percent in sweeps.saved(delay, sweeps.homogeneous, PAIRWISE_N).items()
    }
    yield near(
        "PAIRWISE-N: delay above MANUAL's, up to, homogeneous",
        *(_best(later), 56.0),
        absolute=20.0,
        unit="%",
        source="green §VI-B1, Fig. 5h",
    ).with_note(f"percentage points; {listed(later, '.0f')}. {COPIES}")
    for one, other, what in (
        (FBF, PACKING, "FBF's delay below BIN PACKING's"),
        (IOU, PACKING, "CRAM-IOU's delay below BIN PACKING's"),
    ):
        below = sweeps.saved(delay, sweeps.homogeneous, one, other)
        yield at_least(
            f"{what}, on average, homogeneous",
            *(mean(below.values()), 0.0),
            paper="below",
            unit="%",
            source="green §VI-B1",
        ).with_note(f"{listed(below, '.0f')}. {COPIES}")


def breakdown(sweeps: Sweeps) -> Iterable[Claim]:
    """What placing publishers is worth, with clustered subscriptions and without."""
    source = "green §VI-B2"
    placed = sweeps.with_grape(mean_rate, sweeps.swept)
    plain = sweeps.over(mean_rate, sweeps.swept, MANUAL)
    saved = {net: less(placed[net], plain[net]) for net in placed}
    yield near(
        "MANUAL + GRAPE: average message rate against MANUAL",
        *(-mean(saved.values()), 0.0),
        absolute=5.0,
        unit="%",
        source=f"{source}, Fig. 6a",
    ).with_note(f"percentage points; less by: {listed(saved)}")
    for name in (IOU, LAST):
        yield from _grape_after(sweeps, name, plain)


def _grape_after(sweeps: Sweeps, name: str, plain: dict[Net, float]) -> Iterable[Claim]:
    """What is left for GRAPE once subscriptions are clustered. `plain`: the rate of MANUAL."""
    source = "green §VI-B2"
    rooted = sweeps.without_grape(mean_rate, sweeps.homogeneous, name)
    yield _up_to(
        f"{name} without GRAPE: average message rate falls by up to, homogeneous",
        {net: less(rooted[net], plain[net]) for net in rooted},
        *(90, f"{source}, Fig. 6a"),
    )
    most = sweeps.without_grape(peak_rate, sweeps.swept, name)
    base = sweeps.with_grape(peak_rate, sweeps.swept)
    yield near(
        f"{name} without GRAPE: maximum message rate against MANUAL + GRAPE",
        *(mean(more(most[net], base[net]) for net in most), 0.0),
        absolute=5.0,
        unit="%",
        source=source,
    ).with_note("percentage points; publishers at the root bring everything there")
    kinds = (("homogeneous", sweeps.homogeneous), ("heterogeneous", sweeps.heterogeneous))
    for value, what, printed in ((hops, "hops", (40.0, 40.0)), (delay, "delay", (16.0, 24.0))):
        for (kind, nets), percent in zip(kinds, printed, strict=True):
            before, after = sweeps.without_grape(value, nets, name), sweeps.over(value, nets, name)
            gained = {net: less(after[net], before[net]) for net in nets}
            yield near(
                f"GRAPE after {name}, {kind}: {what}, less on average by",
                *(mean(gained.values()), percent),
                absolute=15.0,
                unit="%",
                source=f"{source}, Fig. 6b",
            ).with_note(
                f"percentage points; {listed(gained, '.0f')}. Ours places a publisher only where no broker becomes "
                "overloaded: on brokers that are all full nobody moves, on others hops fall to none"
            )
    rooted = sweeps.without_grape(mean_output, sweeps.swept, name)
    same = sweeps.over(mean_output, sweeps.swept, name)
    yield near(
        f"GRAPE after {name}: output utilisation changes by",
        *(mean(same[net] - rooted[net] for net in same), 0.0),
        absolute=5.0,
        unit="%",
        source=source,
    ).with_note("percentage points, on average over all workloads")


def related(sweeps: Sweeps) -> Iterable[Claim]:
    """Who overloads brokers, and when."""
    source = "green §VI-B5, Fig. 6f"
    for name in (AUTOMATIC, PAIRWISE_K):
        over = sweeps.over(overloaded, sweeps.swept, name)
        yield exactly(
            f"{name} overloads brokers; workloads of {len(over)}",
            *(sum(count > 0 for count in over.values()), len(over)),
            paper="all",
            source=source,
        ).with_note(
            f"overloaded: {listed(over, '.0f', '')}; output of the fullest: "
            f"{listed(sweeps.over(peak_output, sweeps.swept, name), '.0f')}"
        )
    over = sweeps.over(overloaded, sweeps.homogeneous, PAIRWISE_N)
    yield exactly(
        "PAIRWISE-N: overloaded brokers, homogeneous",
        *(sum(over.values()), 0),
        paper=0,
        source="green §VI-B1",
    )
    over = sweeps.over(overloaded, sweeps.heterogeneous, PAIRWISE_N)
    fewest = min(over, key=lambda net: net.subscriptions)
    beyond = [count > 0 for net, count in over.items() if net != fewest]
    yield exactly(
        f"PAIRWISE-N overloads brokers, heterogeneous beyond {fewest.subscriptions:,}; workloads of {len(beyond)}",
        *(sum(beyond), len(beyond)),
        paper="all",
        source=source,
    ).with_note(f"overloaded: {listed(over, '.0f', '')}")
    yield exactly(
        f"PAIRWISE-N: overloaded brokers, heterogeneous at {fewest.subscriptions:,}",
        *(over[fewest], 0),
        paper=0,
        source=source,
    )
    for value, what in ((mean_rate, "average"), (peak_rate, "maximum")):
        lower = sweeps.saved(value, sweeps.swept, PAIRWISE_N)
        yield at_least(
            f"PAIRWISE-N: {what} message rate below MANUAL's by at least",
            *(min(lower.values()), 0.0),
            paper="significantly",
            unit="%",
            source="green §VI-B1",
        ).with_note(listed(lower, ".0f"))


def correct(sweeps: Sweeps) -> Iterable[Claim]:
    """Whatever the plan: everybody gets what they are owed, once."""
    every = list(sweeps.found.values())
    found = [one.delivered for one in every]
    checked = f"of {sum(one.owed for one in found):,} owed, in {len(found)} runs"
    yield exactly("deliveries lost", sum(one.lost for one in found), 0).with_note(checked)
    yield exactly("deliveries made twice", sum(one.duplicates for one in found), 0)
    yield exactly("deliveries to who did not ask for them", sum(one.stray for one in found), 0)
    yield exactly("runs that did not drain", sum(not one.drained for one in every), 0)
