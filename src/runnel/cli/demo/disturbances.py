"""What happens in `runnel demo`: seven brokers, a link that is cut, a subscriber that moves, a plan carried out, and
a count of everything.

seconds      0 ──────── 1/3 ───── 1/2 ───── 2/3 ──────── 1 ────────────────────────┬───────── + 1/2
             publish    cut       restore   move         plan from traces, apply   as planned  stop, and count

All the while everybody publishes. Without a plan it ends at 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import time_ns
from typing import Any

from runnel.cli.demo.plan import Calm, Files, TrafficFigures, apply_plan, make_plan, make_report
from runnel.cli.plan_files import read_plan
from runnel.client.events import Event
from runnel.errors import NetworkError
from runnel.language import to_sql
from runnel.network.clients import Runner, RunningClient
from runnel.network.file import make_topology
from runnel.network.processes import Processes
from runnel.network.tally import DeliveryTally, Result, quantile_ms
from runnel.network.topology import LinkOf, Topology
from runnel.operate.ask import AskError
from runnel.quantities import MILLISECOND
from runnel.testing.proxy import Proxy
from runnel.workload.stocks import balance_filters, symbols, synthetic_quotes

BROKERS = tuple(f"B{number}" for number in range(1, 8))
LINKS: tuple[LinkOf, ...] = tuple((BROKERS[n], BROKERS[(n - 1) // 2]) for n in range(1, 7))
CUT: LinkOf = ("B2", "B1")
MOVER, MOVES_TO = "watcher-B4", "B7"
PUBLISHERS_AT = ("B4", "B5", "B6", "B7")
SYMBOLS_EACH = 10
RATE_PER_S = 100
FILTERS_EACH = 3
PATIENCE_S = 60.0
OUTPUT_BYTES_PER_S = 250_000
"""What a broker may be planned to send: more than any of them does, less than all of it."""

TRACE_INTERVAL_S = 0.25

Say = Callable[[str], None]


def demo_topology(traces: Path | None = None) -> Topology:
    """Seven brokers in a tree, a publisher at each leaf, a subscriber at each broker.

    >>> topology = demo_topology()
    >>> len(topology.brokers), len(topology.clients)
    (7, 11)
    """
    names = symbols(SYMBOLS_EACH * len(PUBLISHERS_AT))
    clients: list[dict[str, Any]] = []
    for number, broker in enumerate(PUBLISHERS_AT):
        mine = names[number * SYMBOLS_EACH : (number + 1) * SYMBOLS_EACH]
        listed = ", ".join(f"'{name}'" for name in mine)
        publish = {
            "advertise": f"class = 'STOCK' AND symbol IN ({listed})",
            "rate_per_s": RATE_PER_S,
            "payload_bytes": 100,
        }
        clients.append({"name": f"exchange-{broker}", "broker": broker, "publish": publish})
    quotes = list(synthetic_quotes(symbol_count=len(names), days=20))
    filters = [to_sql(one) for one in balance_filters(quotes, FILTERS_EACH * len(BROKERS))]
    for number, broker in enumerate(BROKERS):
        mine = filters[number * FILTERS_EACH : (number + 1) * FILTERS_EACH]
        mine.append(f"symbol = '{names[number * 5]}'")
        clients.append({"name": f"watcher-{broker}", "broker": broker, "subscribe": mine})
    clients[-1]["subscribe"].append("class = 'STOCK'")
    # Short heartbeats, so that a link that was cut is dialled again soon after it can be.
    defaults: dict[str, Any] = {"link": {"heartbeat_s": 0.2, "resume_timeout_s": 30.0}}
    if traces is not None:
        often = {"interval_s": TRACE_INTERVAL_S, "flush_interval_s": 1.0}
        defaults["trace"] = {"dir": str(traces), **often}
        defaults["profiles"] = {"output_bytes_per_s": OUTPUT_BYTES_PER_S}
    return make_topology(
        {
            "brokers": {name: {} for name in BROKERS},
            "links": [list(pair) for pair in LINKS],
            "defaults": defaults,
            "clients": clients,
        }
    )


class Demo:
    """One demonstration."""

    def __init__(self, seconds: float, folder: Path, say: Say, *, with_plan: bool = False) -> None:
        self.with_plan = with_plan
        self.files = Files(folder)
        self.topology = demo_topology(self.files.traces if with_plan else None)
        self.processes = Processes(self.topology, folder)
        self.tally = DeliveryTally(self.topology)
        self.seconds = seconds
        self.statuses: dict[str, dict[str, Any]] = {}
        self.runner: Runner | None = None
        self.cut_ns = (0, 0)
        self._calm: Calm | None = None
        self._say = say
        self._proxy: Proxy | None = None

    def start(self) -> None:
        """The brokers, with a proxy in the link that is going to be cut."""
        addresses = self.processes.reserve()
        self._proxy = Proxy(addresses[CUT[1]])
        self.processes.dialled_at[CUT] = str(self._proxy.address)
        self.processes.start(addresses)
        self._say(f"{len(addresses)} brokers are up, each a process of its own")
        self.processes.wait_for_links()
        self._say(f"{len(LINKS)} links are up")

    def stop(self) -> None:
        """Stop all brokers and the proxy."""
        self.processes.stop()
        if self._proxy is not None:
            self._proxy.close()

    async def run(self) -> Result:
        """Run the clients and the disturbances; what was lost, doubled or out of order."""
        addresses = {name: str(b.address) for name, b in self.processes.brokers.items()}
        runner = self.runner = Runner(
            self.topology,
            addresses,
            seconds=None if self.with_plan else self.seconds,
            on_published=self.tally.note_published,
            on_delivered=self._note_delivered,
        )
        try:
            await self._publish_through(runner, addresses)
            self._say("everything is published; waiting until everything has arrived")
            async with asyncio.timeout(PATIENCE_S):
                await runner.settle()
            in_doubt = sum(one.in_doubt for one in runner.running.values())
            return self.tally.result(in_doubt)
        finally:
            await runner.close()

    async def _publish_through(self, runner: Runner, addresses: dict[str, str]) -> None:
        """Let publishers publish while the network is disturbed."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._events(runner, addresses))
                await runner.run()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def _note_delivered(self, one: RunningClient, place: int, event: Event) -> None:
        self.tally.note_delivered(one, place, event, time_ns())

    async def _events(self, runner: Runner, addresses: dict[str, str]) -> None:
        """Disturb the network while it works: cut a link, move a subscriber, apply a plan."""
        third = self.seconds / 3
        while not self.tally.published:  # the clock starts with the first publication
            await asyncio.sleep(0.01)
        self._say("subscribers are ready, publishers publish")
        calm_ns = time_ns()
        await asyncio.sleep(third)
        assert self._proxy is not None
        self._proxy.cut()
        began = time_ns()
        self._say(f"✂ the link {CUT[0]} – {CUT[1]} is cut: what has to cross it waits")
        await asyncio.sleep(third / 2)
        self._proxy.restore()
        self.cut_ns = (began, time_ns())
        self._say(f"the link {CUT[0]} – {CUT[1]} can be dialled again")
        await asyncio.sleep(third / 2)
        mover = runner.running[MOVER].client
        self._say(f"{MOVER} moves from {mover.broker} to {MOVES_TO}")
        began = time_ns()
        await mover.move_to(addresses[MOVES_TO])
        self._say(
            f"{MOVER} lives at {mover.broker} now, after {(time_ns() - began) / MILLISECOND:.0f} ms"
        )
        if self.with_plan:
            await asyncio.sleep(third)
            again_ns = await self._replan(runner, addresses)
            await asyncio.sleep(self.seconds / 2)
            self._calm = Calm(calm_ns, self.cut_ns[0], again_ns, time_ns())
            runner.seconds = 0.0  # nobody publishes any more

    async def _replan(self, runner: Runner, addresses: dict[str, str]) -> int:
        """Switch to a network planned from traces; the time from which only that one runs."""
        self._say("Spark reads what brokers recorded, and plans fewer brokers; publishers go on")
        await make_plan(self.files, addresses, self._say)
        await apply_plan(self.files, self._say)
        began = time_ns()
        homes = read_plan(self.files.plan).subscriptions
        astray = [name for name, one in runner.running.items() if one.client.broker != homes[name]]
        if astray:
            raise NetworkError(f"not where the plan has them: {', '.join(astray)}")
        self._say(f"all {len(homes)} clients are where the plan has them")
        return began

    async def report(self) -> tuple[TrafficFigures, TrafficFigures] | None:
        """What traces say of the network before anything was done to it, and of the planned one; once brokers have
        stopped, and so written everything."""
        if self._calm is None:
            return None
        self._say("Spark reads what brokers recorded, before and after")
        return await make_report(self.files, self._calm, self._say)

    def look(self) -> None:
        """Ask all brokers for their status."""
        self.processes.check()
        for name in self.topology.brokers:
            try:
                self.statuses[name] = self.processes.status(name)
            except AskError:
                continue  # too busy to answer: its last words stand

    def latency_while_links_were_up(self) -> tuple[float, float]:
        """p50 and p99 in ms of what was published while all links stood."""
        began, ended = self.cut_ns
        # What waited is sent all at once when the link is back, and is in the way of others for a moment.
        margin = 1_500_000_000
        took = [t for at, t in self.tally.latencies_ns if not began <= at <= ended + margin]
        return quantile_ms(took, 0.50), quantile_ms(took, 0.99)
