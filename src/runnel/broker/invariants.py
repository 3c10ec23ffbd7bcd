"""What must hold for a broker between any two calls of its door; for tests and the simulator.

Each check raises BugError: if one fails, the mistake is ours.
"""

from __future__ import annotations

from runnel.broker.broker import Broker
from runnel.broker.links import Link
from runnel.errors import demand


def check_broker(broker: Broker) -> None:
    """Check a broker's links and tables, and let its strategy and its modules check what is theirs."""
    for link in broker.links.values():
        check_link(link)
    numbers = [link.number for link in broker.links.values()]
    demand(len(set(numbers)) == len(numbers), f"{broker.name} uses a link number twice")
    known = set(broker.links.values())
    for id, advertisement in broker.tables.srt.items():
        demand(advertisement.link in known, f"advertisement {id} came over a link that is gone")
    for id, leaving in broker.tables.leaving.items():
        demand(leaving.link in known, f"advertisement {id} leaves a link that is gone")
        told_by = leaving.told_by
        demand(told_by is None or told_by in known, f"advertisement {id} was turned by nobody")
    for id, subscription in broker.tables.prt.items():
        demand(subscription.link in known, f"subscription {id} came over a link that is gone")
    for token, pending in broker.barriers.pending.items():
        demand(bool(pending.owed_by), f"barrier {token} waits for nobody")
        demand(pending.asked_by in known, f"barrier {token} was asked for by a link that is gone")
        demand(all(link in known for link in pending.owed_by), f"barrier {token} waits for ever")
    broker.strategy.check(broker.links.values())
    for module in broker.modules.values():
        module.check(broker)


def check_link(link: Link) -> None:
    """A link's sizes are those of what it keeps, and within its limits."""
    lanes = (link.monitor, link.data)
    waiting = sum(len(frame) for lane in lanes for frame in lane.waiting)
    flying = sum(len(frame) for lane in lanes for frame in lane.unacknowledged)
    demand(link.waiting_bytes == waiting, f"{link.name}: {link.waiting_bytes} ≠ {waiting} waiting")
    demand(link.flying_bytes == flying, f"{link.name}: {link.flying_bytes} ≠ {flying} flying")
    demand(waiting <= link.config.queue_bytes_max, f"{link.name}: {waiting} bytes wait")
    last = max((len(lane.unacknowledged[-1]) for lane in lanes if lane.unacknowledged), default=0)
    window = link.config.window_bytes
    demand(flying < window + max(last, 1), f"{link.name}: {flying} bytes fly, beyond the window")
