"""A guarded network in memory: every session has a user, and gets to each broker by one of six ways.

Brokers A and B of generation 1, with a second generation beside them, as in `TwoGenerations`; all are guarded, can
hand publishers on, and record what they route. A way takes a publisher and a subscriber to the brokers at which the
test then looks what they may do:

    direct      both at A
    forwarded   the publisher at A, the subscriber at B
    moved       each goes to the other's broker (`move_to`)
    migrated    the publisher alone goes from A to B, by a session of its own
    replanned   both go to the next generation of the network
    traced      as forwarded, every publication is marked, and the module "trace" records what is routed
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.broker.permits import Permit, Quota
from runnel.client.effects import (
    AccessRefused,
    Migrated,
    Moved,
    PublicationsRefused,
    SelectionRefused,
)
from runnel.client.migration import MigrationStep, PublisherMigration
from runnel.client.session import Session
from runnel.language import NOTHING, Attributes, parse
from runnel.modules.generations.module import Generations
from runnel.modules.placement.migration import Migration
from runnel.quantities import SECOND
from runnel.trace.columns import to_table
from runnel.trace.module import Tracing
from runnel.trace.reader import attributes_of
from runnel.trace.recorder import Recorder
from runnel.wire import Publication, Stage
from support.crossed import LINKS, TwoGenerations
from support.hosting import FakeProcess

PUBLISHER, SUBSCRIBER = "p", "s"
TRACED = 2
"""The flag of publications on the way "traced"."""


class RoutedRecorder(Module):
    """Marks every publication of a client, and keeps what was routed and with which flags."""

    name = "routed-recorder"
    marks_publications = True
    watches_publications = True

    def __init__(self) -> None:
        self.routed_events: list[Attributes] = []
        self.flags: list[int] = []

    def mark_publications(
        self, context: Context, link: Link, run: list[Publication], now: int
    ) -> None:
        for publication in run:
            publication.mark(TRACED)

    def routed(
        self,
        context: Context,
        link: Link,
        run: list[Publication],
        hops: list[list[int]],
        now: int,
    ) -> None:
        self.routed_events += [publication.attributes for publication in run]
        self.flags += [publication.flags for publication in run]


class GuardedNetwork(TwoGenerations):
    """See the top of the file."""

    def __init__(self, *, is_recorded: bool = False) -> None:
        self.is_recorded = is_recorded
        self.recorders: dict[str, RoutedRecorder] = {}
        self.trace_recorder = Recorder()
        self.elsewhere: dict[tuple[str, str], Permit | None] = {}
        super().__init__()

    def start(self, process: str, generation: int, standby: str = "") -> None:
        name = f"{process}#{generation}"
        module = self.modules[name] = Generations(
            generation, FakeProcess(), f"at://{process}", standby
        )
        modules: tuple[Module, ...] = (module, Migration())
        if self.is_recorded:
            recorder = self.recorders[name] = RoutedRecorder()
            modules += (recorder, Tracing(self.trace_recorder))
        dials = [f"{other}#{generation}" for other in LINKS[process]]
        self.broker(name, *dials, modules=modules, generation=generation, is_guarded=True)

    def _permit_of(self, name: str, broker: str) -> Permit | None:
        owner = name.partition("/")[0]
        return self.elsewhere.get((owner, broker), self.permits.get(owner))

    def refusals(self, session: str) -> list[str]:
        """Why subscriptions and advertisements of a session were refused."""
        return [effect.reason for effect in self.effects(session, SelectionRefused)]

    def denials(self, session: str) -> list[str]:
        """Why a session was not let in, or had to go."""
        return [effect.reason for effect in self.effects(session, AccessRefused)]

    def refused(self, session: str) -> int:
        """How many of its publications a session was told were refused."""
        return sum(len(effect.ages) for effect in self.effects(session, PublicationsRefused))

    def traced_rows(self) -> dict[str, list[tuple[str, Attributes | int]]]:
        """What the trace has by now: the broker and the event of each publication, the broker and the counter of each
        delivery.
        """
        self.trace_recorder.seal()
        chunks = self.trace_recorder.take()
        published = to_table("publications", chunks).to_pylist()
        delivered = to_table("deliveries", chunks).to_pylist()
        return {
            "publications": [
                (row["broker"], attributes_of(row["attributes"])) for row in published
            ],
            "deliveries": [(row["broker"], row["counter"]) for row in delivered],
        }

    def rows(self, which: str) -> int:
        """Rows of all routing tables: "prt" or "srt"."""
        brokers = [self.nodes[name] for name in self.modules if name in self.nodes]
        return sum(len(getattr(broker.tables, which)) for broker in brokers)


def permit(
    user: str,
    subscribe: str = "",
    publish: str = "",
    names: tuple[str, ...] = (),
    quota: Quota | None = None,
) -> Permit:
    """A permit with rules as text; without a rule nothing."""
    return Permit(
        user,
        parse(subscribe) if subscribe else NOTHING,
        parse(publish) if publish else NOTHING,
        names or (user,),
        quota=quota or Quota(),
    )


@dataclass(slots=True)
class WayTaken:
    """Where a way has led: `publishes` publishes with the advertisement `id`."""

    net: GuardedNetwork
    publisher: Session
    subscriber: Session
    id: int
    publishing_as: str
    home: str
    """The broker at which the publisher is now."""

    def publish(self, **attributes: int) -> None:
        """Publish where the publisher is now."""
        session = self.net.nodes[self.publishing_as]
        session.publish(self.id, attributes)
        self.net.settle()


Way = Callable[[GuardedNetwork], WayTaken]


def _begin(net: GuardedNetwork, at: str, other: str) -> WayTaken:
    publisher, id = net.publisher(PUBLISHER, f"at://{at}", "a > 0")
    subscriber = net.session(SUBSCRIBER, f"at://{other}")
    return WayTaken(net, publisher, subscriber, id, PUBLISHER, f"{at}#1")


def _direct(net: GuardedNetwork) -> WayTaken:
    return _begin(net, "A", "A")


def _forwarded(net: GuardedNetwork) -> WayTaken:
    return _begin(net, "A", "B")


def _moved(net: GuardedNetwork) -> WayTaken:
    taken = _begin(net, "A", "B")
    for session, to in ((taken.publisher, "at://B"), (taken.subscriber, "at://A")):
        session.move_to(to, net.now)
        net.settle()
    assert net.effects(PUBLISHER, Moved) and net.effects(SUBSCRIBER, Moved)
    taken.home = "B#1"
    return taken


def migrate(net: GuardedNetwork, source: Session, id: int, to: str) -> MigrationStep:
    """Let a publisher go to another broker; where that ends."""
    target = net.session(f"{PUBLISHER}/{PUBLISHER}", to)
    migration = PublisherMigration(id, source, target, net.now, SECOND)
    while not migration.is_over:
        for effect in net.effects(f"{PUBLISHER}/{PUBLISHER}", Migrated):
            migration.handle_effect(target, effect)
        migration.advance(net.now)
        if not net.queue:
            net.flush()
        if not net.step():
            net.advance(SECOND // 4)
    net.settle()
    return migration.step


def _migrated(net: GuardedNetwork) -> WayTaken:
    taken = _begin(net, "A", "A")
    assert migrate(net, taken.publisher, taken.id, "at://B") is MigrationStep.DONE
    taken.publishing_as = f"{PUBLISHER}/{PUBLISHER}"
    taken.home = "B#1"
    return taken


def _replanned(net: GuardedNetwork) -> WayTaken:
    taken = _begin(net, "A", "B")
    for stage in (Stage.BOTH, Stage.AHEAD, Stage.NEW):
        net.goal(stage)
    assert taken.publisher.home is not None and taken.publisher.home.generation == 2
    taken.home = "B#2"
    return taken


WAYS: dict[str, Way] = {
    "direct": _direct,
    "forwarded": _forwarded,
    "moved": _moved,
    "migrated": _migrated,
    "replanned": _replanned,
    "traced": _forwarded,
}


def take(way: str, *permits: Permit) -> WayTaken:
    """Take a way with these permits of `p` and `s`."""
    net = GuardedNetwork(is_recorded=way == "traced")
    net.permits = {one.user: one for one in permits}
    return WAYS[way](net)
