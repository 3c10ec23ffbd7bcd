"""What a live switch costs applications: `make bench-switch`. Real brokers, real sockets, the real commands.

Twenty broker processes in a binary tree keep profiles. Ten publishers in one process publish 20 events a second each;
two hundred subscribers in three processes, spread over all brokers, each receive the events of one publisher. Then,
under load, `runnel plan` and `runnel apply --yes`; and `runnel plan rollback --yes` to where it was.

brokers      how many serve, before and after
took_s       how long `runnel apply` took
gap_ms       the longest silence of each subscriber during the switch, minus the time between two events; p50, p99 and
             maximum over all subscribers
quiet_ms     the same for as long a time before the switch, for comparison
lost         events that did not come; doubled: that came again; disordered: that came after a later one

    make bench-switch                          three times there and back
    make bench-switch ARGS='--quick'           once, few clients, without targets
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import runnel
from common import Row, Target, finish, judge, machine, print_table, with_verdicts
from migration import line_of, nearest_rank
from runnel.client.publisher import Publisher
from runnel.client.subscription import Subscription
from runnel.net.loops import run

GAP_S = 0.05
PROCESSES = 3  # of subscribers
COLUMNS = (
    *("switch", "brokers", "publishers", "subscribers", "events", "took_s"),
    *("gap_p50_ms", "gap_p99_ms", "gap_max_ms", "quiet_p99_ms"),
    *("lost", "doubled", "disordered", "asked", ""),
)
TARGETS = (
    Target("gap_p99_ms", 100, at_most=True),
    *(Target(what, 0, at_most=True) for what in ("lost", "doubled", "disordered")),
)


async def publishers(urls: list[str], count: int) -> None:
    """Publish until stdin says so; then say how many there were of each."""
    async with AsyncExitStack() as stack:
        found = []
        for n in range(count):
            client = await stack.enter_async_context(runnel.connect(urls[n], name=f"p{n}"))
            found.append(await client.advertise(f"topic = {n}", name=f"topic{n}"))
        print("ready", flush=True)
        told = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        await asyncio.gather(*(publish(n, one, told) for n, one in enumerate(found)))
        for one in found:
            await one.flush()
        print(json.dumps([one.published for one in found]), flush=True)


async def publish(topic: int, publisher: Publisher, until: asyncio.Task[str]) -> None:
    """At a steady rate: what was late is made up for."""
    loop = asyncio.get_running_loop()
    due = loop.time() + topic * GAP_S / 10
    while not until.done():
        await publisher.publish({"topic": topic, "n": publisher.published})
        due += GAP_S
        await asyncio.sleep(max(0.0, due - loop.time()))


async def subscribers(urls: list[str], first: int, count: int, topics: int) -> None:
    """Note when each event comes; answer with the longest silences whenever a line with a span of time comes."""
    got: list[list[tuple[float, int]]] = [[] for _ in range(count)]
    async with AsyncExitStack() as stack:
        tasks = []
        for k in range(count):
            n = first + k
            client = runnel.connect(urls[n % len(urls)], name=f"s{n}")
            client = await stack.enter_async_context(client)
            subscription = await client.subscribe(f"topic = {n % topics}")
            tasks.append(asyncio.create_task(read(subscription, got[k])))
        print("ready", flush=True)
        while True:
            asked = json.loads(await asyncio.to_thread(sys.stdin.readline))
            if "published" in asked:
                break
            print(json.dumps([silence(events, *asked["span"]) for events in got]), flush=True)
        wanted = [asked["published"][(first + k) % topics] for k in range(count)]
        deadline = time.monotonic() + 10
        while any(len(g) < w for g, w in zip(got, wanted, strict=True)):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
    numbers = [[number for _, number in events] for events in got]
    pairs = list(zip(numbers, wanted, strict=True))
    outcome = {
        "lost": sum(w - len(set(g)) for g, w in pairs),
        "doubled": sum(len(g) - len(set(g)) for g in numbers),
        "disordered": sum(a > b for g in numbers for a, b in pairwise(g)),
    }
    print(json.dumps(outcome), flush=True)


async def read(subscription: Subscription, into: list[tuple[float, int]]) -> None:
    """Everything that comes, and when."""
    async for event in subscription:
        number = event["n"]
        assert isinstance(number, int)
        into.append((time.monotonic(), number))


def silence(events: list[tuple[float, int]], begin: float, end: float) -> float:
    """The longest time between two events that overlaps a span of time, less what lies between two anyway."""
    times = [at for at, _ in events]
    between = [b - a for a, b in pairwise(times) if b > begin and a < end]
    return max(0.0, max(between, default=0.0) - GAP_S)


class SwitchedNetwork:
    """All processes, brokers and clients."""

    def __init__(self, stack: ExitStack, brokers: int, publishers: int, subscribers: int) -> None:
        self._stack = stack
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.urls: list[str] = []
        for n in range(1, brokers + 1):
            self.urls.append(self._broker(n))
        each = ceil(subscribers / PROCESSES)
        self.readers = [
            self._role("subscribers", first=k * each, count=each, topics=publishers)
            for k in range(PROCESSES)
        ]
        self.subscribers = each * PROCESSES
        for one in self.readers:
            assert line_of(one) == "ready\n"
        self.writer = self._role("publishers", count=publishers)
        assert line_of(self.writer) == "ready\n"

    def _broker(self, n: int) -> str:
        reads, writes = os.pipe()
        config = self.folder / f"B{n}.toml"
        parent = f"B{n // 2}"
        dialled = f'{parent} = "{self.urls[n // 2 - 1]}"' if n > 1 else ""
        config.write_text(
            f'name = "B{n}"\nlisten = "127.0.0.1:0"\nstate = "{self.folder}/B{n}.place"\n'
            f'[neighbours]\n{dialled}\n[log]\nlevel = "warning"\n'
            "[profiles]\nenabled = true\noutput_bytes_per_s = 100000\n"
        )
        command = [*RUNNEL, "broker", "--config", str(config), "--ready-fd", str(writes)]
        process = subprocess.Popen(command, pass_fds=(writes,))
        os.close(writes)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        with os.fdopen(reads) as ready:
            return ready.readline().strip()

    def _role(self, role: str, **parameters: Any) -> subprocess.Popen[str]:
        text = json.dumps({"urls": self.urls, **parameters})
        process = subprocess.Popen(
            [sys.executable, __file__, "--role", role, "--parameters", text],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process

    def runnel(self, *arguments: str) -> str:
        """Run a command as an operator does."""
        done = subprocess.run(
            [*RUNNEL, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            raise SystemExit(f"runnel {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def silences(self, begin: float, end: float) -> list[float]:
        """The longest of each subscriber, in order."""
        found: list[float] = []
        for reader in self.readers:
            assert reader.stdin is not None
            reader.stdin.write(json.dumps({"span": [begin, end]}) + "\n")
            found += json.loads(line_of(reader))
        return sorted(found)

    def end(self) -> Row:
        """Stop publishing; what came of it all."""
        assert self.writer.stdin is not None
        self.writer.stdin.write("enough\n")
        published = json.loads(line_of(self.writer))
        total: Row = {"events": sum(published), "lost": 0, "doubled": 0, "disordered": 0}
        for reader in self.readers:
            assert reader.stdin is not None
            reader.stdin.write(json.dumps({"published": published}) + "\n")
            for what, count in json.loads(line_of(reader)).items():
                total[what] += count
        return total


RUNNEL = [sys.executable, "-m", "runnel"]


def measure(brokers: int, publishers: int, subscribers: int, profile_s: float) -> list[Row]:
    """There and back once; two rows."""
    with ExitStack() as stack:
        network = SwitchedNetwork(stack, brokers, publishers, subscribers)
        time.sleep(profile_s)  # for profiles to fill: what is measured comes after it
        network.runnel("plan", network.urls[0], "--out", "plan.json", "--sample", "50")
        rows = []
        plan = json.loads((network.folder / "plan.json").read_text())
        after = len(plan["overlay"])
        for what, command in (
            (f"{brokers} → {after}", ("apply", "plan.json", "--yes")),
            (f"{after} → {brokers}", ("plan", "rollback", "plan.json", "--yes")),
        ):
            began = time.monotonic()
            network.runnel(*command)
            took = time.monotonic() - began
            gaps = network.silences(began, began + took)
            quiet = network.silences(began - took, began)
            rows.append(
                {
                    "switch": command[0],
                    "brokers": what,
                    "publishers": publishers,
                    "subscribers": network.subscribers,
                    "took_s": round(took, 2),
                    "gap_p50_ms": nearest_rank(gaps, 0.5),
                    "gap_p99_ms": nearest_rank(gaps, 0.99),
                    "gap_max_ms": nearest_rank(gaps, 1.0),
                    "quiet_p99_ms": nearest_rank(quiet, 0.99),
                }
            )
            time.sleep(took)  # a quiet stretch to compare the next with
        total = network.end()
    return [row | total for row in rows]


def main() -> None:
    """Measure, or play a part."""
    parser = argparse.ArgumentParser(description="Measure a live switch.")
    parser.add_argument("--quick", action="store_true", help="small, once, held to nothing")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--parameters", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        roles: dict[str, Callable[..., Coroutine[Any, Any, None]]]
        roles = {"publishers": publishers, "subscribers": subscribers}
        run(roles[arguments.role](**json.loads(arguments.parameters)))
        return
    about = machine()
    rows: list[Row] = []
    for _ in range(1 if arguments.quick else 3):
        rows += measure(6, 3, 12, 8.0) if arguments.quick else measure(20, 10, 200, 15.0)
    rows = rows if arguments.quick else [judge(row, TARGETS) for row in rows]
    print_table("switch", COLUMNS, with_verdicts(rows))
    finish("switch", rows, about)


if __name__ == "__main__":
    main()
