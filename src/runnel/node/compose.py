"""The composition root: what a broker process is made of, and the only place that says so."""

from __future__ import annotations

from time import perf_counter_ns, time_ns

from runnel.broker.broker import Broker
from runnel.broker.module import Module
from runnel.broker.tables import OwnMatcher
from runnel.inspection.module import Inspection
from runnel.matching import make_engine
from runnel.node.config import NodeConfig
from runnel.routing.tree import TreeConfig, TreeRouting

_MILLISECOND = 1_000_000


def make_modules(address: str) -> tuple[Module, ...]:
    """Everything that this broker does beyond plain routing."""
    return (Inspection(address),)


def make_broker(config: NodeConfig, incarnation: int, address: str = "") -> Broker:
    """A broker without a network around it, as configured; `address` is where others find it."""
    tree = TreeConfig(
        covering=config.routing.covering, advertisements=config.routing.advertisements
    )
    return Broker(
        config.for_core(),
        incarnation,
        OwnMatcher(make_engine()),
        lambda tables: TreeRouting(tree, tables),
        modules=make_modules(address),
        clock=perf_counter_ns,
    )


def new_incarnation() -> int:
    """A number that no earlier start of this broker had: milliseconds of the wall clock.

    The core has 43 bits for it, which is enough until the year 2248. Two starts of one broker within a
    millisecond cannot be: a process takes longer than that to come up.
    """
    return time_ns() // _MILLISECOND
