"""What placement claims, beside what came out: the rows of the experiment `placement`.

"Up to" is the best over the sweep. A claim about every X leaves out X = 1, where all do the same. What the text
says without a number (lowest, between, exceeds) is a row with the number by which it is so.
"""

from __future__ import annotations

from collections.abc import Iterable

from runnel.lab.claims import Claim, at_least, at_most, exactly, near
from runnel.lab.experiments.placement_cases import (
    ALGORITHMS,
    CLUSTER,
    DELAY,
    GRAPE,
    LOAD,
    POP,
    STATIC,
    WIDE,
    Case,
    Model,
)
from runnel.lab.experiments.placement_sweeps import (
    Sweeps,
    Value,
    delay,
    hops,
    message_rate,
    overhead,
    publication_rate,
    utilisation,
)

SELECTION_MS_MAX = 70.0
VISIBLE = 1.0  # percent: of two that differ by less, none is higher or lower
UP_TO: tuple[tuple[str, Value, dict[str, float]], ...] = (
    ("average broker message rate", message_rate, {POP: 85, LOAD: 85}),
    ("average input utilisation", utilisation, {POP: 64, LOAD: 68}),
    ("average delivery delay", delay, {POP: 63, DELAY: 68}),
)


def claims(sweeps: Sweeps, is_fast: bool) -> list[Claim]:
    """All rows."""
    return [
        *headlines(sweeps),
        *enterprise(sweeps),
        *random(sweeps),
        *weights(sweeps),
        *thresholds(sweeps),
        *costs(sweeps, is_fast),
        *correct(sweeps),
    ]


def headlines(sweeps: Sweeps) -> Iterable[Claim]:
    """What the abstract says: enterprise workload, wide area."""
    for what, value, printed in UP_TO:
        for algorithm, percent in printed.items():
            saved = sweeps.saved(value, WIDE, "enterprise", algorithm)
            best = max(saved, key=lambda x: saved[x])
            yield at_least(
                f"{algorithm}: {what} falls by up to",
                *(saved[best], percent),
                paper=percent,
                unit="%",
                source="placement, abstract and §V-B1",
            ).with_note(f"at X = {best}; at X = {sweeps.at}: {saved[sweeps.at]:.1f}%")


def enterprise(sweeps: Sweeps) -> Iterable[Claim]:
    """Who is better at what; both latency models."""
    for model in (WIDE, CLUSTER):
        yield _lowest_rate(sweeps, model)
        yield _lowest_delay(sweeps, model)
        yield _between(sweeps, model, "input utilisation", utilisation)
        yield _between(sweeps, model, "delay", delay)
        yield _between(sweeps, model, "hops", hops)
        yield _above_grape(sweeps, model)
    yield _same_broker(sweeps)
    yield _slower_than_static(sweeps)
    for what, value, printed in (UP_TO[0], UP_TO[2]):
        for algorithm in printed:
            yield _fan_out(sweeps, what, value, algorithm)


def _beyond_one(values: dict[int, float]) -> dict[int, float]:
    return {x: value for x, value in values.items() if x > 1}


def _lowest_rate(sweeps: Sweeps, model: Model) -> Claim:
    mine = _beyond_one(sweeps.over_x(message_rate, model, "enterprise", LOAD))
    above = {
        (x, other): 100 * (rate / mine[x] - 1)
        for other in ALGORITHMS
        if other != LOAD
        for x, rate in sweeps.over_x(message_rate, model, "enterprise", other).items()
        if x in mine
    }
    least = min(above, key=lambda key: above[key])
    return at_least(
        f"{model.name}: `load 100%` has the lowest message rate; any other is above it by",
        *(above[least], VISIBLE),
        paper="lowest",
        unit="%",
        source="placement Figs. 5a, 5d",
    ).with_note(f"the least of all X beyond 1: {least[1]} at X = {least[0]}")


def _lowest_delay(sweeps: Sweeps, model: Model) -> Claim:
    values = {
        name: _beyond_one(sweeps.over_x(delay, model, "enterprise", name)) for name in ALGORITHMS
    }
    lost = {
        x: 100 * (mine / min(other[x] for other in values.values()) - 1)
        for x, mine in values[DELAY].items()
    }
    won = sum(percent <= VISIBLE for percent in lost.values())
    worst = max(lost, key=lambda x: lost[x])
    return at_least(
        f"{model.name}: `delay 100%` has the lowest delay; so many of {len(lost)} values of X",
        *(won, len(lost) - 1),
        paper="almost all",
        source="placement Figs. 5c, 5f",
    ).with_note(f"within 1%; the worst is X = {worst}, {lost[worst]:.1f}% above the lowest")


def _between(sweeps: Sweeps, model: Model, what: str, value: Value) -> Claim:
    means = {}
    for name in (LOAD, POP, DELAY):
        values = _beyond_one(sweeps.over_x(value, model, "enterprise", name))
        means[name] = sum(values.values()) / len(values)
    span = means[DELAY] - means[LOAD]
    place = 100 * (means[POP] - means[LOAD]) / span if span else 0.0
    return near(
        f"{model.name}: POP's {what} lies between `load 100%` (0) and `delay 100%` (100)",
        *(place, 50.0),
        absolute=50.0,
        unit="%",
        source="placement §V-B1",
    ).with_note(
        "averages over all X beyond 1: "
        + ", ".join(f"{name} {mean:.4g}" for name, mean in means.items())
    )


def _above_grape(sweeps: Sweeps, model: Model) -> Claim:
    rates = {name: sweeps.over_x(message_rate, model, "enterprise", name) for name in (POP, *GRAPE)}
    above = {
        (x, name): 100 * (rates[POP][x] / rates[name][x] - 1)
        for name in GRAPE
        for x in _beyond_one(rates[POP])
    }
    least = min(above, key=lambda key: above[key])
    beaten = {
        name: sum(above[x, other] > 0 for x, other in above if other == name) for name in GRAPE
    }
    plain = [
        sweeps.get(publication_rate, Case(model, "enterprise", least[0], name))
        for name in (POP, least[1])
    ]
    return at_least(
        f"{model.name}: POP's message rate exceeds GRAPE's by",
        *(above[least], VISIBLE),
        paper="exceeds",
        unit="%",
        source="placement Figs. 5a, 5d",
    ).with_note(
        f"the least of all X beyond 1: {least[1]} at X = {least[0]}, where publications alone are {plain[0]:.2f} msg/s "
        f"with POP and {plain[1]:.2f} with it; of {len(above) // 2} values of X, "
        + " and ".join(f"{count} are above {name}" for name, count in beaten.items())
    )


def _same_broker(sweeps: Sweeps) -> Claim:
    differ = 0
    for model in (WIDE, CLUSTER):
        found = [sweeps.found[Case(model, "enterprise", 1, name)].places for name in (POP, *GRAPE)]
        differ += sum(len({places[name] for places in found}) > 1 for name in found[0])
    return exactly(
        "X = 1: publishers for whom POP and GRAPE choose different brokers",
        *(differ, 0),
        paper=0,
        source="placement §V-B1",
    )


def _slower_than_static(sweeps: Sweeps) -> Claim:
    saved = sweeps.saved(delay, CLUSTER, "enterprise", LOAD)
    worst = min(saved, key=lambda x: saved[x])
    passed = [sweeps.get(hops, Case(CLUSTER, "enterprise", worst, name)) for name in (STATIC, LOAD)]
    return at_least(
        "cluster: delay of `load 100%` above static's, at the worst X",
        *(-saved[worst], VISIBLE),
        paper="higher than static",
        unit="%",
        source="placement Fig. 5f",
    ).with_note(
        f"at X = {worst}. From the broker of the high-rated subscribers the others are as far as from any broker, and "
        f"the high-rated no way at all: hops fall from {passed[0]:.2f} to {passed[1]:.2f}, and every hop takes as long "
        "here. The paper suspects its cluster's larger number of subscribers"
    )


def _fan_out(sweeps: Sweeps, what: str, value: Value, algorithm: str) -> Claim:
    wide, narrow = (
        sweeps.saved(value, WIDE, "enterprise", algorithm, fan_out) for fan_out in (2, 4)
    )
    same = [x for x in wide if x in narrow]
    more = {x: narrow[x] - wide[x] for x in same}
    mean = sum(more.values()) / len(more)
    return at_most(
        f"{algorithm}: reduction of {what}, fan-out 4 against 2",
        *(mean, 0.0),
        paper="decreases",
        unit="%",
        source="placement §V-B1",
    ).with_note(
        "percentage points, average over "
        + ", ".join(f"X = {x} ({wide[x]:.1f} → {narrow[x]:.1f})" for x in same)
    )


def random(sweeps: Sweeps) -> Iterable[Claim]:
    """The random workload: there is little to gain, and POP's traces cost most."""
    source = "placement §V-B2"
    for model in (WIDE, CLUSTER):
        rate = {
            name: sweeps.get(message_rate, sweeps.middle(model, "random", name))
            for name in ALGORITHMS
        }
        for name in GRAPE:
            yield near(
                f"random, {model.name}: GRAPE's message rate against static, {name}",
                *(100 * (rate[name] / rate[STATIC] - 1), 0.0),
                absolute=10.0,
                unit="%",
                source=source,
            ).with_note(
                "percentage points; what is saved is the way from the publisher to its subscribers' brokers. "
                + _by_x(sweeps.saved(message_rate, model, "random", name))
            )
        yield near(
            f"random, {model.name}: POP's message rate above GRAPE's",
            *(100 * (rate[POP] / rate[LOAD] - 1), 50.0),
            absolute=15.0,
            unit="%",
            source=source,
        ).with_note("percentage points; `load 100%`")
    yield _pop_is_fastest(sweeps)
    shares = {
        case: sweeps.get(overhead, case)
        for model in (WIDE, CLUSTER)
        for name in GRAPE
        for case in sweeps.by_x(model, "random", name).values()
    }
    most = max((case for case in shares if case.x > 1), key=lambda case: shares[case])
    alone = [share for case, share in shares.items() if case.x == 1]
    yield at_most(
        *("random: message overhead of GRAPE", shares[most], 5.0),
        paper=5.0,
        unit="%",
        source=source,
    ).with_note(
        f"the most over X beyond 1: {most.name}"
        + (f"; at X = 1, where a publication is one message, {max(alone):.2f}%" if alone else "")
    )
    added = {
        name: sweeps.found[sweeps.middle(CLUSTER, "random", name)].added for name in (POP, LOAD)
    }
    yield near(
        "random, cluster: messages that GRAPE adds, below POP's by",
        *(100 * (1 - added[LOAD] / added[POP]), 91.0),
        absolute=5.0,
        unit="%",
        source=source,
    ).with_note(f"percentage points; {added[LOAD]:,} against {added[POP]:,}")


def _by_x(saved: dict[int, float]) -> str:
    return "Less by X: " + ", ".join(f"{x}: {percent:.1f}%" for x, percent in saved.items())


def _pop_is_fastest(sweeps: Sweeps) -> Claim:
    took = {name: sweeps.get(delay, sweeps.middle(CLUSTER, "random", name)) for name in ALGORITHMS}
    best = min((name for name in ALGORITHMS if name != POP), key=lambda name: took[name])
    return at_most(
        "random, cluster: POP's delay against the lowest of the others",
        *(100 * (took[POP] / took[best] - 1), 0.0),
        paper="lowest",
        unit="%",
        source="placement Fig. 6h",
    ).with_note(
        "both look for the broker from which deliveries are the fewest hops away, POP by a running average of a few "
        "traces, GRAPE by all of a session: "
        + ", ".join(f"{n} {ms:.3f} ms" for n, ms in took.items())
    )


def _differ(sweeps: Sweeps, one: Case, other: Case) -> str:
    """How many publishers two runs have put on different brokers."""
    places, others = sweeps.found[one].places, sweeps.found[other].places
    count = sum(place != others[name] for name, place in places.items())
    return f"{count} of {len(places)} publishers end at another broker"


def weights(sweeps: Sweeps) -> Iterable[Claim]:
    """The two ends of one scale are the ends of the other."""
    for value, what in ((message_rate, "message rate"), (delay, "delay")):
        for one, other in ((f"load {1}%", DELAY), (f"delay {1}%", LOAD)):
            ours, theirs = (
                sweeps.get(value, sweeps.middle(CLUSTER, "enterprise", name))
                for name in (one, other)
            )
            yield near(
                f"{what}: `{one}` against `{other}`",
                *(100 * (ours / theirs - 1), 0.0),
                absolute=5.0,
                unit="%",
                source="placement §V-B3",
            ).with_note(
                "percentage points; enterprise, cluster; "
                + _differ(sweeps, *(sweeps.middle(CLUSTER, "enterprise", n) for n in (one, other)))
            )


def thresholds(sweeps: Sweeps) -> Iterable[Claim]:
    """How many samples are enough."""
    source = "placement §V-B4"
    grape, pop = sweeps.thresholds(LOAD), sweeps.thresholds(POP)
    shares = {name: sweeps.get(overhead, case) for name, case in grape.items()}
    yield exactly(
        "GRAPE with 12,800 samples: publishers moved",
        *(sweeps.found[grape[12_800]].migrated, 0),
        paper=0,
        source=source,
    )
    yield at_most(
        "GRAPE: overhead with 12,800 samples, the lowest of all",
        *(shares[12_800] - min(shares.values()), 0.0),
        paper="lowest",
        unit="%",
        source=source,
    ).with_note(", ".join(f"{name:,}: {share:.2f}%" for name, share in shares.items()))
    differ = _differ(sweeps, grape[10], grape[400])
    for value, what in ((message_rate, "message rate"), (delay, "delay")):
        few, many = (sweeps.get(value, grape[name]) for name in (10, 400))
        yield at_least(
            f"GRAPE: {what} with 10 samples above that with 400",
            *(100 * (few / many - 1), VISIBLE),
            paper="higher",
            unit="%",
            source=source,
        ).with_note(f"{differ}: who gets all publications is seen in ten of them")
    shares = {name: sweeps.get(overhead, case) for name, case in pop.items()}
    first, last = min(shares), max(shares)
    yield at_least(
        f"POP: overhead with {last:,} samples above that with {first}",
        *(shares[last] - shares[first], 0.0),
        paper="increases",
        unit="%",
        source=source,
    ).with_note(", ".join(f"{name:,}: {share:.2f}%" for name, share in shares.items()))


def costs(sweeps: Sweeps, is_fast: bool) -> Iterable[Claim]:
    """What it takes: messages, memory, time."""
    source = "placement Fig. 6b"
    usual = {
        (case, name): found
        for case, found in sweeps.moved()
        if case.mix == "enterprise" and case == Case(*case.point)
        for name in ["POP" if case.algorithm == POP else "GRAPE"]
    }
    for name, share, memory in (("POP", 32.0, 34.0), ("GRAPE", 16.0, 58.0)):
        mine = {case: found for (case, kind), found in usual.items() if kind == name}
        most = max(mine, key=lambda case: mine[case].overhead)
        yield at_most(
            f"message overhead of {name}",
            *(100 * mine[most].overhead, share),
            paper=share,
            unit="%",
            source=source,
        ).with_note(f"the most of {len(mine)} runs: {most.name}", calibrated=name == "POP")
        yield at_most(
            f"memory that {name} adds",
            *(100 * max(found.memory for found in mine.values()), memory),
            paper=memory,
            unit="%",
            source="placement §V-B1",
        ).with_note(
            "against what a broker keeps in tables and queues; the paper's is against the whole process"
        )
    yield exactly(
        "GRAPE chooses among 63 brokers within 70 ms (1: yes)",
        *(int(is_fast), 1),
        paper="< 70 ms",
        source="placement §IV-B",
    ).with_note("how long it took is in timings.json")


def correct(sweeps: Sweeps) -> Iterable[Claim]:
    """Whoever moves, and when: everybody gets what they are owed, once."""
    every = list(sweeps.found.values())
    found = [one.delivered for one in every]
    moved = sum(one.migrated for one in every)
    undone = sum(one.undone for one in every)
    checked = f"of {sum(one.owed for one in found):,} owed, in {len(found)} runs with {moved:,} migrations"
    yield exactly("deliveries lost", sum(one.lost for one in found), 0).with_note(checked)
    yield exactly("deliveries made twice", sum(one.duplicates for one in found), 0)
    yield exactly("deliveries to who did not ask for them", sum(one.stray for one in found), 0)
    yield exactly("runs that did not drain", sum(not one.drained for one in every), 0)
    yield exactly("migrations undone", undone, 0)
