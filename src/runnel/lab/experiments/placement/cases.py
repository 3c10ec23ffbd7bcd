"""The runs of the experiment `placement`: one point of a sweep, its scenario, and what is measured of it.

Printed (placement §V): 63 brokers in a balanced tree of fan-out 2 or 4; publishers at random brokers; random and
enterprise workloads on X brokers; POP with N = 50 in W = 60 s and P_threshold 100, GRAPE with G_threshold 100; where
thresholds are swept, X = 16 and POP's N is half of its threshold; values are read 18 minutes after the start.

Chosen, since Fig. 4b, which has them, is not in our text:

- 40 publishers, as in green §VI by the same authors, with 40 subscribers each. Quotes are shuffled, so that every
  stretch of time is alike.
- 90 msg/min from each, calibrated on POP's printed message overhead ("specific to the publishers' publication rates"):
  what POP traces of n publications in a window is 1 − e^(−n/N) of N, so the overhead falls with the rate; at 90 the
  most on the enterprise workload, of which the paper says it, is 31.8%. First tried was green's 70 msg/min, at the
  quick scale: 33.5%. A figure shows it over the rate. Nothing else is calibrated.
- Wide area: 40 ms between brokers, each link between 20 and 60 ms; 40 ms between a client and its broker, since a
  publisher and its subscribers run on one machine, far from most of their brokers. Cluster: 0.2 ms each.
- Matching takes as long as in the inventories of balance (10 µs per subscription and 100 µs besides at 1,000 MHz): on
  the cluster at the printed 1.86 GHz; in the wide area five times slower, as machines there are shared.
- Overloads happened on PlanetLab, whose machines are not known to us. They are made by slower matching, `shared_with`:
  so much slower that static's busiest brokers cannot keep up, which is calibrated on the printed one to three.
- Publishers measure no brokers, which are equally far for them here: all ways to clients take the same time. How long
  pings take is measured in cases of its own: one broker after the other, as on PlanetLab, and at once.
- Bandwidth has no limit. Covering is on. GRAPE moves a publisher for any gain, as in the paper.

The message rate of a broker is that of *all* messages that come in: the paper's POP has the higher one "due to the
increased message overhead from TRMs". Delays are from publisher to subscriber, the last mile included. What is measured
is two trace sessions, after three of warm-up: by then everybody has been placed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from runnel.lab.expectation import DeliveryCheck, check_deliveries
from runnel.lab.metrics import (
    PUBLICATION,
    Window,
    delays,
    hop_counts,
    intervals,
    loads,
    overhead,
    overhead_share,
)
from runnel.lab.run import ScenarioRun
from runnel.lab.scenario import Scenario, make_scenario
from runnel.quantities import SECOND
from runnel.trace.reader import Trace, open_trace

STATIC, POP, LOAD, DELAY = "static", "POP", "load 100%", "delay 100%"
ALGORITHMS = (STATIC, POP, LOAD, DELAY)
GRAPE = (LOAD, DELAY)
MODULE = (
    *("Trm", "Rrm", "Ram", "Tir", "Tia", "Ping", "Pong"),
    *("PingRequest", "PingAnswer", "Mum", "Mcm"),
)
"""Messages that are only sent for placement."""

THRESHOLD = 100
WINDOW_S = 60.0  # POP's W
RATE_PER_MIN = 90.0
GAIN_PERCENT = 0.0  # as in the paper; brokers have a minimum by default
WARM_UP, MEASURED = 3, 2  # trace sessions
Mix = Literal["enterprise", "random"]
Pings = Literal["", "at once", "in series", "once"]
"""Usual: none. At once: five to each broker, all brokers at the same time. In series: one broker after the other, as on
PlanetLab. Once: a single one to each, all at the same time, as on the cluster."""
SERIES_TIMEOUT_S = 60.0
"""How long GRAPE waits for pings in series, which take longer than it usually waits."""
DRAIN_S = 3_600.0  # what brokers that are overloaded have left over


class Model(NamedTuple):
    """What lies between brokers and clients, and what matching takes."""

    name: str
    latency_ms: float
    latency_spread: float
    client_ms: float
    match_us_each: float
    match_us_base: float


WIDE = Model("wide area", 40.0, 0.5, 40.0, 50 / 1.86, 500 / 1.86)
CLUSTER = Model("cluster", 0.2, 0.0, 0.2, 10 / 1.86, 100 / 1.86)


def wide_with(latency_ms: float) -> Model:
    """The wide area with other latencies between brokers and to clients."""
    if latency_ms == WIDE.latency_ms:
        return WIDE
    name = f"wide area of {latency_ms:g} ms"
    return WIDE._replace(name=name, latency_ms=latency_ms, client_ms=latency_ms)


def shared_with(times: float) -> Model:
    """The wide area with machines on which matching takes so many times as long."""
    name = f"wide area, matching {times:g} times as long"
    each, base = times * WIDE.match_us_each, times * WIDE.match_us_base
    return WIDE._replace(name=name, match_us_each=each, match_us_base=base)


class Pace(NamedTuple):
    """How many publishers there are, and how many times faster than printed everything goes.

    Rates and POP's window are scaled together, so that a trace session and a window see as many publications.
    """

    brokers: int
    publishers: int
    faster: float


@dataclass(frozen=True, slots=True)
class PlacementCase:
    """One point of a sweep."""

    model: Model
    mix: Mix
    x: int
    algorithm: str
    fan_out: int = 2
    threshold: int = THRESHOLD
    publications: int = 0  # of each publisher, up to the end; 0: as many as sessions take
    rate_per_min: float = RATE_PER_MIN
    brokers: int = 0  # 0: as many as usual
    gain_percent: float = GAIN_PERCENT  # GRAPE moves no publisher for less
    publishers: int = 0  # 0: as many as usual
    pings: Pings = ""  # how a publisher measures brokers

    @property
    def name(self) -> str:
        """The name of the run.

        >>> PlacementCase(CLUSTER, "random", 16, "load 25%").name
        'cluster, random, fan-out 2, X 16, load 25%'
        """
        parts = [self.model.name, self.mix, f"fan-out {self.fan_out}", f"X {self.x}"]
        parts.append(self.algorithm)
        if self.publications:
            parts.append(f"threshold {self.threshold}")
        if self.rate_per_min != RATE_PER_MIN:
            parts.append(f"{self.rate_per_min:g} per minute")
        if self.brokers:
            parts.append(f"{self.brokers} brokers")
        if self.publishers:
            parts.append(f"{self.publishers} publishers")
        if self.pings:
            parts.append(f"pings {self.pings}")
        if self.gain_percent != GAIN_PERCENT:
            parts.append(f"gain {self.gain_percent:g}%")
        return ", ".join(parts)

    def vary(self, **changes: Any) -> PlacementCase:
        """The same case with other values."""
        return replace(self, **changes)

    def scenario(self, pace: Pace) -> Scenario:
        """The run."""
        rate_per_min = self.rate_per_min * pace.faster
        session_s = 60 * THRESHOLD / rate_per_min
        interval_s = session_s / 10
        # Loads are counted in whole intervals: with one more, these are as long as the sessions.
        measure_s = MEASURED * session_s + interval_s
        end_s = 60 * self.publications / rate_per_min or WARM_UP * session_s + measure_s
        model, brokers = self.model, self.brokers or pace.brokers
        tables: dict[str, Any] = {
            "topology": {"shape": "placement", "brokers": brokers, "fan_out": self.fan_out},
            "workload": {
                **{"name": "stocks", "templates": "placement", "mix": self.mix},
                **{
                    "brokers": brokers,
                    "on_brokers": self.x,
                    "publishers": self.publishers or pace.publishers,
                },
                **{"rate_per_min": rate_per_min, "order": "shuffled"},
            },
            "network": {
                "latency_ms": model.latency_ms,
                "latency_spread": model.latency_spread,
                "client_latency_ms": model.client_ms,
            },
            "resources": {
                "match_us_each": model.match_us_each,
                "match_us_base": model.match_us_base,
            },
            "time": {
                **{"warm_up_s": end_s - measure_s, "measure_s": measure_s},
                "drain_s_max": DRAIN_S,
            },
            "clients": {"pings": "at once" if self.pings == "once" else self.pings or "none"},
            "trace": {"interval_s": interval_s},
        }
        if self.algorithm != STATIC:
            tables["modules"] = {"placement": self._module(pace)}
        return make_scenario(tables, "placement")

    def _module(self, pace: Pace) -> dict[str, Any]:
        if self.algorithm == POP:
            n, w_s = max(1, self.threshold // 2), WINDOW_S / pace.faster
            return {"algorithm": "pop", "p_threshold": self.threshold, "n": n, "w_s": w_s}
        metric, weight = self.algorithm.rstrip("%").split()
        grape: dict[str, Any] = {"algorithm": "grape", "g_threshold": self.threshold}
        grape["gain_percent_min"] = self.gain_percent
        if self.pings == "in series":
            grape["answer_timeout_s"] = SERIES_TIMEOUT_S
        # Only the pings are looked at, except for the one row that compares the two ways on the cluster.
        grape["dry_run"] = self.pings == "at once" or (self.pings != "" and self.model == WIDE)
        if self.pings == "once":
            grape["ping_samples"] = 1
        return grape | {"metric": metric, "weight_percent": float(weight)}


@dataclass(frozen=True, slots=True)
class PlacementResult:
    """What was measured in the window of a run: averages over all brokers, or over all deliveries."""

    message_rate: float  # of all messages that come into a broker
    publication_rate: float
    input_ratio: float
    output_rate: float  # bytes that leave a broker per second
    overloaded: int  # brokers that were to match more than they can
    delay_ms: float  # up to the client's queue
    hops: float
    row_rate: float  # publications times the subscriptions that each is matched with, per second
    overhead: float  # of all messages since the start, those that placement added
    added: int  # as a number
    migrated: int
    undone: int
    pause_ms: float
    pause_ms_max: float
    pauses: tuple[
        tuple[int, float], ...
    ]  # of each migration: links between the two brokers, and milliseconds
    moved_again: int  # publishers that were moved more than once
    decided_s: float  # how long after the start a publisher was first decided about
    selections: tuple[tuple[int, float], ...]
    """For each publisher, links to the broker first chosen, and seconds that it took to choose it, without pings."""
    pings: tuple[tuple[int, float], ...]
    """For each publisher, how many brokers it measured for the first decision, and how many seconds that took."""
    migration_messages: int  # of all migrations
    memory: float  # what placement adds to what brokers keep
    memory_mb: float  # as megabytes of a broker
    places: Mapping[str, str]  # where each publisher is at the end
    delivered: DeliveryCheck
    drained: bool


def measure(run: ScenarioRun) -> PlacementResult:
    """Measure one run."""
    trace, info = open_trace(run.trace), run.info
    window = Window(info.window_start_ns, info.window_end_ns)
    load = loads(trace, window)
    counts = _messages(trace, info.zero_ns, info.window_end_ns)
    notes = list(trace.rows("control"))
    moves = [json.loads(note["detail"]) for note in notes if note["kind"] == "publisher-migrated"]
    done = [move for move in moves if move["is_done"]]
    pauses = [move["pause_ns"] / 1e6 for move in done]
    times_moved = Counter(move["publisher"] for move in done)
    first, neighbours = _first_decisions(notes), _neighbours(trace)
    kept = run.memory_bytes
    return PlacementResult(
        message_rate=float(np.mean((load.publications_in + load.control_in) / load.seconds)),
        publication_rate=float(np.mean(load.message_rate)),
        input_ratio=float(np.mean(load.input_ratio)),
        output_rate=int(intervals(trace, window)["bytes_out"].to_numpy().sum())
        / float(np.sum(load.seconds)),
        overloaded=int(np.sum(load.input_ratio > 1)),
        delay_ms=float(np.mean(delays(trace, window))) / 1e6,
        hops=float(np.mean(hop_counts(trace, window))),
        row_rate=float(np.mean(load.message_rate * load.subscriptions)),
        overhead=overhead_share(counts),
        added=sum(counts.values()) - counts[PUBLICATION],
        migrated=len(pauses),
        undone=len(moves) - len(pauses),
        pause_ms=float(np.mean(pauses)) if pauses else 0.0,
        pause_ms_max=max(pauses, default=0.0),
        pauses=tuple(
            (_count_links(neighbours, move["from"], move["to"]), move["pause_ns"] / 1e6)
            for move in done
        ),
        moved_again=sum(count > 1 for count in times_moved.values()),
        decided_s=float(np.mean([one.time_ns - info.zero_ns for one in first.values()])) / SECOND
        if first
        else 0.0,
        selections=tuple(
            (_count_links(neighbours, one.at, one.to), one.selection_s)
            for _, one in sorted(first.items())
        ),
        pings=tuple((one.pinged, one.pings_s) for _, one in sorted(first.items())),
        migration_messages=sum(counts.get(name, 0) for name in ("Mum", "Mcm")),
        memory=kept["placement"] / kept["broker"] if kept else 0.0,
        memory_mb=kept["placement"] / info.brokers / 1e6 if kept else 0.0,
        places=_places(trace),
        # Every route was there before time zero, so nobody needs a grace.
        delivered=check_deliveries(trace, Window(info.zero_ns, info.window_end_ns), grace_ns=0),
        drained=info.drained,
    )


def _messages(trace: Trace, zero_ns: int, end_ns: int) -> dict[str, int]:
    """Messages by class, since everybody was there.

    Other classes than placement's own count for the intervals after time zero only, not for what it took to set up.
    """
    every = overhead(trace, Window(0, end_ns))
    after = overhead(trace, Window(zero_ns, end_ns))
    return {
        PUBLICATION: every.get(PUBLICATION, 0),
        **{name: count for name, count in after.items() if name not in (PUBLICATION, *MODULE)},
        **{name: every[name] for name in MODULE if name in every},
    }


class FirstDecision(NamedTuple):
    """The first decision about a publisher."""

    at: str
    to: str
    time_ns: int
    selection_s: float
    pinged: int
    pings_s: float


def _first_decisions(notes: list[dict[str, Any]]) -> dict[str, FirstDecision]:
    first: dict[str, FirstDecision] = {}
    for note in notes:
        if note["kind"] == "placement":
            detail = json.loads(note["detail"])
            decision = FirstDecision(
                *(detail["at"], detail["to"], note["time_ns"], detail["selection_s"]),
                *(detail.get("pinged", 0), detail.get("pings_s", 0.0)),
            )
            first.setdefault(detail["publisher"], decision)
    return first


def _neighbours(trace: Trace) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for link in trace.rows("links"):
        if link["kind"] == "broker":
            found.setdefault(link["broker"], set()).add(link["peer"])
    return found


def _count_links(neighbours: Mapping[str, set[str]], start: str, end: str) -> int:
    """How many links lie between two brokers of a tree."""
    seen, edge, count = {start}, {start}, 0
    while end not in seen:
        edge = {name for one in edge for name in neighbours[one]} - seen
        seen, count = seen | edge, count + 1
    return count


def _places(trace: Trace) -> dict[str, str]:
    """Where publishers published last."""
    rows = trace.read("publications", columns=["time_ns", "publisher", "broker"])
    rows = rows.sort_by([("publisher", "ascending"), ("time_ns", "ascending")])
    return dict(zip(rows["publisher"].to_pylist(), rows["broker"].to_pylist(), strict=True))
