"""Turns a node's configuration into the specification of its broker (`runnel/compose.py` makes the broker)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

from runnel.broker.broker import Broker
from runnel.broker.gauges import Gauges, ReadGauges
from runnel.broker.module import Module, Surroundings
from runnel.compose import MODULES, BrokerSpec, make_broker, read_routing, settings_by_module
from runnel.modules.generations.module import Hosting
from runnel.modules.generations.questions import OpenGeneration
from runnel.modules.profiles.config import ProfilesConfig
from runnel.node.config import ANY_BROKER, NodeConfig
from runnel.quantities import MILLISECOND, SECOND

if TYPE_CHECKING:
    from runnel.trace.setup import NodeTrace


def make_trace(
    config: NodeConfig, incarnation: int, complain: Callable[[str], None], address: str = ""
) -> NodeTrace | None:
    """The trace of a broker process, if one is configured; the caller starts and stops it."""
    wanted = config.trace
    if not wanted.dir:
        return None
    # Arrow is slow to load and takes tens of megabytes, so only where it is used.
    from runnel.trace.setup import NodeTrace, TraceOptions

    settings = TraceOptions(
        Path(wanted.dir),
        sample=wanted.sample,
        interval_ns=round(wanted.interval_s * SECOND),
        flush_interval_ns=round(wanted.flush_interval_s * SECOND),
        publications=wanted.publications,
        deliveries=wanted.deliveries,
    )
    return NodeTrace(settings, config.name, incarnation, complain, _about(config, address))


def _about(config: NodeConfig, address: str) -> dict[str, Any]:
    """The description of a broker in its trace: its address, and its capacity as far as it is configured."""
    profiles: ProfilesConfig = config.settings_of("profiles")
    base_ns, each_ns = profiles.matching_ns or (0, 0)
    output = profiles.output_bytes_per_s or config.limits.output_bytes_per_s
    told = {"address": address, "output_bytes_per_second": output}
    return told | {"match_ns_base": base_ns, "match_ns_each": each_ns}


def make_node_broker(
    config: NodeConfig,
    incarnation: int,
    address: str = "",
    trace: NodeTrace | None = None,
    hosting: Hosting | None = None,
    place: OpenGeneration | None = None,
    gauges: ReadGauges = Gauges,
    admin: str = "",
) -> Broker:
    """The broker of a node, with every module that there is; `address` is where others find it, `admin` operators.

    `hosting` is the process, which can host several generations; this broker is for the generation `place`.
    """
    place = place or OpenGeneration(1, accepts=config.accepts)
    services: dict[str, Any] = {}
    if hosting is not None:
        services |= {"hosting": hosting, "place": place}
    if trace is not None:
        services["recording"] = trace.module.recording  # profiles are made from the same
    around = Surroundings(
        config.name,
        place.generation,
        address,
        config.limits.output_bytes_per_s,
        admin=admin,
        services=services,
    )
    names = tuple(kind.name for kind in MODULES.values() if {*kind.needs} <= {*around.services})
    spec = BrokerSpec(
        replace(
            config.for_core(),
            generation=place.generation,
            accepts=tuple(name for name in place.accepts if name != ANY_BROKER),
            accepts_any=ANY_BROKER in place.accepts,
            address=address,
        ),
        *read_routing(config.settings_of("routing")),
        names,
        {name: config.settings_of(name) for name in settings_by_module()},
    )
    added: tuple[Module, ...] = () if trace is None else (trace.module,)
    return make_broker(
        spec,
        incarnation,
        around,
        clock=perf_counter_ns,
        gauges=gauges,
        added=added,
        time_of_day=time_ns,
    )


def new_incarnation() -> int:
    """A number that is larger at every start of a broker: milliseconds of the wall clock.

    The core has 43 bits for it, which is enough until the year 2248. A process takes longer than a millisecond to
    start, so two starts of one broker cannot get the same number.
    """
    return time_ns() // MILLISECOND
