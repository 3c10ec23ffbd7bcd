"""The clients of a run: what each operation of a plan means to a session.

An operation that makes no sense at the moment (publishing without credit, moving while moving) is left out, as a
sensible application would; so any part of a plan is a plan.
"""

from __future__ import annotations

from random import Random

from runnel.broker.ids import IdSource
from runnel.client.move import Move
from runnel.client.session import Session, SessionConfig
from runnel.language import Filter, Op, Predicate, Selection, any_of
from runnel.sim.campaign import RESUME_TIMEOUT_NS, Operation, Plan
from runnel.sim.checkers import Checker
from runnel.sim.model import Want, draw_want
from runnel.sim.world import World

PAYLOAD_BYTES_MAX = 400


def selection_of(want: Want) -> Selection:
    """A want in the language that brokers speak."""
    return any_of(
        [
            Filter([Predicate(attribute, Op(op), value) for attribute, op, value in group])
            for group in want.groups
        ]
    )


class Clients:
    """All sessions of a run, by client name."""

    def __init__(self, world: World, checker: Checker, plan: Plan) -> None:
        self.sessions: dict[str, Session] = {}
        self._world = world
        self._checker = checker
        self._plan = plan
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
            self._done(name, session)

    def _done(self, name: str, session: Session) -> None:
        self._checker.lives_at(name, session)
        self._world.flush(self._world.hosts[name])

    def _open(self, name: str, random: Random) -> None:
        self._made += 1
        host = self._world.host(name)
        link = self._plan.settings.link(1 << 26)
        config = SessionConfig(
            name,
            link,
            move_timeout_ns=3 * RESUME_TIMEOUT_NS,
            held_bytes_max=random.choice((2_000, 1 << 24)),
        )
        session = Session(config, self._made, IdSource(self._made))
        self.sessions[name] = session
        self._checker.opened(name)
        self._world.start(host, session)
        session.connect(random.choice(self._plan.brokers), self._world.now)
        self._done(name, session)

    # -- operations -----------------------------------------------------------------------------------

    def _subscribe(self, name: str, session: Session, random: Random) -> None:
        want = draw_want(random, broad=False)
        id = session.subscribe(selection_of(want))
        self._checker.subscribed(name, id, want)
        if random.random() < 0.7:
            self._ask(session, id)

    def _advertise(self, name: str, session: Session, random: Random) -> None:
        want = draw_want(random, broad=True)
        id = session.advertise(f"{name}/{random.randrange(3)}", selection_of(want))
        self._checker.advertised(name, id, want)
        if random.random() < 0.8:
            self._ask(session, id)

    def _ask(self, session: Session, id: int) -> None:
        home = session.home
        if home is not None and home.registered and session.move is Move.STEADY:
            self._checker.asked_ready(id)
            session.ready(id)

    def _ready(self, name: str, session: Session, random: Random) -> None:
        ids = [*session.subscriptions, *session.publishers]
        if ids:
            self._ask(session, random.choice(ids))

    def _unsubscribe(self, name: str, session: Session, random: Random) -> None:
        if session.subscriptions:
            id = random.choice(list(session.subscriptions))
            session.unsubscribe(id)
            self._checker.ended(id)

    def _unadvertise(self, name: str, session: Session, random: Random) -> None:
        if session.publishers:
            id = random.choice(list(session.publishers))
            session.unadvertise(id)
            self._checker.ended(id)

    def _publish(self, name: str, session: Session, random: Random) -> None:
        if not session.publishers:
            return
        id = random.choice(list(session.publishers))
        for _ in range(random.choice((1, 1, 2, 5, 12))):
            self._publish_one(name, session, id, random)

    def _stream(self, name: str, session: Session, random: Random) -> None:
        """Publish one by one for a while, as publishers do."""
        if session.publishers:
            id = random.choice(list(session.publishers))
            gap = random.choice((1, 4, 15)) * 1_000_000
            self._go_on(name, session, id, random, gap, random.choice((10, 40)))

    def _go_on(
        self, name: str, session: Session, id: int, random: Random, gap: int, left: int
    ) -> None:
        if left and id in session.publishers and self.sessions.get(name) is session:
            self._publish_one(name, session, id, random)
            self._done(name, session)
            at = self._world.now + gap
            self._world.at(at, self._go_on, name, session, id, random, gap, left - 1)

    def _publish_one(self, name: str, session: Session, id: int, random: Random) -> None:
        values = self._checker.advertisements[id].want.draw(random)
        home = session.next if session.move is Move.DRYING else session.home
        if values is None or home is None or not session.credit:
            return
        payload = random.randbytes(random.choice((0, 20, PAYLOAD_BYTES_MAX)))
        publication = session.publish(id, values, payload)
        self._checker.publishes(name, home.broker, id, publication, values)

    def _move(self, name: str, session: Session, random: Random) -> None:
        broker = random.choice(self._plan.brokers)
        if session.move is Move.STEADY and session.home and session.home.broker != broker:
            if random.random() < 0.5:
                self._chase(name, random)
            self._checker.wanders(name)
            session.move_to(broker, self._world.now)

    def _chase(self, name: str, random: Random) -> None:
        """Everybody else publishes a burst, so that the path that is about to be left is full."""
        for other, session in list(self.sessions.items()):
            if other != name and session.publishers:
                id = random.choice(list(session.publishers))
                for _ in range(12):
                    self._publish_one(other, session, id, random)
                self._done(other, session)

    def _reconnect(self, name: str, session: Session, random: Random) -> None:
        self._checker.disturb(name)
        self._checker.fresh_run_of(name)
        self._checker.wanders(name)
        session.connect(random.choice(self._plan.brokers), self._world.now)

    def _die(self, name: str, session: Session, random: Random) -> None:
        """End without a word; another session of this name may come."""
        for id in (*session.subscriptions, *session.publishers):
            self._checker.ended(id)
        self._checker.died(name)
        self._world.crash(self._world.hosts[name])
        del self.sessions[name]

    def _close(self, name: str, session: Session, random: Random) -> None:
        for id in (*session.subscriptions, *session.publishers):
            self._checker.ended(id)
        session.close()
        host = self._world.hosts[name]
        self._world.flush(host)
        host.stop()
        del self.sessions[name]

    # -- everybody ------------------------------------------------------------------------------------

    def ask_ready_all(self) -> None:
        """Everybody asks for the readiness of everything."""
        for name, session in self.sessions.items():
            for id in (*session.subscriptions, *session.publishers):
                self._ask(session, id)
            self._done(name, session)

    def publish_all(self, random: Random) -> None:
        """Everybody publishes something with every advertisement."""
        for name, session in self.sessions.items():
            for id in session.publishers:
                self._publish_one(name, session, id, random)
            self._done(name, session)

    def close_all(self) -> None:
        """Everybody leaves."""
        for name, session in list(self.sessions.items()):
            self._close(name, session, Random(0))
