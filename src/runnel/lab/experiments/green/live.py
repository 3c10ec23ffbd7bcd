"""The live parts of green, run as a whole: profiles in brokers, a BIR and its answers, a plan of these, GRAPE live.

    profile   MANUAL runs with CBC in every broker until a vector is full; then CROC sends a BIR, and all brokers answer
    plan      of the answers alone, as `runnel plan` makes it
    run       the planned overlay runs with all publishers at its root and GRAPE in every broker (load 100%)
    measure   once every publisher had its trace session

It is compared with what the other runs are made of: the plan of profiles that were matched offline, and GRAPE's choice
on paper. Offline GRAPE overloads no broker; live GRAPE does not know what brokers can take.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from runnel.broker.broker import Broker
from runnel.broker.effects import Connect
from runnel.errors import BugError
from runnel.lab.croc_client import CrocClient
from runnel.lab.expectation import DeliveryCheck, check_deliveries
from runnel.lab.experiments.green.cases import (
    DELAY,
    INTERVAL_S,
    IOU,
    MANUAL,
    RATE_PER_MIN,
    GreenCase,
)
from runnel.lab.experiments.green.run import (
    Asking,
    GreenResult,
    LiveResult,
    measure,
    plan_case,
    profile_network,
)
from runnel.lab.metrics import Window
from runnel.lab.planned_network import make_planned_network
from runnel.lab.run import ScenarioRun, run_scenario
from runnel.modules.placement.config import PlacementConfig
from runnel.modules.profiles.config import ProfilesConfig
from runnel.modules.profiles.messages import Bia, BiaEnd, Bir
from runnel.operate.croc import plan_answers
from runnel.operate.picture import Answers
from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.plan import Plan
from runnel.planning.layout import Layout, predict_loads
from runnel.planning.load import MICRO
from runnel.planning.network import Network
from runnel.planning.planner import Outcome, PlanOptions
from runnel.quantities import MILLISECOND, SECOND
from runnel.sim.world import Host, World
from runnel.trace.reader import open_trace
from runnel.wire.header import LENGTH_BYTES
from runnel.wire.registry import REGISTRY

PATIENCE_S = 60.0
DECISION_S = 30.0
"""How long a publisher has for GRAPE's questions and its migration, once its session is over."""


class BirWatch:
    """Sends a BIR at the end of a window, and counts what brokers write until everything is answered."""

    def __init__(self, broker: str) -> None:
        self.answers = Answers()
        self.seconds = 0.0
        self.written_bytes = 0
        self.frames: Counter[int] = Counter()
        self.bytes: Counter[int] = Counter()
        self._broker = broker

    def ask(self, world: World) -> None:
        """Ask the network, and wait for the last answer."""
        client, began = CrocClient(PATIENCE_S), world.now
        self.written_bytes = sum(broker.meter.bytes_out for broker in world.brokers)
        world.on_write = self._count
        host = world.host("croc")
        world.start(host, client)
        world.perform(host, [Connect(self._broker)])
        while client.over_at is None:
            if world.now > began + 2 * PATIENCE_S * SECOND:
                raise BugError("brokers did not answer a BIR")
            world.run(world.now + MILLISECOND)
        world.on_write = None
        host.stop()
        world.network.break_host(host)
        self.answers, self.seconds = client.answers, (client.over_at - began) / SECOND

    def _count(
        self, host: Host, conns: Sequence[int], frames: Sequence[bytes], began: int, each_ns: int
    ) -> None:
        if isinstance(host.machine, Broker):
            for frame in frames:
                self.frames[frame[LENGTH_BYTES]] += len(conns)
                self.bytes[frame[LENGTH_BYTES]] += len(conns) * len(frame)

    def cost(self) -> Asking:
        """What was counted. The BIR of CROC itself is one more."""
        request, answer, end = (REGISTRY.tag(kind) for kind in (Bir, Bia, BiaEnd))
        return Asking(
            brokers=len(self.answers.brokers),
            requests=1 + self.frames[request],
            answers=self.frames[answer] + self.frames[end],
            bytes=sum(self.bytes[tag] for tag in (request, answer, end)),
            written_bytes=self.written_bytes,
            seconds=self.seconds,
        )


def run_live_case(case: GreenCase, place: Path, seed: int) -> tuple[GreenResult, dict[str, Any]]:
    """Profile, ask, plan, run and measure one case; also how long it took. Traces are removed."""
    began = time.perf_counter()
    offline = profile_network(case.net, case.bits, seed)
    run, watch = _run_with_profiles(case, offline, place / "profiled", seed)
    profiled, handlings = _check(run), run.handlings
    shutil.rmtree(run.trace)
    cpu = time.process_time()
    plan = plan_answers(
        watch.answers,
        PlanOptions(IOU, seed),
        Constraints(headroom_percent=case.headroom),
        sample=case.bits // 2,
    )
    plan_cpu_s = time.process_time() - cpu
    live = _run_plan(case, plan, offline, place / "planned", seed)
    found = measure(live, Outcome(_layout(plan, offline)), offline, plan_cpu_s)
    homes = _homes_of_publishers(live, plan)
    found = replace(
        found, live=_compare(case, plan, offline, seed, watch, homes, profiled, run.info.drained)
    )
    shutil.rmtree(live.trace)
    timing = {"seconds": round(time.perf_counter() - began, 3), "plan_cpu_s": round(plan_cpu_s, 4)}
    return found, timing | {"handlings": handlings + live.handlings}


# -- the runs -----------------------------------------------------------------------------------------------


def _run_with_profiles(
    case: GreenCase, network: Network, place: Path, seed: int
) -> tuple[ScenarioRun, BirWatch]:
    """MANUAL with profiles kept, until a vector is full, and what brokers then answered to the root's neighbour."""
    layout = plan_case(case.vary(algorithm=MANUAL), network, seed).layout
    output = {one.output for one in network.brokers}
    if len(output) != 1:
        raise BugError("brokers of one configuration have one capacity: take a homogeneous network")
    profiles = ProfilesConfig(
        enabled=True,
        bits=case.bits,
        output_bytes_per_s=round(output.pop() or 0),
        matching_base_us=DELAY.base_ns / 1_000,
        matching_each_us=DELAY.each_ns / 1_000,
    )
    scenario = case.vary(minutes=case.bits / RATE_PER_MIN).scenario()
    # Rates are those of the whole run, so there is no warm-up.
    no_warm_up = msgspec.structs.replace(scenario.time, warm_up_s=0.0)
    watch = BirWatch(layout.root)
    run = run_scenario(
        replace(
            scenario,
            time=no_warm_up,
            modules={"profiles": profiles},
            planned=make_planned_network(layout, network),
        ),
        place,
        seed,
        at_end=watch.ask,
    )
    return run, watch


def _run_plan(case: GreenCase, plan: Plan, network: Network, place: Path, seed: int) -> ScenarioRun:
    """The planned overlay with all publishers at its root and GRAPE in every broker."""
    layout = _layout(plan, network)
    rooted = replace(layout, publishers=dict.fromkeys(layout.publishers, layout.root))
    grape = PlacementConfig(
        "grape", metric="load", weight_percent=100.0, g_threshold=case.live, gain_percent_min=0.0
    )
    scenario = case.scenario()
    warm_up_s = 60 * case.live / RATE_PER_MIN + DECISION_S
    # Loads are counted in whole intervals.
    warm_up_s += -warm_up_s % INTERVAL_S
    return run_scenario(
        replace(
            scenario,
            time=msgspec.structs.replace(scenario.time, warm_up_s=warm_up_s),
            modules={"placement": grape},
            planned=make_planned_network(rooted, network),
        ),
        place,
        seed,
    )


def _check(run: ScenarioRun) -> DeliveryCheck:
    trace = open_trace(run.trace)
    return check_deliveries(trace, Window(run.info.zero_ns, run.info.window_end_ns), grace_ns=0)


def _layout(plan: Plan, network: Network) -> Layout:
    """The plan of the answers, by the numbers of the offline network. CROC calls publishers CLIENT/PUBLISHER."""
    places: dict[str, list[int]] = {broker: [] for broker in plan.overlay}
    for number, name in enumerate(network.subscriptions):
        places[plan.subscriptions[name]].append(number)
    publishers = {
        number: plan.publishers[f"{one.name}/{one.name}"]
        for number, one in enumerate(network.publishers)
    }
    return Layout(
        plan.overlay, {broker: tuple(found) for broker, found in places.items()}, publishers
    )


def _homes_of_publishers(run: ScenarioRun, plan: Plan) -> dict[str, str]:
    """Where live GRAPE has placed each publisher by the beginning of the window."""
    trace = open_trace(run.trace)
    root = next(broker for broker, parent in plan.overlay.items() if parent is None)
    homes = dict.fromkeys((name.split("/")[0] for name in plan.publishers), root)
    notes = [note for note in trace.rows("control") if note["kind"] == "publisher-migrated"]
    for note in sorted(notes, key=lambda one: one["time_ns"]):
        move = json.loads(note["detail"])
        if move["is_done"] and note["time_ns"] < run.info.window_start_ns:
            homes[move["publisher"]] = move["to"]
    return homes


# -- what is compared ---------------------------------------------------------------------------------------


def _compare(
    case: GreenCase,
    plan: Plan,
    network: Network,
    seed: int,
    watch: BirWatch,
    homes: dict[str, str],
    profiled: DeliveryCheck,
    drained: bool,
) -> LiveResult:
    offline = plan_case(case, network, seed).layout
    loads = predict_loads(offline, network.items(), network.traffic())
    root = next(broker for broker, parent in plan.overlay.items() if parent is None)
    return LiveResult(
        watch.cost(),
        plan.brokers,
        len(offline.parents),
        sum(load.messages_per_s for load in plan.after.values()),
        sum(load.input for load in loads.values()) / MICRO,
        len(homes),
        sum(home != root for home in homes.values()),
        sum(plan.publishers[f"{name}/{name}"] == home for name, home in homes.items()),
        profiled,
        drained,
    )
