"""The clients of a run: carries out each operation of a plan on a session.

An operation that is not possible at the moment (publishing without credit, a second move) is left out. So
any part of a plan is a valid plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from runnel.broker.ids import IdSource
from runnel.client.config import SessionConfig
from runnel.client.move import Move
from runnel.client.session import Session
from runnel.language import Filter, Op, Predicate, Selection, any_of
from runnel.quantities import MILLISECOND
from runnel.sim.campaign import RESUME_TIMEOUT_NS, Operation, SimulationPlan
from runnel.sim.checkers import Checker
from runnel.sim.faults import Faults
from runnel.sim.migrants import Migrants
from runnel.sim.model import Want, draw_want
from runnel.sim.world import World

PAYLOAD_BYTES = (0, 20, 400)
EVERYTHING = Want(((),))
LOOK_NS = 50 * MILLISECOND
LOOKS_MAX = 100  # for the readiness of what a client refines its interest to


def selection_of(want: Want) -> Selection:
    """Translate a want into the filter language."""
    return any_of(
        [
            Filter([Predicate(attribute, Op(op), value) for attribute, op, value in group])
            for group in want.groups
        ]
    )


class Clients:
    """All sessions of a run, by client name."""

    def __init__(
        self, world: World, checker: Checker, plan: SimulationPlan, faults: Faults
    ) -> None:
        self.migrants = Migrants(world, checker, self._new_session)
        # The brokers that accept new clients.
        self.brokers: Callable[[], Sequence[str]] = lambda: plan.brokers
        self.sessions = self.migrants.sessions
        self._world = world
        self._checker = checker
        self._plan = plan
        self._faults = faults
        self._made = 0

    def do(self, operation: Operation) -> None:
        """Carry out one operation."""
        name, random = operation.client, Random(operation.pick)
        session = self.sessions.get(name)
        if operation.kind == "open":
            if session is None:
                self._open(name, random)
            return
        if session is None or session.home is None:
            return
        getattr(self, f"_{operation.kind}")(name, session, random)
        if name in self.sessions:
            self._flush(name, session)

    def _flush(self, name: str, session: Session) -> None:
        self._checker.note_homes(name, session)
        self._world.flush(self._world.hosts[name])

    def _open(self, name: str, random: Random) -> None:
        session = self._new_session(name, random.choice((2_000, 1 << 24)))
        self.sessions[name] = session
        session.connect(random.choice(self.brokers()), self._world.now)
        self._flush(name, session)

    def _new_session(self, name: str, held_bytes_max: int = 1 << 24) -> Session:
        self._made += 1
        config = SessionConfig(
            name,
            self._plan.settings.link(1 << 26),
            move_timeout_ns=3 * RESUME_TIMEOUT_NS,
            held_bytes_max=held_bytes_max,
        )
        session = Session(config, self._made, IdSource(self._made), lambda: self._world.now)
        self._checker.note_opened(name)
        self._world.start(self._world.host(name), session)
        return session

    # -- operations -----------------------------------------------------------------------------------

    def _subscribe(self, name: str, session: Session, random: Random) -> None:
        id = self._subscribe_to(draw_want(random, broad=False), name, session)
        if random.random() < 0.7:
            self._ask_ready(session, id)

    def _subscribe_to(self, want: Want, name: str, session: Session) -> int:
        id = session.subscribe(selection_of(want))
        self._checker.note_subscription(name, id, want)
        return id

    def _refine(self, name: str, session: Session, random: Random) -> None:
        """Subscribe to everything, and to what one publisher of another client sends; later withdraw the first.

        Covering keeps the second back as long as the first is there.
        """
        publishers = [
            (client, id)
            for client in self.sessions
            if client != name
            for _, id in self.migrants.publishers(client)
        ]
        if publishers:
            client, publisher = random.choice(publishers)
            want = self._checker.advertisements[publisher].want
            ids = [self._subscribe_to(want, name, session) for want in (EVERYTHING, want)]
            for id in ids:
                self._ask_ready(session, id)
            self._refine_when_ready(name, session, ids, (client, publisher), random, LOOKS_MAX)

    def _refine_when_ready(
        self,
        name: str,
        session: Session,
        ids: list[int],
        source: tuple[str, int],
        random: Random,
        looks: int,
    ) -> None:
        """Withdraw the first subscription of two when both are ready, while the source publishes."""
        client, publisher = source
        promises = [self._checker.subscriptions[id] for id in ids]
        publishing = self.sessions.get(client)
        if publishing is None or any(promise.ended for promise in promises):
            return
        now = self._world.now
        if all(promise.asked >= 0 for promise in promises):
            gap = random.choice((1, 4, 15)) * MILLISECOND
            sizes = (0,)  # a slow wire has room for many
            self._stream_on(client, publishing, publisher, random, gap, 40, sizes)
            at = now + random.randrange(40 * gap)
            self._world.at(at, self._withdraw, name, session, ids[0])
        elif looks:
            again = (name, session, ids, source, random, looks - 1)
            self._world.at(now + LOOK_NS, self._refine_when_ready, *again)

    def _advertise(self, name: str, session: Session, random: Random) -> None:
        want = draw_want(random, broad=True)
        id = session.advertise(f"{name}/{random.randrange(3)}", selection_of(want))
        self._checker.note_advertisement(name, id, want)
        if random.random() < 0.8:
            self._ask_ready(session, id)

    def _ask_ready(self, session: Session, id: int) -> None:
        home = session.home
        if home is not None and home.registered and session.move is Move.STEADY:
            self._checker.note_ask(id)
            session.ready(id)

    def _ready(self, name: str, session: Session, random: Random) -> None:
        known = [(name, id) for id in session.subscriptions] + self.migrants.publishers(name)
        if known:
            owner, id = random.choice(known)
            self._ask_ready(self.sessions[owner], id)
            self._flush(owner, self.sessions[owner])

    def _unsubscribe(self, name: str, session: Session, random: Random) -> None:
        if session.subscriptions:
            self._withdraw(name, session, random.choice(list(session.subscriptions)))

    def _withdraw(self, name: str, session: Session, id: int) -> None:
        if self.sessions.get(name) is session and id in session.subscriptions:
            session.unsubscribe(id)
            self._checker.note_end(id)
            self._flush(name, session)

    def _unadvertise(self, name: str, session: Session, random: Random) -> None:
        if publishers := self.migrants.publishers(name):
            owner, id = random.choice(publishers)
            self.sessions[owner].unadvertise(id)
            self._checker.note_end(id)
            self._flush(owner, self.sessions[owner])

    def _publish(self, name: str, session: Session, random: Random) -> None:
        if publishers := self.migrants.publishers(name):
            owner, id = random.choice(publishers)
            for _ in range(random.choice((1, 1, 2, 5, 12))):
                self._publish_one(owner, id, random)
            self._flush(owner, self.sessions[owner])

    def _stream(self, name: str, session: Session, random: Random) -> None:
        """Publish one by one for a while."""
        if publishers := self.migrants.publishers(name):
            _, id = random.choice(publishers)
            gap = random.choice((1, 4, 15)) * MILLISECOND
            self._stream_on(name, session, id, random, gap, random.choice((10, 40)))

    def _stream_on(
        self,
        name: str,
        session: Session,
        id: int,
        random: Random,
        gap: int,
        left: int,
        sizes: tuple[int, ...] = PAYLOAD_BYTES,
    ) -> None:
        owners = [owner for owner, known in self.migrants.publishers(name) if known == id]
        if left and owners and self.sessions.get(name) is session:
            self._publish_one(owners[0], id, random, sizes)
            self._flush(owners[0], self.sessions[owners[0]])
            again = (name, session, id, random, gap, left - 1, sizes)
            self._world.at(self._world.now + gap, self._stream_on, *again)

    def _publish_one(
        self, owner: str, id: int, random: Random, sizes: tuple[int, ...] = PAYLOAD_BYTES
    ) -> None:
        session = self.sessions[owner]
        values = self._checker.advertisements[id].want.draw(random)
        home = session.outlet
        if values is None or home is None or not session.may_publish(id):
            return
        payload = random.randbytes(random.choice(sizes))
        publication = session.publish(id, values, payload, time_ns=self._world.now)
        self._checker.note_publication(owner, home.broker, id, publication, values)

    def _migrate(self, name: str, session: Session, random: Random) -> None:
        """Let a publisher migrate, often while it publishes."""
        if publishers := self.migrants.publishers(name):
            owner, id = random.choice(publishers)
            if random.random() < 0.5:
                for _ in range(random.choice((1, 5, 12))):
                    self._publish_one(owner, id, random)
            target = random.choice(self.brokers())
            if (home := self.sessions[owner].home) is not None and random.random() < 0.2:
                self._break_path(home.broker, target, random)
            self.migrants.migrate(name, owner, id, target)
            self._flush(owner, self.sessions[owner])

    def _break_path(self, source: str, target: str, random: Random) -> None:
        """Let one of the brokers that take part in a migration crash soon, at any of its steps."""
        path = self._checker.path(source, target) or [source]
        victim = random.choice((source, target, random.choice(path)))
        hop_ns = self._plan.settings.latency_ns_max
        at = self._world.now + random.randrange(2 * hop_ns * (len(path) + 3))
        length = random.choice((1, RESUME_TIMEOUT_NS // 4, 2 * RESUME_TIMEOUT_NS))
        self._world.at(at, self._faults.crash, victim, length)

    def _move(self, name: str, session: Session, random: Random) -> None:
        broker = random.choice(self.brokers())
        if self.migrants.is_migrating(session):
            return
        if session.is_settled and session.home and session.home.broker != broker:
            if random.random() < 0.5:
                self._chase(name, random)
            self._checker.note_wandering(name)
            session.move_to(broker, self._world.now)

    def _chase(self, name: str, random: Random) -> None:
        """All other clients publish a burst, so that the path that is about to be left is full."""
        for other, session in list(self.sessions.items()):
            if other != name and session.publishers:
                id = random.choice(list(session.publishers))
                for _ in range(12):
                    self._publish_one(other, id, random)
                self._flush(other, session)

    def burst(self, random: Random) -> None:
        """All clients publish a burst, so that all paths are full."""
        self._chase("", random)

    def _reconnect(self, name: str, session: Session, random: Random) -> None:
        self._checker.disturb(name)
        self._checker.fresh_run_of(name)
        self._checker.note_wandering(name)
        session.connect(random.choice(self.brokers()), self._world.now)

    def reconnect_stranded(self, name: str) -> None:
        """Reconnect a client whose broker has ended with its generation."""
        self._reconnect(name, self.sessions[name], Random(self._made))
        self._flush(name, self.sessions[name])

    def leave_gone_brokers(self) -> None:
        """Clients at a broker that is gone for ever connect elsewhere, or end.

        This is repeated: some clients may have been moving there, and a broker on standby may send clients there.
        """
        for name, session in list(self.sessions.items()):
            home = session.home
            if home is None or not self._checker.is_gone(home.broker):
                continue
            random = Random(f"{name} {self._world.now}")
            if name in self.migrants.family(name) and random.random() < 0.2:
                self._die(name, session, random)
            elif name in self.sessions:
                self._reconnect(name, session, random)
                self._flush(name, session)
        self._world.at(self._world.now + RESUME_TIMEOUT_NS, self.leave_gone_brokers)

    def _die(self, name: str, session: Session, random: Random) -> None:
        """Crash; another session of this name may come."""
        for member in self.migrants.family(name):
            self._all_ended(self.sessions[member])
            self._checker.note_died(member)
            self._world.crash(self._world.hosts[member])
            self.migrants.drop(member)

    def _close(self, name: str, session: Session, random: Random) -> None:
        for member in self.migrants.family(name):
            self._all_ended(self.sessions[member])
            self.migrants.close(member)

    def _all_ended(self, session: Session) -> None:
        for id in (*session.subscriptions, *session.publishers):
            self._checker.note_end(id)

    # -- all clients ----------------------------------------------------------------------------------

    def ask_ready_all(self) -> None:
        """All clients ask for the readiness of everything."""
        for name, session in self.sessions.items():
            for id in (*session.subscriptions, *session.publishers):
                self._ask_ready(session, id)
            self._flush(name, session)

    def publish_all(self, random: Random) -> None:
        """All clients publish something with every advertisement."""
        for name, session in self.sessions.items():
            for id in session.publishers:
                self._publish_one(name, id, random)
            self._flush(name, session)

    def close_all(self) -> None:
        """All clients leave."""
        for name in list(self.sessions):
            if name in self.sessions:
                self._close(name, self.sessions[name], Random(0))
