"""One scenario with twelve brokers, in the simulator and on real processes: both traces tell the same story.

The same publications, the same deliveries in the same order from each publisher, as many publications on every link.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from runnel.lab.run import run_scenario
from runnel.lab.scenario import Scenario, TimeSettings, named_scenario
from runnel.lab.scenario_workload import as_topology
from runnel.network.clients import Runner
from runnel.network.outcome import as_text
from runnel.network.processes import Processes
from runnel.network.topology import Topology
from runnel.trace.reader import Trace, open_trace
from runnel.trace.summary import summarise

PATIENCE_S = 120


def on_processes(topology: Topology, folder: Path) -> None:
    with Processes(topology, folder) as processes:
        processes.start(processes.reserve())
        processes.wait_for_links()
        asyncio.run(run_clients(topology, processes))
        codes = processes.stop()
    assert set(codes.values()) == {0}


async def run_clients(topology: Topology, processes: Processes) -> None:
    addresses = {name: str(broker.address) for name, broker in processes.brokers.items()}
    runner = Runner(topology, addresses)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await runner.run()
            outcome = await runner.settle()
    finally:
        await runner.close()
    assert not sum(outcome.missed.values())


def deliveries(trace: Trace) -> dict[tuple[str, str], list[tuple[int, str, int]]]:
    """What each client got from each publisher, in order: counter, event, hops."""
    published = {
        (row["advertisement"], row["counter"]): (row["publisher"], as_text(row["attributes"]))
        for row in trace.rows("publications")
    }
    found: dict[tuple[str, str], list[tuple[int, str, int]]] = {}
    for row in trace.rows("deliveries"):
        publisher, event = published[row["advertisement"], row["counter"]]
        found.setdefault((row["client"], publisher), []).append(
            (row["counter"], event, row["hops"])
        )
    return found


def link_counts(trace: Trace) -> dict[tuple[str, str], tuple[int, int]]:
    """The last word of each broker about each of its links: publications in and out."""
    return {
        (row["broker"], row["peer"]): (row["publications_in"], row["publications_out"])
        for row in sorted(trace.rows("links"), key=lambda row: row["time_ns"])
    }


def quick(scenario: Scenario) -> Scenario:
    return replace(scenario, time=TimeSettings(warm_up_s=0.0, measure_s=2.0))


def test_a_scenario_is_the_same_on_real_processes(tmp_path: Path) -> None:
    scenario = quick(named_scenario("twelve"))
    simulated = open_trace(run_scenario(scenario, tmp_path / "simulated").trace)
    topology = as_topology(scenario, trace=tmp_path / "real")
    assert len(topology.brokers) == 12
    on_processes(topology, tmp_path / "run")
    real = open_trace(tmp_path / "real")
    assert (simulated.clock, real.clock) == ("virtual", "wall")
    assert summarise(simulated).complaints == summarise(real).complaints == []
    wanted = deliveries(simulated)
    assert sum(map(len, wanted.values())) > 2_000
    assert max(hops for got in wanted.values() for _, _, hops in got) >= 4
    assert deliveries(real) == wanted
    counts = link_counts(simulated)
    assert sum(out for (_, peer), (_, out) in counts.items() if peer in topology.brokers) > 1_000
    found = link_counts(real)
    assert {link: found[link] for link in counts} == counts
    # Besides there are those who asked whether the links are up.
    assert {found[link] for link in found if link not in counts} <= {(0, 0)}
