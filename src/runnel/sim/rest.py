"""What must hold when the world is at rest: routes as recomputed from scratch, nothing left over.

At rest means: every link is up on both sides, all data sent is acknowledged, no barrier is pending, no session
moves. Since what is under way is kept by its sender until acknowledged, nothing but
heartbeats and monitoring is in flight then.
"""

from __future__ import annotations

from random import Random

from runnel.broker.broker import Broker
from runnel.broker.invariants import check_broker
from runnel.broker.links import Link
from runnel.client.session import Session
from runnel.routing.tree import TreeRouting
from runnel.sim.checkers import Checker, Violation
from runnel.sim.model import Entry, Tree, expected_hops, expected_tables
from runnel.sim.world import World
from runnel.wire import make_publication


def unrest(world: World, tree: Tree, sessions: dict[str, Session]) -> str:
    """Why the world is not at rest; empty if it is."""
    brokers = {broker.name: broker for broker in world.brokers}
    for name, neighbours in tree.neighbours.items():
        broker = brokers.get(name)
        if broker is None:
            return f"{name} is down"
        for neighbour in neighbours:
            if neighbour not in broker.links:
                return f"{name} has no link to {neighbour}"
        if broker.barriers.pending:
            return f"{name} waits for fences"
        if broker.tables.leaving:
            return f"{name} has publishers that migrate"
        for link in broker.links.values():
            if why := _link_unrest(link):
                return f"{name}: the link to {link.name} {why}"
            if link.kind == "client" and not _lives_there(sessions, link.name, name):
                return f"{name} still knows {link.name}"
    for name, broker in brokers.items():
        if name not in tree.neighbours and broker.links:
            return f"{name} is on standby, but has links to {list(broker.links)}"
    for name, session in sessions.items():
        if session.home is None:
            continue
        if not session.is_settled or session.next is not None:
            return f"{name} is moving"
        if why := _link_unrest(session.home.link):
            return f"{name}: the link to {session.home.broker} {why}"
        if not session.home.registered or session.home.waits or not world.hosts[name].reads:
            return f"{name} is not served yet"
    return ""


def _lives_there(sessions: dict[str, Session], client: str, broker: str) -> bool:
    session = sessions.get(client)
    return session is not None and session.home is not None and session.home.broker == broker


def _link_unrest(link: Link) -> str:
    if not link.established:
        return "is down"
    if link.data.waiting or link.data.unacknowledged:
        return "has something under way"
    return "has drops to tell" if link.dropped_untold and link.kind == "client" else ""


def entries(checker: Checker, sessions: dict[str, Session]) -> tuple[list[Entry], list[Entry]]:
    """The advertisements and subscriptions that are live, under the ids that brokers know them by."""
    advertisements, subscriptions = [], []
    for client, session in sessions.items():
        home = session.home
        if home is None:
            continue
        for id, wire_id in home.advertisements.items():
            want = checker.advertisements[id].want
            advertisements.append(Entry(wire_id, want, client, home.broker))
        for id, wire_id in home.subscriptions.items():
            want = checker.subscriptions[id].want
            subscriptions.append(Entry(wire_id, want, client, home.broker))
    return advertisements, subscriptions


def check_routing(
    world: World, checker: Checker, sessions: dict[str, Session], random: Random
) -> None:
    """Every broker routes as the model says; without covering its very tables are the model's."""
    advertisements, subscriptions = entries(checker, sessions)
    strategy = world.brokers[0].strategy
    assert isinstance(strategy, TreeRouting)
    srt, prt = expected_tables(
        checker.tree,
        advertisements,
        subscriptions,
        by_advertisement=strategy.config.advertisements,
    )
    brokers = [broker for broker in world.brokers if broker.name in checker.tree.neighbours]
    for broker in brokers:
        name = broker.name
        check_broker(broker)
        _same(f"{name}: SRT", {r.id: r.link.name for r in broker.tables.srt.values()}, srt[name])
        if not strategy.config.covering:
            found = {r.id: r.link.name for r in broker.tables.prt.values()}
            _same(f"{name}: PRT", found, prt[name])
    for publisher in advertisements:
        values = publisher.want.draw(random)
        if values is None:
            continue
        publication = make_publication(publisher.id, 2**62, values)
        wanted = [entry for entry in subscriptions if entry.want.matches(values)]
        world.matcher.forget()
        for broker in brokers:
            back = checker.tree.toward(publisher.home).get(broker.name, publisher.client)
            found_hops = _hops(broker, back, publication)
            expected = expected_hops(checker.tree, broker.name, publisher, values, wanted)
            if found_hops != expected:
                raise Violation(
                    f"{broker.name} sends {values} of {publisher.id} to {found_hops}, not {expected}",
                    publisher.id,
                    *[entry.id for entry in wanted],
                )


def _hops(broker: Broker, back: str, publication: object) -> list[str]:
    numbers = broker.strategy.next_hops(broker.links[back], publication)  # type: ignore[arg-type]
    by_number = {link.number: link.name for link in broker.links.values()}
    return sorted(by_number[number] for number in numbers)


def _same(what: str, found: dict[int, str], expected: dict[int, str]) -> None:
    if found == expected:
        return
    extra = {id: hop for id, hop in found.items() if expected.get(id) != hop}
    lacking = {id: hop for id, hop in expected.items() if found.get(id) != hop}
    raise Violation(f"{what} has {extra} instead of {lacking}", *extra, *lacking)


def check_empty(world: World, tree: Tree) -> None:
    """Everybody has left: nothing may be left over."""
    for broker in world.brokers:
        left = {
            "advertisements": list(broker.tables.srt),
            "subscriptions": list(broker.tables.prt),
            "barriers": list(broker.barriers.pending),
            "links": [n for n in broker.links if n not in tree.neighbours.get(broker.name, ())],
        }
        strategy = broker.strategy
        assert isinstance(strategy, TreeRouting)
        for link in broker.links.values():
            outbound = strategy.outbound(link)
            left[f"sent to {link.name}"] = list(outbound.sent)
            left[f"kept back from {link.name}"] = list(outbound.kept_back)
        found = {what: which for what, which in left.items() if which}
        if found:
            raise Violation(f"all have left, but {broker.name} still has {found}")
    if len(world.matcher):
        raise Violation("all have left, but the matcher is not empty")
