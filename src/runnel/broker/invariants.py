"""What must hold for a broker between any two calls of its door; for tests and the simulator.

Each check raises BugError: if one fails, the mistake is ours.
"""

from __future__ import annotations

from runnel.broker.broker import Broker
from runnel.broker.links import Link
from runnel.errors import BugError
from runnel.routing.tree import TreeRouting


def check_broker(broker: Broker) -> None:
    """Check a broker's links, tables and what it keeps about its neighbours."""
    for link in broker.links.values():
        check_link(link)
    numbers = [link.number for link in broker.links.values()]
    _demand(len(set(numbers)) == len(numbers), f"{broker.name} uses a link number twice")
    known = set(broker.links.values())
    for id, advertisement in broker.tables.srt.items():
        _demand(advertisement.link in known, f"advertisement {id} came over a link that is gone")
    for id, leaving in broker.tables.leaving.items():
        _demand(leaving.link in known, f"advertisement {id} leaves a link that is gone")
        told_by = leaving.told_by
        _demand(told_by is None or told_by in known, f"advertisement {id} was turned by nobody")
    for id, subscription in broker.tables.prt.items():
        _demand(subscription.link in known, f"subscription {id} came over a link that is gone")
    for token, pending in broker.barriers.pending.items():
        _demand(bool(pending.owed_by), f"barrier {token} waits for nobody")
        _demand(pending.asked_by in known, f"barrier {token} was asked for by a link that is gone")
        _demand(all(link in known for link in pending.owed_by), f"barrier {token} waits for ever")
    if isinstance(broker.strategy, TreeRouting):
        check_outbound(broker, broker.strategy)


def check_link(link: Link) -> None:
    """A link's sizes are those of what it keeps, and within its limits."""
    lanes = (link.monitor, link.data)
    waiting = sum(len(frame) for lane in lanes for frame in lane.waiting)
    flying = sum(len(frame) for lane in lanes for frame in lane.unacknowledged)
    _demand(link.waiting_bytes == waiting, f"{link.name}: {link.waiting_bytes} ≠ {waiting} waiting")
    _demand(link.flying_bytes == flying, f"{link.name}: {link.flying_bytes} ≠ {flying} flying")
    _demand(waiting <= link.config.queue_bytes_max, f"{link.name}: {waiting} bytes wait")
    last = max((len(lane.unacknowledged[-1]) for lane in lanes if lane.unacknowledged), default=0)
    window = link.config.window_bytes
    _demand(flying < window + max(last, 1), f"{link.name}: {flying} bytes fly, beyond the window")


def check_outbound(broker: Broker, strategy: TreeRouting) -> None:
    """What a neighbour was sent, or is kept back from it, is in the PRT and came from elsewhere."""
    prt = broker.tables.prt
    for link in broker.links.values():
        if link.kind != "broker" or not link.peer_token:
            continue
        outbound = strategy.outbound(link)
        for id in (*outbound.sent, *outbound.kept_back):
            _demand(id in prt, f"{link.name} knows subscription {id}, which is gone")
            _demand(prt[id].link is not link, f"{link.name} got its own subscription {id} back")
        for id in outbound.kept_back:
            _demand(id not in outbound.sent, f"subscription {id} is both sent and kept back")
            covered = outbound.sent.is_covered(outbound.kept_back.selection(id))
            _demand(covered, f"subscription {id} is kept back from {link.name} for no reason")


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BugError(otherwise)
