"""What must hold when the world is at rest: routes as recomputed from scratch, nothing left over.

At rest means: every link is up on both sides, all data sent is acknowledged, no barrier is pending, and no session is
moving. A sender keeps what it sent until it is acknowledged, so nothing but heartbeats and monitoring is under way
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.invariants import check_broker
from runnel.broker.links import Link
from runnel.client.session import Session
from runnel.routing.strategy import AtRest
from runnel.sim.checkers import Checker, Violation
from runnel.sim.model import RoutingEntry, Tree
from runnel.sim.world import World
from runnel.wire import make_publication


def why_unsettled(world: World, tree: Tree, sessions: dict[str, Session]) -> str:
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
        if healing := _healing(broker, tree):
            return f"{name} has not told that {healing} is whole again"
        if broker.tables.leaving:
            return f"{name} has publishers that migrate"
        for link in broker.links.values():
            if why := _why_link_unsettled(link):
                return f"{name}: the link to {link.name} {why}"
            if link.is_client and not _lives_there(sessions, link.name, name):
                return f"{name} still knows {link.name}"
            if link.is_neighbour and link.name not in neighbours:
                return f"{name} still has a link to {link.name}"
    for name, broker in brokers.items():
        if name not in tree.neighbours and broker.links:
            return f"{name} is on standby, but has links to {list(broker.links)}"
    for name, session in sessions.items():
        if session.home is None:
            continue
        if not session.is_settled or session.next is not None:
            return f"{name} is moving"
        if why := _why_link_unsettled(session.home.link):
            return f"{name}: the link to {session.home.broker} {why}"
        if not session.home.registered or session.home.waits or not world.hosts[name].reads:
            return f"{name} is not served yet"
        home = brokers.get(session.home.broker)
        if session.gaps.open and home is not None and not home.absences.missing(world.now):
            return f"{name} has a gap that does not end"
    return ""


def _healing(broker: Broker, tree: Tree) -> str:
    """A link that is there, and of which the broker believes that it is not whole."""
    part = tree.part(broker.name)
    for link in broker.losses.open:
        one, other = link.split("–")
        if one in part and other in tree.neighbours[one]:
            return link
    return ""


def _lives_there(sessions: dict[str, Session], client: str, broker: str) -> bool:
    session = sessions.get(client)
    return session is not None and session.home is not None and session.home.broker == broker


def _why_link_unsettled(link: Link) -> str:
    if not link.established:
        return "is down"
    if link.data.waiting or link.data.unacknowledged:
        return "has something under way"
    return "has drops to tell" if link.dropped_untold and link.is_client else ""


def entries(
    checker: Checker, sessions: dict[str, Session]
) -> tuple[list[RoutingEntry], list[RoutingEntry]]:
    """The advertisements and subscriptions that are live, under the ids that brokers know them by."""
    advertisements, subscriptions = [], []
    for client, session in sessions.items():
        home = session.home
        if home is None:
            continue
        for id, wire_id in home.advertisements.items():
            want = checker.advertisements[id].want
            advertisements.append(RoutingEntry(wire_id, want, client, home.broker))
        for id, wire_id in home.subscriptions.items():
            want = checker.subscriptions[id].want
            subscriptions.append(RoutingEntry(wire_id, want, client, home.broker))
    return advertisements, subscriptions


def check_routing(
    world: World,
    checker: Checker,
    at_rest: AtRest,
    sessions: dict[str, Session],
    random: Random,
) -> None:
    """Check the routes and tables of every broker against the oracle of its strategy."""
    advertisements, subscriptions = entries(checker, sessions)
    overlay = checker.tree
    srt, prt = at_rest.tables(overlay, advertisements, subscriptions)
    brokers = [broker for broker in world.brokers if broker.name in overlay.neighbours]
    for broker in brokers:
        name = broker.name
        check_broker(broker)
        _check_same(
            f"{name}: SRT", {r.id: r.link.name for r in broker.tables.srt.values()}, srt[name]
        )
        if prt is not None:
            found = {r.id: r.link.name for r in broker.tables.prt.values()}
            _check_same(f"{name}: PRT", found, prt[name])
    for publisher in advertisements:
        values = publisher.want.draw(random)
        if values is None:
            continue
        publication = make_publication(publisher.id, 2**62, values)
        part = dict.fromkeys(checker.tree.part(publisher.home))
        wanted = [e for e in subscriptions if e.want.matches(values) and e.home in part]
        world.matcher.forget()
        for broker in brokers:
            if broker.name not in part:
                continue
            back = overlay.toward(publisher.home).get(broker.name, publisher.client)
            found_hops = _hops(broker, back, publication)
            expected = at_rest.hops(overlay, broker.name, publisher, values, wanted)
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


def _check_same(what: str, found: dict[int, str], expected: dict[int, str]) -> None:
    if found == expected:
        return
    extra = {id: hop for id, hop in found.items() if expected.get(id) != hop}
    lacking = {id: hop for id, hop in expected.items() if found.get(id) != hop}
    raise Violation(f"{what} has {extra} instead of {lacking}", *extra, *lacking)


def check_empty(world: World, tree: Tree) -> None:
    """After all clients have left, check that nothing is left over."""
    for broker in world.brokers:
        left: dict[str, Sequence[Any]] = {
            "advertisements": list(broker.tables.srt),
            "subscriptions": list(broker.tables.prt),
            "barriers": list(broker.barriers.pending),
            "links": [n for n in broker.links if n not in tree.neighbours.get(broker.name, ())],
        }
        left |= broker.strategy.remains()
        found = {what: which for what, which in left.items() if which}
        if found:
            raise Violation(f"all have left, but {broker.name} still has {found}")
    if len(world.matcher):
        raise Violation("all have left, but the matcher is not empty")
