"""Runs a scenario in simulated time: brokers, links, clients; warm-up, window, drain; and a trace of it all.

    links up → publishers ready → subscribers ready → time zero ── warm-up ──▶ window ──▶ drained

One scenario and one seed give one trace, value for value, whatever the hash seed. `run.json` in the trace's
directory says when the window was, so that a reader of the trace needs nothing else. It holds no wall-clock times.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import msgspec
from msgspec import Struct

from runnel.broker.links import LinkConfig
from runnel.errors import InputError
from runnel.lab.clients import ScenarioClients
from runnel.lab.scenario import Scenario
from runnel.lab.scenario_workload import make_scenario_workload
from runnel.lab.waits import OutputWaits
from runnel.lab.world import ACK_EVERY, LabWorld
from runnel.quantities import MILLISECOND, SECOND
from runnel.sim.world import World
from runnel.trace.folder import write_whole
from runnel.workload.shape import Workload

RUN_FILE = "run.json"
STEP_NS = 20 * MILLISECOND
PATIENCE_NS = 3_600 * SECOND
PROGRESS_STEPS = 50

OnProgress = Callable[[float, str], None]
"""Called with how much is done, from 0 to 1, and what is being done."""

AtEnd = Callable[[World], None]
"""Called once at the end of the window, before what is under way arrives: what an operator does then."""


class RunInfo(Struct, frozen=True):
    """What `run.json` says: times are those of the trace."""

    scenario: str
    seed: int
    brokers: int
    publishers: int
    subscribers: int
    zero_ns: int  # everybody is there; workload and changes count from here
    window_start_ns: int  # measure from here
    window_end_ns: int  # to here
    end_ns: int
    drained: bool  # whether everything that was published had passed all brokers by the end
    published: int
    delivered: int  # read by subscribers
    missed: int  # dropped for clients that did not keep up


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """The result of a run. `trace` is a directory; seconds are by the wall clock, unless the name says CPU."""

    trace: Path
    info: RunInfo
    handlings: int  # messages that brokers took in
    window_handlings: int  # of these, from time zero to the end of the window
    events: int  # of the simulator
    build_s: float
    window_s: float  # what the simulation from time zero to the end of the window took
    window_cpu_s: float
    wall_s: float
    memory_bytes: Mapping[str, int]  # in memory at the end of the window, where there are modules
    client_wait_ns: float  # in the window: from a client's queue until it has left, on average


def run_scenario(
    scenario: Scenario,
    out: Path,
    seed: int | None = None,
    on_progress: OnProgress | None = None,
    at_end: AtEnd | None = None,
) -> ScenarioRun:
    """Run a scenario; the trace is written to `out`/trace, which must not hold one already."""
    with _garbage_collector_off():
        return _ScenarioRunner(
            scenario, out, scenario.seed if seed is None else seed, on_progress, at_end
        ).run()


def read_run_info(trace: Path) -> RunInfo:
    """Read `run.json` of a trace."""
    try:
        return msgspec.json.decode((trace / RUN_FILE).read_bytes(), type=RunInfo)
    except OSError:
        raise InputError(
            f"{trace}: has no {RUN_FILE}: this is no trace of a scenario that ran to its end"
        ) from None
    except msgspec.MsgspecError as error:
        raise InputError(f"{trace / RUN_FILE}: cannot be read: {error}") from None


class _ScenarioRunner:
    """One run."""

    def __init__(
        self,
        scenario: Scenario,
        out: Path,
        seed: int,
        on_progress: OnProgress | None,
        at_end: AtEnd | None = None,
    ) -> None:
        self._began = perf_counter()
        self._scenario = scenario
        self._seed = seed
        self._tell = on_progress or (lambda share, what: None)
        self._at_end = at_end or (lambda world: None)
        self._trace = out / "trace"
        shape = scenario.shape(seed)
        self._workload: Workload = make_scenario_workload(scenario, shape, seed)
        self._clients = ScenarioClients(
            *(self._workload, shape.brokers, scenario.clients),
            follow=scenario.placement is not None,
        )
        self._lab = LabWorld(scenario, seed, self._trace, self._clients)
        self._world = self._lab.world
        link = self._lab.link_config(LinkConfig(ack_every=ACK_EVERY))
        self._clients.enter(self._world, link, self._lab.note)

    def run(self) -> ScenarioRun:
        """Carry out the run from the first broker to the closed trace."""
        self._build()
        gc.collect()
        gc.freeze()  # the objects of a complete world never become garbage
        build_s = perf_counter() - self._began
        time = self._scenario.time
        zero = self._world.now
        start = zero + round(time.warm_up_s * SECOND)
        end = start + round(time.measure_s * SECOND)
        before, cpu_before = self._lab.handlings, process_time()
        self._clients.begin(zero, end)
        for change in self._scenario.changes:
            if change.broker and (at := zero + round(change.at_s * SECOND)) < end:
                self._world.at(at, self._lab.apply_change, change)
        self._simulate_until(zero, start, "warming up")
        waits = OutputWaits(self._world)
        waits.begin()
        self._simulate_until(start, end, "measuring")
        waits.end()
        window_s = perf_counter() - self._began - build_s
        window_cpu_s = process_time() - cpu_before
        window_handlings = self._lab.handlings - before
        memory_bytes = self._lab.memory_bytes() if self._scenario.placement else {}
        self._at_end(self._world)
        drained = self._drain()
        info = self._info(zero, start, end, drained)
        handlings = self._lab.handlings
        self._lab.close()
        self._write(info)
        self._tell(1.0, "done")
        return ScenarioRun(
            self._trace,
            info,
            handlings,
            window_handlings,
            self._world.events,
            build_s,
            window_s,
            window_cpu_s,
            perf_counter() - self._began,
            memory_bytes,
            waits.mean_ns,
        )

    def _build(self) -> None:
        """Bring the world to time zero: all brokers and clients are connected, and every route is known."""
        lab, clients = self._lab, self._clients
        self._tell(0.0, "starting brokers")
        lab.start()
        self._wait_for(lambda: lab.links_up, "the links")
        self._tell(0.0, "starting publishers")
        clients.start_publishers()
        self._wait_for(lambda: not clients.waiting_for_homes, "the publishers")
        self._wait_for_routes()
        self._tell(0.0, "starting subscribers")
        clients.start_subscribers()
        self._wait_for(lambda: not clients.waiting_for_homes, "the subscribers")
        # Their subscriptions are at most one journey away from their brokers.
        self._world.run(
            self._world.now + round(2 * self._scenario.network.client_latency_ms * MILLISECOND)
        )
        self._wait_for_routes()

    def _wait_for_routes(self) -> None:
        self._clients.ask_routes()
        self._wait_for(lambda: not self._clients.waiting_for_routes, "the routes")

    def _wait_for(self, done: Callable[[], bool], what: str) -> None:
        deadline = self._world.now + PATIENCE_NS
        while not done():
            if self._world.now > deadline:
                raise InputError(
                    f"{what} did not come about within {PATIENCE_NS // SECOND} simulated seconds: "
                    "brokers may have too little bandwidth or too slow matching for so many clients"
                )
            self._world.run(self._world.now + STEP_NS)

    def _simulate_until(self, start: int, end: int, what: str) -> None:
        """Simulate from `start` to `end`, and report progress."""
        zero_s, all_s = self._scenario.time.warm_up_s, self._scenario.time.measure_s
        done_s = 0.0 if what == "warming up" else zero_s
        for step in range(1, PROGRESS_STEPS + 1):
            self._world.run(start + (end - start) * step // PROGRESS_STEPS)
            passed_s = done_s + (end - start) / SECOND * step / PROGRESS_STEPS
            self._tell(passed_s / (zero_s + all_s), what)

    def _drain(self) -> bool:
        """Let what is under way arrive; whether it arrived in time."""
        world, clients = self._world, self._clients
        deadline = world.now + round(self._scenario.time.drain_s_max * SECOND)
        while clients.roaming.is_under_way and world.now < deadline:
            world.run(min(world.now + STEP_NS, deadline))
        clients.ask_routes()
        while clients.waiting_for_routes and world.now < deadline:
            world.run(min(world.now + STEP_NS, deadline))
        clients.read_all()
        return not clients.waiting_for_routes

    def _info(self, zero: int, start: int, end: int, drained: bool) -> RunInfo:
        clients, workload = self._clients, self._workload
        return RunInfo(
            self._scenario.name,
            self._seed,
            len(self._lab.shape.brokers),
            len(workload.publishers),
            len(workload.subscribers),
            zero,
            start,
            end,
            self._world.now,
            drained,
            clients.published,
            clients.delivered,
            clients.missed,
        )

    def _write(self, info: RunInfo) -> None:
        text = msgspec.json.format(msgspec.json.encode(info), indent=2) + b"\n"
        write_whole(self._trace / f".{RUN_FILE}.tmp", self._trace / RUN_FILE, text, sync=False)


@contextmanager
def _garbage_collector_off() -> Iterator[None]:
    """Switch the garbage collector off meanwhile: it would visit many objects and find no garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()
