"""The brokers of a topology as real processes: started together, waited for, ended together.

Ports that may be any are reserved here first (bound, not listened on, until their broker listens), so that every
broker knows where its neighbours are to be found before any of them runs.

Rule: nothing is left behind. Whoever calls `start` calls `stop`, whatever happened in between; `with` does it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from runnel.errors import InputError, NetworkError, RunnelError
from runnel.inspection.ask import AskError, ask
from runnel.inspection.questions import Status
from runnel.net.addresses import Address, parse_address
from runnel.topology.plan import LinkOf, Topology
from runnel.topology.state import BrokerState

START_TIMEOUT_S = 60.0
LINKS_TIMEOUT_S = 60.0
ASK_AGAIN_S = 0.05
STOP_GRACE_S = 5.0  # beyond what a broker may take to drain
LOG_LINES_SHOWN = 5
Progress = Callable[[str], None]


@dataclass(slots=True)
class BrokerProcess:
    """One broker that runs."""

    name: str
    address: Address
    log: Path
    config: Path
    process: subprocess.Popen[bytes]

    @property
    def state(self) -> BrokerState:
        """What others are to know of it."""
        return BrokerState(self.process.pid, str(self.address), str(self.log), str(self.config))

    def complain(self, others: int) -> RunnelError:
        """It has ended although nobody asked it to, and so many others are going to be stopped for it."""
        code = self.process.poll()
        last = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        shown = "\n".join(f"  {line}" for line in last[-LOG_LINES_SHOWN:])
        kind = InputError if code == 2 else NetworkError
        was = "was" if others == 1 else "were"
        so = f", so the other {others} {was} stopped" if others else ""
        says = f"{self.log} ends with\n{shown}" if shown else f"{self.log} is empty"
        return kind(f"broker {self.name} {how_it_ended(code)}{so}; {says}")


def how_it_ended(code: int | None) -> str:
    """An exit code in words.

    >>> how_it_ended(-9), how_it_ended(2)
    ('was killed by SIGKILL', 'ended with exit code 2')
    """
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


class Processes:
    """All brokers of a topology; see the top of the file."""

    def __init__(self, topology: Topology, folder: Path) -> None:
        self.topology = topology
        self.folder = folder
        self.brokers: dict[str, BrokerProcess] = {}
        self.checkpoint: Callable[[], None] = lambda: None  # may raise, to give up waiting
        self.dialled_at: dict[LinkOf, str] = {}  # links that are to be dialled elsewhere: a proxy
        self._reserved: dict[str, socket.socket] = {}
        self._ready: dict[str, int] = {}  # where each broker will say that it listens

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    # -- up -------------------------------------------------------------------------------------------

    def reserve(self) -> dict[str, Address]:
        """Settle where each broker is going to listen."""
        addresses = {}
        for name, plan in self.topology.brokers.items():
            wanted = parse_address(plan.listen)
            if wanted.port == 0:
                family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
                reserved = self._reserved[name] = socket.socket(family)
                reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                reserved.bind((wanted.host, 0))
                wanted = Address(wanted.host, reserved.getsockname()[1])
            addresses[name] = wanted
        return addresses

    def start(self, addresses: Mapping[str, Address], progress: Progress = lambda _: None) -> None:
        """Start all, and wait until all accept connections."""
        self.folder.mkdir(parents=True, exist_ok=True)
        at = {
            (one, other): self.dialled_at.get((one, other), str(addresses[other]))
            for one, other in self.topology.links
        }
        for name, address in addresses.items():
            host = f"[{address.host}]" if ":" in address.host else address.host
            tables = self.topology.node_tables(name, f"{host}:{address.port}", at)
            self.checkpoint()
            self._start_one(name, address, tables)
        for name in self.topology.brokers:
            self._wait_until_ready(name)
            self.checkpoint()
            progress(name)
        self._release()

    def _start_one(self, name: str, address: Address, tables: dict[str, Any]) -> None:
        config, log = self.folder / f"{name}.toml", self.folder / f"{name}.log"
        place = self.folder / f"{name}.place"
        place.unlink(missing_ok=True)  # of a network that ran here before
        tables = {"state": str(place.absolute()), **tables}
        config.write_text(write_toml(tables), encoding="utf-8")
        readable, writable = os.pipe()
        self._ready[name] = readable
        command = [
            *(sys.executable, "-m", "runnel", "broker"),
            *("--config", str(config), "--ready-fd", str(writable)),
        ]
        try:
            with log.open("wb") as out:
                # A session of its own: Ctrl-C in the terminal is for us, and we end brokers in good order.
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    pass_fds=(writable,),
                    start_new_session=True,
                )
        finally:
            os.close(writable)
        self.brokers[name] = BrokerProcess(name, address, log, config, process)

    def _wait_until_ready(self, name: str) -> None:
        """It writes its address when it accepts; if it ends before, there is nothing to be read."""
        readable = self._ready.pop(name)
        try:
            found, _, _ = select.select([readable], [], [], START_TIMEOUT_S)
            if not found:
                raise NetworkError(f"broker {name} did not start within {START_TIMEOUT_S:g} s")
            if not os.read(readable, 1_000):
                self.brokers[name].process.wait(START_TIMEOUT_S)
                raise self._complain(name)
        finally:
            os.close(readable)

    def wait_for_links(self, progress: Progress = lambda _: None) -> None:
        """Ask the brokers until each says that all its links are up."""
        deadline = time.monotonic() + LINKS_TIMEOUT_S
        missing = dict.fromkeys(self.topology.links)
        while missing:
            self.checkpoint()
            self.check()
            for one, other in list(missing):
                if other in self._links_up(one):
                    del missing[one, other]
                    progress(f"{one} – {other}")
            if missing:
                if time.monotonic() > deadline:
                    pairs = ", ".join(f"{one} – {other}" for one, other in missing)
                    raise NetworkError(
                        f"these links did not come up within {LINKS_TIMEOUT_S:g} s: {pairs}; "
                        f"the logs in {self.folder} may tell why"
                    )
                time.sleep(ASK_AGAIN_S)

    def _links_up(self, broker: str) -> list[str]:
        try:
            links = self.status(broker)["links"]
        except AskError:
            return []  # it may be about to end, which `check` will tell
        return [link["name"] for link in links if link["up"]]

    # -- while it runs --------------------------------------------------------------------------------

    def status(self, broker: str) -> dict[str, Any]:
        """What a broker says of itself."""
        address = self.brokers[broker].address
        return ask(address.host, address.port, Status())

    def check(self) -> None:
        """Raise if a broker has ended by itself."""
        for name, broker in self.brokers.items():
            if broker.process.poll() is not None:
                raise self._complain(name)

    def _complain(self, name: str) -> RunnelError:
        """Whoever gets this stops the others; nobody goes on with half a network."""
        living = [one for one in self.brokers.values() if one.process.poll() is None]
        return self.brokers[name].complain(len(living))

    # -- down -----------------------------------------------------------------------------------------

    def stop(self, within_s: float | None = None) -> dict[str, int]:
        """End all, in good order if they will (in the time that they may take to drain); their exit codes."""
        self._release()
        for broker in self.brokers.values():
            if broker.process.poll() is None:
                broker.process.terminate()
        if within_s is None:
            plans = self.topology.brokers.values()
            within_s = STOP_GRACE_S + max(float(b.settings.get("drain_s", 10)) for b in plans)
        deadline = time.monotonic() + within_s
        codes = {}
        for name, broker in self.brokers.items():
            try:
                broker.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                broker.process.kill()
                broker.process.wait()
            codes[name] = broker.process.returncode
        self.brokers.clear()
        return codes

    def _release(self) -> None:
        for reserved in self._reserved.values():
            reserved.close()
        self._reserved.clear()
        for readable in self._ready.values():
            os.close(readable)
        self._ready.clear()


def write_toml(tables: Mapping[str, Any], path: str = "") -> str:
    """Write nested tables of text, numbers and true/false as TOML.

    >>> print(write_toml({"name": "B1", "log": {"level": "info"}}))
    "name" = "B1"
    <BLANKLINE>
    ["log"]
    "level" = "info"
    <BLANKLINE>
    """
    plain = [(key, value) for key, value in tables.items() if not isinstance(value, Mapping)]
    text = "".join(f"{_quoted(key)} = {_quoted(value)}\n" for key, value in plain)
    for key, value in tables.items():
        if isinstance(value, Mapping):
            inner = f"{path}{_quoted(key)}"
            text += f"\n[{inner}]\n" + write_toml(value, f"{inner}.")
    return text


def _quoted(value: object) -> str:
    # JSON writes text, numbers and booleans the way TOML reads them; DEL alone it leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
