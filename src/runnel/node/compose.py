"""The composition root: what a broker process is made of, and the only place that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

from runnel.allocation.cbc import Cbc
from runnel.broker.broker import Broker
from runnel.broker.links import SECOND
from runnel.broker.module import Context, Module
from runnel.broker.tables import OwnMatcher
from runnel.generations.module import Generations, Hosting
from runnel.inspection.module import Inspection
from runnel.inspection.questions import OpenGeneration
from runnel.matching import make_engine
from runnel.node.config import NodeConfig
from runnel.placement.answers import PlacementAnswers
from runnel.placement.config import PlacementConfig
from runnel.placement.grape_module import Grape
from runnel.placement.migration import Migration
from runnel.placement.pop_module import Pop
from runnel.routing.tree import TreeConfig, TreeRouting

if TYPE_CHECKING:
    from runnel.trace.setup import NodeTrace

_MILLISECOND = 1_000_000


def make_modules(
    address: str,
    placement: PlacementConfig,
    trace: NodeTrace | None = None,
    generations: Generations | None = None,
) -> tuple[Module, ...]:
    """Everything that this broker does beyond plain routing. Also where placement is off it answers other brokers."""
    migration = Migration()

    def migrate(context: Context, id: int, to: str, address: str, now: int) -> bool:
        return migration.relocate(context, id, to, address)

    pop, grape = Pop(placement, migrate, address), Grape(placement, migrate, address)
    answers = dict(PlacementAnswers(migration, pop, grape).by_question())
    more: tuple[Module, ...] = () if trace is None else (trace.module,)
    if generations is not None:
        answers |= generations.answers()
        more = (generations, *more)
    return (Inspection(address, answers), migration, pop, grape, *more)


def make_trace(
    config: NodeConfig, incarnation: int, complain: Callable[[str], None], address: str = ""
) -> NodeTrace | None:
    """The trace of a broker process, if there is to be one; whoever runs the broker starts and stops it."""
    wanted = config.trace
    if not wanted.dir:
        return None
    # Arrow takes a while to load, and tens of megabytes: only where it is used.
    from runnel.trace.setup import NodeTrace, Settings

    settings = Settings(
        Path(wanted.dir),
        sample=wanted.sample,
        interval_ns=round(wanted.interval_s * SECOND),
        flush_interval_ns=round(wanted.flush_interval_s * SECOND),
        publications=wanted.publications,
        deliveries=wanted.deliveries,
    )
    return NodeTrace(settings, config.name, incarnation, complain, _about(config, address))


def _about(config: NodeConfig, address: str) -> dict[str, Any]:
    """What a trace tells of the broker itself: where it listens, and what it may be planned to do, if that is said."""
    base_ns, each_ns = config.profiles.matching_ns or (0, 0)
    output = config.profiles.output_bytes_per_s or config.limits.output_bytes_per_s
    told = {"address": address, "output_bytes_per_second": output}
    return told | {"match_ns_base": base_ns, "match_ns_each": each_ns}


def make_broker(
    config: NodeConfig,
    incarnation: int,
    address: str = "",
    trace: NodeTrace | None = None,
    hosting: Hosting | None = None,
    place: OpenGeneration | None = None,
) -> Broker:
    """A broker without a network around it, as configured; `address` is where others find it.

    `hosting` can have brokers of several generations, of which this is the one for `place`.
    """
    generations = None
    place = place or OpenGeneration(1)
    if hosting is not None:
        generations = Generations(place.generation, hosting, address, place.standby)
        generations.reserve = place.reserve
    tree = TreeConfig(
        covering=config.routing.covering, advertisements=config.routing.advertisements
    )
    return Broker(
        replace(config.for_core(), generation=place.generation),
        incarnation,
        OwnMatcher(make_engine()),
        lambda tables: TreeRouting(tree, tables),
        modules=(
            *make_modules(address, config.placement, trace, generations),
            Cbc(config.profiles, address, config.limits.output_bytes_per_s),
        ),
        clock=perf_counter_ns,
    )


def new_incarnation() -> int:
    """A number that no earlier start of this broker had: milliseconds of the wall clock.

    The core has 43 bits for it, which is enough until the year 2248. Two starts of one broker within a
    millisecond cannot be: a process takes longer than that to come up.
    """
    return time_ns() // _MILLISECOND
