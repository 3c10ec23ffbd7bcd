"""The processes of `broker.py`: brokers, and the roles that clients play.

A role runs `python broker_processes.py ROLE JSON` and talks to the bench in lines on stdout.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import perf_counter, time_ns
from typing import Any

import runnel
from runnel.client.aio import Client
from runnel.client.publisher import Publisher
from runnel.client.subscription import Subscription
from runnel.net.loops import run
from runnel.network.processes import write_toml
from runnel.node.access.passwords import make_hash
from runnel.operate.certificate_folder import CertificateFolder
from runnel.workload.stocks import synthetic_quotes

CLIENT = "client"
"""Whom the certificate is for that all roles show, with TLS."""

USER, PASSWORD = "bench", "a password of the bench"
AS_USER = {"RUNNEL_USER": USER, "RUNNEL_PASSWORD": PASSWORD}
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
TOKENS_MAX = 8  # how many times the subscriber reports back within one window
LATENCY_EVERY = 50  # of a full window; a ping-pong is measured every time


# -- brokers -------------------------------------------------------------------------------------------


class SpawnedBroker:
    """A broker process."""

    def __init__(
        self,
        name: str,
        neighbour: SpawnedBroker | None,
        folder: Path,
        sample: int = 0,
        certificates: CertificateFolder | None = None,
        rules: Path | None = None,
        accept: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.tls = None if certificates is None else certificates.tls(CLIENT)
        self.environment = {} if self.tls is None else self.tls.as_environment()
        self.environment |= {} if rules is None else AS_USER
        reads, writes = os.pipe()
        command = [sys.executable, "-m", "runnel", "broker", "--name", name]
        command += ["--listen", "127.0.0.1:0", "--ready-fd", str(writes), "--log-level", "warning"]
        if neighbour is not None:
            command += ["--neighbour", f"{neighbour.name}={neighbour.url}"]
        tables: dict[str, Any] = {"accept": accept}
        if sample:
            tables["trace"] = {"dir": str(folder / "trace"), "sample": sample}
        if certificates is not None:
            tables["tls"] = certificates.node_table(name)
        if rules is not None:
            tables["access"] = {"file": str(rules)}
        config = folder / f"{name}.toml"
        config.write_text(write_toml(tables))
        command += ["--config", str(config)]
        self.process = subprocess.Popen(command, pass_fds=(writes,))
        os.close(writes)
        with os.fdopen(reads) as ready:
            self.url: str = ready.readline().strip()
        if not self.url:
            raise SystemExit(f"the broker {name} did not start")

    def cpu_s(self) -> float:
        """The CPU that it has taken so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


@contextmanager
def chain(
    length: int,
    sample: int = 0,
    certificates: CertificateFolder | None = None,
    *,
    has_rules: bool = False,
) -> Iterator[list[SpawnedBroker]]:
    """So many brokers, each joined to the one before; with a trace of one publication in `sample`, if not 0."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        brokers: list[SpawnedBroker] = []
        rules = _write_rules(folder) if has_rules else None
        for number in range(length):
            broker = SpawnedBroker(
                f"B{number + 1}",
                brokers[-1] if brokers else None,
                folder,
                sample,
                certificates,
                rules,
                accept=[f"B{number + 2}"] if number + 1 < length else [],
            )
            stack.callback(_end, broker.process)
            brokers.append(broker)
        yield brokers


def _write_rules(folder: Path) -> Path:
    """An access file with the user that all roles are: it may do what they do, and no more."""
    path = folder / "access.toml"
    rules = ["symbol = 'WANTED' AND price >= 0", "symbol = 'WANTED' AND volume >= 0"]
    user = {"password": make_hash(PASSWORD), "subscribe": ["TRUE"], "publish": rules}
    path.write_text(write_toml({"users": {USER: user}}))
    return path


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """At once: how brokers and clients leave is not what is measured."""
    process.kill()
    process.wait()


# -- roles ---------------------------------------------------------------------------------------------


class Role:
    """A client process, as the bench sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def line(self) -> str:
        """The next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a client process ended too early")
        return line.strip()

    def wait_for(self, word: str) -> None:
        """Until it says so."""
        while self.line() != word:
            pass

    def stop(self) -> None:
        """It has done enough."""
        _end(self._process)


@contextmanager
def start_role(
    role: str, broker: SpawnedBroker, *, pass_fds: tuple[int, ...] = (), **parameters: Any
) -> Iterator[Role]:
    """A client process at a broker."""
    command = [sys.executable, __file__, role, json.dumps(parameters | {"url": broker.url})]
    environment = os.environ | broker.environment
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, pass_fds=pass_fds, env=environment
    )
    try:
        yield Role(process)
    finally:
        _end(process)


def events_of(kind: str) -> list[dict[str, Any]]:
    """What is published, again and again."""
    if kind == "quote":
        quotes = synthetic_quotes(symbol_count=1, days=100)
        return [dict(quote) | {"symbol": "WANTED"} for quote in quotes]
    return [{"symbol": "WANTED", "price": 10.0 + n, "volume": 1_000 * n} for n in range(100)]


async def crowd(url: str, count: int) -> None:
    """Hold subscriptions that nothing matches."""
    async with runnel.connect(url) as client:
        held = [
            await client.subscribe(f"symbol = 'S{n:05}' AND volume > {n}", wait="nothing")
            for n in range(count)
        ]
        if held:
            await held[-1].ready()
        print("ready", flush=True)
        await asyncio.Event().wait()


async def subscriber(
    url: str, tokens: int, event: str, window: int, subscribers: int, slice_count: int
) -> None:
    """Take what comes; hand tokens back; report slices."""
    clients = [await runnel.connect(url) for _ in range(subscribers)]
    subscriptions = [await client.subscribe("symbol = 'WANTED'") for client in clients]
    print("ready", flush=True)
    slices = Slices(slice_count)
    give_back = max(1, window // TOKENS_MAX)
    first, *others = subscriptions
    tasks = [asyncio.create_task(_take(other, slices)) for other in others]
    taken = 0
    every = 1 if window == 1 else LATENCY_EVERY
    async for got in first:
        taken += 1
        if taken % every == 1 or every == 1:
            slices.latencies_us.append((time_ns() - got.time_ns) / 1_000)
        slices.count += 1
        if slices.count >= slice_count:
            slices.report()
        if taken % give_back == 0:
            os.write(tokens, b".")
    del tasks, clients


async def _take(subscription: Subscription, slices: Slices) -> None:
    async for _ in subscription:
        slices.count += 1


class Slices:
    """Counts deliveries, and tells after so many."""

    def __init__(self, slice_count: int) -> None:
        self.slice_count = slice_count
        self.count = slice_count  # the first delivery begins the first slice
        self.latencies_us: list[float] = []

    def report(self) -> None:
        """A slice is full."""
        self.count -= self.slice_count
        told = {"at": perf_counter(), "latencies_us": self.latencies_us}
        print(json.dumps(told), flush=True)
        self.latencies_us = []


async def publisher(
    url: str, tokens: int, event: str, window: int, subscribers: int, slice_count: int
) -> None:
    """Publish as long as there are tokens."""
    async with runnel.connect(url) as client:
        publishing = await client.advertise("symbol = 'WANTED'")
        await _publish(client, publishing, events_of(event), tokens, window)


async def _publish(
    client: Client,
    publishing: Publisher,
    events: list[dict[str, Any]],
    tokens: int,
    window: int,
) -> None:
    loop = asyncio.get_running_loop()
    allowed, number, worth = window, 0, max(1, window // TOKENS_MAX)
    woken = asyncio.Event()
    os.set_blocking(tokens, False)

    def more() -> None:
        nonlocal allowed
        allowed += worth * len(os.read(tokens, 4_096))
        woken.set()

    loop.add_reader(tokens, more)
    while True:
        while not allowed:
            woken.clear()
            await woken.wait()
        await publishing.wait_credit()
        for _ in range(min(allowed, publishing.credit, worth)):
            publishing.publish_nowait(events[number % len(events)])
            number += 1
            allowed -= 1
        await asyncio.sleep(0)


if __name__ == "__main__":
    roles: dict[str, Callable[..., Coroutine[Any, Any, None]]]
    roles = {"crowd": crowd, "subscriber": subscriber, "publisher": publisher}
    with suppress(KeyboardInterrupt):
        run(roles[sys.argv[1]](**json.loads(sys.argv[2])))
