"""One topology, in the simulator and on real processes: the same deliveries, the same publications on every link."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from runnel.network.clients import Runner
from runnel.network.examples import chain, tree
from runnel.network.file import read_topology
from runnel.network.outcome import TopologyOutcome
from runnel.network.processes import Processes
from runnel.network.topology import Topology
from runnel.sim.topology import simulate_topology

TWO_WAYS = """
links = [["B2", "B1"], ["B3", "B1"], ["B4", "B3"]]
[defaults]
routing = { covering = false }
[brokers.B1]
[brokers.B2]
[brokers.B3]
[brokers.B4]
[[clients]]
name = "both"                       # publishes, and gets what it publishes itself
broker = "B4"
subscribe = ["kind = 'a' OR n > 150", "n < 20"]
publish = { advertise = "n >= 0", rate_per_s = 900, count = 300, events = "numbers.jsonl" }
[[clients]]
name = "crowd"
copies = 3
broker = "B2"
subscribe = "kind IN ('a', 'c') AND n >= 100"
[[clients]]
name = "late"                       # starts when the first may still publish
broker = "B1"
start_s = 2.5
subscribe = "n < 0"
publish = { advertise = "n < 0", rate_per_s = 500, events = [{ n = -1 }, { n = -2, kind = "a" }] }
"""


def written(folder: Path, name: str) -> Topology:
    quick = {"port = 7001": "port = 0", ":7101": ":0", "rate_per_s = 50": "rate_per_s = 400"}
    text = {"chain3": chain(3), "tree7": tree(7), "two ways": TWO_WAYS}[name]
    for slow, fast in quick.items():
        text = text.replace(slow, fast)
    lines = [f'{{"n": {n}, "kind": "{"abc"[n % 3]}"}}\n' for n in range(200)]
    (folder / "numbers.jsonl").write_text("".join(lines))
    path = folder / "topology.toml"
    path.write_text(text)
    return read_topology(path)


def on_processes(topology: Topology, folder: Path) -> TopologyOutcome:
    with Processes(topology, folder) as processes:
        processes.start(processes.reserve())
        processes.wait_for_links()
        return asyncio.run(run_clients(topology, processes))


async def run_clients(topology: Topology, processes: Processes) -> TopologyOutcome:
    addresses = {name: str(broker.address) for name, broker in processes.brokers.items()}
    runner = Runner(topology, addresses, record=True)
    try:
        async with asyncio.timeout(60):
            await runner.run()
            outcome = await runner.settle()
        for name in topology.brokers:
            for link in processes.status(name)["links"]:
                outcome.links[name, link["name"]] = link["publications_out"]
                outcome.links[link["name"], name] = link["publications_in"]
    finally:
        await runner.close()
    return outcome


@pytest.mark.parametrize("name", ["chain3", "tree7", "two ways"])
def test_the_simulator_and_processes_agree(tmp_path: Path, name: str) -> None:
    topology = written(tmp_path, name)
    simulated = simulate_topology(topology)
    real = on_processes(topology, tmp_path / "run")
    assert sum(simulated.published.values()) > 300
    assert all(simulated.published[c.name] for c in topology.clients if c.publish)
    assert all(simulated.deliveries[c.name] for c in topology.clients if c.subscribe)
    assert real.published == simulated.published
    assert real.by_publisher() == simulated.by_publisher()
    assert real.links == simulated.links
    between = [
        n for (a, b), n in real.links.items() if a in topology.brokers and b in topology.brokers
    ]
    assert sum(between) > 200 and not sum(real.missed.values())


def test_the_simulator_is_the_same_each_time_and_with_another_seed(tmp_path: Path) -> None:
    topology = written(tmp_path, "tree7")
    first, again, other = (simulate_topology(topology, seed) for seed in (1, 1, 2))
    assert first == again
    assert first.deliveries.keys() == other.deliveries.keys()
    assert first.by_publisher() == other.by_publisher() and first.links == other.links
