"""The world: a clock, a heap, hosts, a network. One seed gives one history, whatever the hash seed.

Time is integer nanoseconds; what happens at the same time happens in the order it was scheduled. A host runs a
broker or a session, the very code that ships, and the world is its driver: it brings events and carries out effects.
What arrives at a broker while it matches waits in an inbox (net/inbox.py), where monitoring overtakes data. All events
and all effects for applications go into the log hash, unless it is switched off to save time (`logs=False`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Any, Protocol
from zlib import crc32

from runnel.broker.broker import Broker
from runnel.broker.effects import Close, Connect, SendMany, SendSame, SetTimer
from runnel.broker.events import Event, FramesArrived, TimerFired
from runnel.broker.gauges import Gauges
from runnel.client.effects import Deliver
from runnel.client.session import Session
from runnel.net.driver import Machine
from runnel.net.inbox import Inbox
from runnel.sim.matcher import SharedMatcher
from runnel.sim.network import SimulatedNetwork
from runnel.sim.resources import Resources, memory_used


class Watcher(Protocol):
    """Observes a world, as the checker does."""

    observes_brokers: bool  # whether `after_event` is called

    def handle_effect(self, host: Host, effect: Any) -> None:
        """A broker traced something, or a session has an effect for its application."""
        ...

    def after_event(self, host: Host, broker: Broker) -> None:
        """A broker took in an event."""
        ...


class Host:
    """Where a broker, a session or an operator's client runs; `machine` is None while none does."""

    __slots__ = (
        "busy_until",
        "inbox",
        "incarnation",
        "machine",
        "name",
        "out_free_at",
        "publications_in",
        "reads",
        "reads_every_ns",
        "resources",
        "sending_ns",
        "timers",
        "unread",
        "waking",
    )

    def __init__(self, name: str, resources: Resources) -> None:
        self.name = name
        self.resources = resources
        self.machine: Broker | Session | Machine | None = None
        self.incarnation = 0
        self.timers: dict[str, int] = {}
        self.inbox = Inbox()  # what waits for a broker's matcher
        self.unread: deque[Event] = deque()  # by a slow consumer
        self.reads = True  # False for a slow consumer
        self.reads_every_ns = 0  # if not 0, everything that has arrived is read once per this time
        self.busy_until = 0
        self.out_free_at = 0
        self.publications_in = 0  # by the broker that runs here
        self.sending_ns = 0  # how long it has been sending
        self.waking = False

    def gauges(self) -> Gauges:
        """The gauges of the broker that runs here; its processor is used for matching only."""
        broker = self.machine
        assert isinstance(broker, Broker)
        return Gauges(
            cpu_ns=broker.meter.matching_ns,
            memory_bytes=memory_used(broker),
            memory_bytes_max=self.resources.memory_bytes,
            output_busy_ns=self.sending_ns if self.resources.output_bytes_per_second else None,
            waiting_publications=self.inbox.publications,
            waiting_bytes=self.inbox.waiting_bytes,
        )

    def stop(self) -> None:
        """Stop what runs here; everything that it had under way is lost."""
        self.machine = None
        self.incarnation += 1
        self.timers.clear()
        self.inbox = Inbox()
        self.unread.clear()
        self.reads, self.waking, self.reads_every_ns = True, False, 0
        self.busy_until = self.out_free_at = self.publications_in = 0
        self.sending_ns = 0


class World:
    """All hosts, the network between them, and the clock."""

    def __init__(self, seed: int, watcher: Watcher | None = None, *, logs: bool = True) -> None:
        self.now = 0
        self.random = Random(seed)
        self.hosts: dict[str, Host] = {}
        self.matcher = SharedMatcher()
        self.network = SimulatedNetwork(self.random, lambda: self.now, self.at, self._arrive)
        self.watcher = watcher
        self._after_event = (
            watcher.after_event if watcher is not None and watcher.observes_brokers else None
        )
        self._logs = logs
        self.on_step: Callable[[int, str, Event], None] | None = None
        # What leaves where bandwidth is limited: host, connections, frames, when the first begins, how long each takes.
        self.on_write: Callable[[Host, Sequence[int], Sequence[bytes], int, int], None] | None = (
            None
        )
        self.events = 0
        self.handlings = 0  # frames that brokers took in, by machines that have stopped
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0
        self._digest = 0

    # -- time -----------------------------------------------------------------------------------------

    def at(self, when: int, do: Callable[..., None], *arguments: Any) -> None:
        """Do something at a time."""
        self._sequence += 1
        heappush(self._heap, (when, self._sequence, do, arguments))

    def run(self, until: int) -> None:
        """Run everything that is scheduled up to a time."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, do, arguments = heappop(heap)
            do(*arguments)
        self.now = until

    @property
    def log_hash(self) -> str:
        """A digest of everything that has happened."""
        return f"{self._digest:08x}-{self.events}"

    def log(self, text: str) -> None:
        """Add a text to the digest."""
        self._add_to_digest(text.encode())

    def _add_to_digest(self, what: bytes) -> None:
        # A checksum, not a cryptographic hash: it is taken of every chunk, and only tells runs apart.
        self._digest = crc32(what, self._digest ^ (self.now & 0xFFFFFFFF))

    # -- hosts ----------------------------------------------------------------------------------------

    def host(self, name: str, resources: Resources | None = None) -> Host:
        """The host of this name, made when first asked for."""
        host = self.hosts.get(name)
        if host is None:
            host = self.hosts[name] = Host(name, resources or Resources())
        return host

    def start(self, host: Host, machine: Broker | Session | Machine) -> None:
        """Run something on a host that runs nothing."""
        host.machine = machine
        if isinstance(machine, Broker):
            self.perform(host, machine.start(self.now))

    def crash(self, host: Host) -> None:
        """Stop what runs on a host, without any farewell."""
        machine = host.machine
        if isinstance(machine, Broker):
            self.handlings += machine.meter.publications_in + machine.meter.control_in
            for id in machine.tables.prt:
                self.matcher.remove(id)
        host.stop()
        self.network.break_host(host)

    def retire(self, host: Host) -> None:
        """Stop a broker that has ended by itself."""
        if isinstance(host.machine, Broker):
            meter = host.machine.meter
            self.handlings += meter.publications_in + meter.control_in
            host.stop()

    @property
    def brokers(self) -> list[Broker]:
        """The brokers that run."""
        return [h.machine for h in self.hosts.values() if isinstance(h.machine, Broker)]

    def flush(self, host: Host) -> None:
        """Carry out what calls to a session want done."""
        if isinstance(host.machine, Session):
            self.perform(host, host.machine.flush(self.now))

    def read_again(self, host: Host) -> None:
        """Let a slow consumer read again."""
        host.reads = True
        while host.unread:
            self._handle(host, host.unread.popleft())

    # -- events and effects ---------------------------------------------------------------------------

    def _arrive(self, host: Host, incarnation: int, event: Event) -> None:
        if host.incarnation != incarnation or host.machine is None:
            return
        if not host.reads:
            host.unread.append(event)
        elif not host.resources.takes_time or (
            host.busy_until <= self.now and host.inbox.lets_pass(event)
        ):
            self._handle(host, event)
        else:
            at_once = host.inbox.put(event)
            if at_once is not None:
                self._handle(host, at_once)
            self._match(host)

    def _match(self, host: Host) -> None:
        """Handle waiting events while the matcher is free."""
        while host.inbox and host.busy_until <= self.now:
            event, _ = host.inbox.take()
            self._handle(host, event)
        if host.inbox and not host.waking:
            host.waking = True
            self.at(host.busy_until, self._wake, host, host.incarnation)

    def _wake(self, host: Host, incarnation: int) -> None:
        if host.incarnation == incarnation:
            host.waking = False
            self._match(host)

    def _timer(self, host: Host, incarnation: int, timer: str, at: int) -> None:
        if host.incarnation == incarnation and host.timers.get(timer) == at:
            self._handle(host, TimerFired(timer))

    def _handle(self, host: Host, event: Event) -> None:
        machine = host.machine
        if machine is None:
            return
        self.events += 1
        if self._logs:
            self._add_to_digest(
                event.chunk if type(event) is FramesArrived else f"{host.name} {event!r}".encode()
            )
        if self.on_step is not None:
            self.on_step(self.now, host.name, event)
        effects: Any = machine.handle(event, self.now)
        if type(machine) is Broker:
            taken = machine.meter.publications_in - host.publications_in
            if taken:
                host.publications_in += taken
                resources = host.resources
                if resources.takes_time:
                    cost = resources.matching_ns(taken, len(machine.tables.prt))
                    host.busy_until = self.now + cost
                    machine.meter.add_matching(cost)
            if self._after_event is not None:
                self._after_event(host, machine)
        if effects:
            self.perform(host, effects)

    def perform(self, host: Host, effects: list[Any]) -> None:
        """Carry out what a broker or a session wants done."""
        send, limited = self.network.send, host.resources.output_bytes_per_second
        free_at = self.now
        if host.busy_until > free_at:
            free_at = host.busy_until
        if host.out_free_at > free_at:
            free_at = host.out_free_at
        for effect in effects:
            kind = type(effect)
            if kind is SendSame or kind is SendMany:
                conns = effect.conns if kind is SendSame else (effect.conn,)
                frames = effect.frames
                chunk = frames[0] if len(frames) == 1 else b"".join(frames)
                if limited:
                    cost = host.resources.sending_ns(len(chunk))
                    if self.on_write is not None:
                        self.on_write(host, conns, frames, free_at, cost)
                    for conn in conns:
                        host.sending_ns += cost
                        free_at += cost
                        send((conn,), chunk, free_at)
                    host.out_free_at = free_at
                else:
                    send(conns, chunk, free_at)
            elif kind is SetTimer:
                host.timers[effect.timer] = effect.at
                self.at(effect.at, self._timer, host, host.incarnation, effect.timer, effect.at)
            elif kind is Close:
                self.network.close(effect.conn, free_at)
                host.inbox.forget(effect.conn)
            elif kind is Connect:
                where = effect.address or effect.peer  # hosts are their own addresses
                self.network.dial(host, self.hosts.get(where), where, effect.peer)
            else:
                if self._logs:
                    self._add_to_digest(
                        effect.publication.raw
                        if kind is Deliver
                        else f"{host.name} {effect!r}".encode()
                    )
                if self.watcher is not None:
                    self.watcher.handle_effect(host, effect)
