"""What a migration costs an application: `make bench-migration`. Real brokers, real sockets, the public client.

Fifteen broker processes in a balanced tree. Four publishers in a process of their own publish 200 events a second each
and migrate between leaves every 20 events, always across the root: six links one way, and they pass each other. A
subscriber in another process, at one of the inner brokers, receives everything and counts.

pause_ms     for how long a publisher could not publish: from the pause to the resumption, as it saw it
lost         events that did not come; doubled: that came again; disordered: that came after a later one

    make bench-migration                          four hundred migrations (a minute)
    make bench-migration ARGS='--quick'           few, without targets
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from itertools import count
from math import ceil
from pathlib import Path
from typing import Any

import runnel
from broker_processes import SpawnedBroker
from common import Row, Target, finish, judge, machine, print_table, with_verdicts
from runnel.client.publisher import Publisher
from runnel.net.loops import run

BROKERS = 15
PUBLISHERS = 4
GAP_S = 0.005
MIGRATIONS = 100  # of each publisher
EVENTS_BETWEEN = 20
COLUMNS = (
    *("brokers", "links", "publishers", "events_per_s", "migrations", "events"),
    *("pause_p50_ms", "pause_p99_ms", "pause_max_ms", "lost", "doubled", "disordered", "asked", ""),
)
TARGETS = (
    Target("pause_p99_ms", 50, at_most=True),
    *(Target(what, 0, at_most=True) for what in ("lost", "doubled", "disordered")),
)


async def publishers(urls: list[str], migrations: int) -> None:
    """Publish and migrate; then say how many events there were, and the pauses."""
    async with AsyncExitStack() as stack:
        found = []
        for n in range(PUBLISHERS):
            client = await stack.enter_async_context(runnel.connect(urls[n]))
            found.append(await client.advertise("n >= 0", name=f"p{n}"))
        enough = asyncio.Event()
        tasks = [asyncio.create_task(publish(one, enough)) for one in found]
        ways = [(urls[-1 - n], urls[n]) for n in range(PUBLISHERS)]
        moved = await asyncio.gather(
            *(migrate(one, way, migrations) for one, way in zip(found, ways, strict=True))
        )
        enough.set()
        await asyncio.gather(*tasks)
        pauses = [pause for one in moved for pause in one]
        print(json.dumps({"pauses": pauses, "events": {p.name: p.published for p in found}}))


async def publish(publisher: Publisher, enough: asyncio.Event) -> None:
    """At a steady rate: what was late is made up for."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    for n in count():
        if enough.is_set():
            return
        await publisher.publish({"n": n})
        due += GAP_S
        await asyncio.sleep(max(0.0, due - loop.time()))


async def migrate(publisher: Publisher, way: tuple[str, str], times: int) -> list[float]:
    """To and fro; how long each pause was."""
    pauses = []
    for number in range(times):
        enough = publisher.published + EVENTS_BETWEEN
        while publisher.published < enough:
            await asyncio.sleep(GAP_S)
        await publisher.migrate_to(way[number % 2])
        pauses.append(publisher.pause_s)
    return pauses


async def subscriber(url: str) -> None:
    """Count until told how many there were; then say what came of them."""
    seen: dict[str, Counter[int]] = {}
    last: dict[str, int] = {}
    disordered = 0
    async with runnel.connect(url) as client:
        subscription = await client.subscribe("n >= 0")
        print("ready", flush=True)
        told = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        while True:
            try:
                event = await subscription.get(1.0)
            except TimeoutError:
                if told.done():  # and nothing has come for a while
                    break
                continue
            name, n = event.publisher, event["n"]
            assert isinstance(n, int)
            disordered += n < last.get(name, -1)
            last[name] = n
            seen.setdefault(name, Counter())[n] += 1
    events = json.loads(told.result())
    lost = sum(count - len(seen.get(name, ())) for name, count in events.items())
    doubled = sum(times - 1 for counts in seen.values() for times in counts.values())
    print(json.dumps({"lost": lost, "doubled": doubled, "disordered": disordered}))


def start_role(stack: ExitStack, role: str, **parameters: Any) -> subprocess.Popen[str]:
    """A process of this file that plays one part."""
    command = [sys.executable, __file__, "--role", role, "--parameters", json.dumps(parameters)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a process says."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit("a client process ended too early")
    return line


def measure(migrations: int) -> Row:
    """Start everything; let it run; the row."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        brokers: list[SpawnedBroker] = []
        for n in range(1, BROKERS + 1):
            broker = SpawnedBroker(f"B{n}", brokers[n // 2 - 1] if n > 1 else None, folder)
            stack.callback(broker.process.wait)
            stack.callback(broker.process.kill)
            brokers.append(broker)
        urls = [broker.url for broker in brokers[BROKERS // 2 :]]
        reader = start_role(stack, "subscriber", url=brokers[4].url)
        assert line_of(reader) == "ready\n" and reader.stdin is not None
        said = json.loads(
            line_of(start_role(stack, "publishers", urls=urls, migrations=migrations))
        )
        reader.stdin.write(json.dumps(said["events"]) + "\n")
        outcome = json.loads(line_of(reader))
    pauses = sorted(said["pauses"])
    return {
        "brokers": BROKERS,
        "links": 6,
        "publishers": PUBLISHERS,
        "events_per_s": round(PUBLISHERS / GAP_S),
        "migrations": len(pauses),
        "events": sum(said["events"].values()),
        "pause_p50_ms": nearest_rank(pauses, 0.50),
        "pause_p99_ms": nearest_rank(pauses, 0.99),
        "pause_max_ms": nearest_rank(pauses, 1.0),
        **outcome,
    }


def nearest_rank(ordered_s: list[float], share: float) -> float:
    """A percentile, in milliseconds."""
    return round(1_000 * ordered_s[max(0, ceil(share * len(ordered_s)) - 1)], 1)


def main() -> None:
    """Measure, or play a part."""
    parser = argparse.ArgumentParser(description="Measure the migration of publishers.")
    parser.add_argument("--quick", action="store_true", help="few, without targets")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--parameters", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        roles: dict[str, Callable[..., Coroutine[Any, Any, None]]]
        roles = {"publishers": publishers, "subscriber": subscriber}
        run(roles[arguments.role](**json.loads(arguments.parameters)))
        return
    about = machine()
    row = measure(3 if arguments.quick else MIGRATIONS)
    rows = [row if arguments.quick else judge(row, TARGETS)]
    print_table("migration", COLUMNS, with_verdicts(rows))
    finish("migration", rows, about)


if __name__ == "__main__":
    main()
