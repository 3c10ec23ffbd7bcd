"""The brokers of a topology as real processes: starts all, waits until they are ready, and ends all.

A broker that may use any port gets one that is reserved here first (bound, not listened on, until the broker
listens), so that all addresses are known before the first broker starts.

Rule: no process is left behind. The caller of `start` has to call `stop`, whatever happened in between; `with` does it.
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
from typing import Any

from runnel.errors import InputError, NetworkError, RunnelError
from runnel.modules.inspection.questions import Status
from runnel.net.addresses import Address, parse_address
from runnel.network.state import BrokerState
from runnel.network.topology import LinkOf, Topology
from runnel.operate.ask import AskError, ask

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
        """The broker's entry in the state file."""
        return BrokerState(self.process.pid, str(self.address), str(self.log), str(self.config))

    def end_error(self, others: int) -> RunnelError:
        """The error for a broker that has ended by itself; `others` brokers will be stopped because of it."""
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
        # Other addresses for links, such as those of proxies.
        self.dialled_at: dict[LinkOf, str] = {}
        self._reserved: dict[str, socket.socket] = {}
        self._ready: dict[str, int] = {}  # pipes on which brokers write when they listen

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # -- up -------------------------------------------------------------------------------------------

    def reserve(self) -> dict[str, Address]:
        """Determine the address of each broker, and reserve ports."""
        addresses = {}
        for name, plan in self.topology.brokers.items():
            wanted = parse_address(plan.listen)._replace(is_secure=plan.is_secure)
            if wanted.port == 0:
                family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
                reserved = self._reserved[name] = socket.socket(family)
                reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                reserved.bind((wanted.host, 0))
                wanted = wanted._replace(port=reserved.getsockname()[1])
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
            tables = self.topology.node_tables(name, address.short, at)
            self.checkpoint()
            self._start_one(name, address, tables)
        for name in self.topology.brokers:
            self._wait_until_ready(name)
            self.checkpoint()
            progress(name)
        self._release()

    def _start_one(self, name: str, address: Address, tables: dict[str, Any]) -> None:
        config, log = self.folder / f"{name}.toml", self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        place = self.folder / f"{name}.place"
        place.unlink(missing_ok=True)  # left by a network that ran here before
        tables = {"state": str(place.absolute()), **tables}
        config.write_text(write_toml(tables), encoding="utf-8")
        process = self._spawn(name, config, log)
        self.brokers[name] = BrokerProcess(name, address, log, config, process)

    def _spawn(self, name: str, config: Path, log: Path) -> subprocess.Popen[bytes]:
        readable, writable = os.pipe()
        self._ready[name] = readable
        command = [
            *(sys.executable, "-m", "runnel", "broker"),
            *("--config", str(config), "--ready-fd", str(writable)),
        ]
        try:
            with log.open("ab") as out:
                # A session of its own: Ctrl-C in the terminal is for this process, which then ends the brokers.
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    pass_fds=(writable,),
                    start_new_session=True,
                )
        finally:
            os.close(writable)

    def _wait_until_ready(self, name: str) -> None:
        """Wait until a broker writes its address to the pipe; if it ends before, the pipe is closed."""
        readable = self._ready.pop(name)
        try:
            found, _, _ = select.select([readable], [], [], START_TIMEOUT_S)
            if not found:
                raise NetworkError(f"broker {name} did not start within {START_TIMEOUT_S:g} s")
            if not os.read(readable, 1_000):
                self.brokers[name].process.wait(START_TIMEOUT_S)
                raise self._end_error(name)
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
                if other in self._links_that_are_up(one):
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

    def _links_that_are_up(self, broker: str) -> list[str]:
        try:
            links = self.status(broker)["links"]
        except AskError:
            return []  # it may be about to end, which `check` will detect
        return [link["name"] for link in links if link["up"]]

    # -- while it runs --------------------------------------------------------------------------------

    def status(self, broker: str) -> dict[str, Any]:
        """The status that a broker reports."""
        return ask(self.brokers[broker].address, Status())

    def has_ended(self, name: str) -> bool:
        """Whether a broker has ended."""
        return self.brokers[name].process.poll() is not None

    def start_again(self, name: str) -> None:
        """Start a broker that has ended, as it was before; it keeps its place in the network, and its log goes on."""
        broker = self.brokers[name]
        if (readable := self._ready.pop(name, None)) is not None:
            os.close(readable)
        broker.process = self._spawn(name, broker.config, broker.log)

    def has_become_ready(self, name: str) -> bool:
        """Whether a broker that was started again accepts connections; says so once."""
        readable = self._ready.get(name)
        if readable is None or not select.select([readable], [], [], 0)[0]:
            return False
        if is_ready := bool(os.read(readable, 1_000)):
            os.close(self._ready.pop(name))
        return is_ready

    def check(self) -> None:
        """Raise if a broker has ended by itself."""
        for name, broker in self.brokers.items():
            if broker.process.poll() is not None:
                raise self._end_error(name)

    def _end_error(self, name: str) -> RunnelError:
        """The error for a broker that has ended; its receiver stops the other brokers."""
        living = [one for one in self.brokers.values() if one.process.poll() is None]
        return self.brokers[name].end_error(len(living))

    # -- down -----------------------------------------------------------------------------------------

    def stop(self, within_s: float | None = None) -> dict[str, int]:
        """End all, by SIGTERM first and SIGKILL after the time that they may take to drain; returns the exit codes."""
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
    text = "".join(f"{_quote(key)} = {_quote(value)}\n" for key, value in plain)
    for key, value in tables.items():
        if isinstance(value, Mapping):
            inner = f"{path}{_quote(key)}"
            text += f"\n[{inner}]\n" + write_toml(value, f"{inner}.")
    return text


def _quote(value: object) -> str:
    # JSON writes text, numbers and booleans the way TOML reads them; DEL alone it leaves as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
