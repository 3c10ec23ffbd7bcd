"""The one maker of brokers: from a specification, for the node, the simulator, the laboratory, tests and benches.

    STRATEGIES   how a broker can route, by name (`routing.strategy`)
    MODULES      what it can do beyond that, by name; what each brings is declared where it is defined
    BrokerSpec   which of these a broker has, with their settings
    make_broker  the broker

A strategy or module that is part of Runnel is imported here and named in STRATEGIES or MODULES. One of your own calls
`register_strategy` or `register_module`; a node imports its file if the configuration names it under `extensions`
(`import_extensions`). docs/extending.md has all steps.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from msgspec import Struct, defstruct

from runnel.broker.broker import Broker
from runnel.broker.config import BrokerConfig
from runnel.broker.gauges import Gauges, ReadGauges
from runnel.broker.module import Module, ModuleKind, Surroundings
from runnel.broker.tables import Matcher, OwnMatcher
from runnel.errors import BugError, InputError
from runnel.matching import make_engine
from runnel.modules.generations.module import GENERATIONS
from runnel.modules.inspection.module import INSPECTION
from runnel.modules.placement.module import MIGRATION, PLACEMENT
from runnel.modules.profiles.module import PROFILES
from runnel.routing.strategy import StrategyKind
from runnel.routing.tree import TREE

STRATEGIES: dict[str, StrategyKind] = {kind.name: kind for kind in (TREE,)}
MODULES: dict[str, ModuleKind] = {
    kind.name: kind for kind in (INSPECTION, MIGRATION, PLACEMENT, GENERATIONS, PROFILES)
}


def register_strategy(kind: StrategyKind) -> None:
    """Make a strategy known by its name."""
    if STRATEGIES.setdefault(kind.name, kind) is not kind:
        raise BugError(f"there is a strategy {kind.name!r} already")


def register_module(kind: ModuleKind) -> None:
    """Make a module known by its name."""
    if MODULES.setdefault(kind.name, kind) is not kind:
        raise BugError(f"there is a module {kind.name!r} already")


def import_extensions(names: Iterable[str]) -> None:
    """Import files that register strategies and modules; InputError names one that cannot be imported."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InputError(
                f"extensions: {name} cannot be imported: {error}; install it where Runnel is installed, "
                "or name its folder in PYTHONPATH"
            ) from None


def strategy_kind(name: str) -> StrategyKind:
    """The strategy of this name, or InputError."""
    if name not in STRATEGIES:
        raise InputError(
            f"routing.strategy: must be one of {', '.join(STRATEGIES)}, got {name!r}; "
            "one of your own is known if `extensions` names the file that registers it"
        )
    return STRATEGIES[name]


def module_kind(name: str) -> ModuleKind:
    """The module of this name, or InputError."""
    if name not in MODULES:
        raise InputError(f"there is no module {name!r}: known are {', '.join(MODULES)}")
    return MODULES[name]


def settings_by_module() -> dict[str, type[Struct]]:
    """The modules that have settings, with the types of these: the tables of a configuration."""
    return {kind.name: kind.settings for kind in MODULES.values() if kind.settings is not None}


def routing_shape(table: object) -> type[Struct]:
    """The type of the table [routing] of a configuration: `strategy`, and the settings of the strategy it names.

    >>> routing_shape({}).__struct_fields__
    ('covering', 'advertisements', 'strategy')
    """
    name = table.get("strategy", TREE.name) if isinstance(table, dict) else TREE.name
    return _routing_shape(strategy_kind(name) if isinstance(name, str) else TREE)


def read_routing(table: Any) -> tuple[str, Struct]:
    """The name of the strategy and its settings, from a table of the type `routing_shape`.

    >>> read_routing(routing_shape({})(covering=False))
    ('tree', TreeConfig(covering=False, advertisements=True))
    """
    settings = strategy_kind(table.strategy).settings
    values = {name: getattr(table, name) for name in settings.__struct_fields__}
    return table.strategy, settings(**values)


@cache
def _routing_shape(kind: StrategyKind) -> type[Struct]:
    name = ("strategy", str, kind.name)
    return defstruct(
        "Routing", [name], bases=(kind.settings,), frozen=True, forbid_unknown_fields=True
    )


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """What a broker is made of. Settings that are not given are the defaults."""

    core: BrokerConfig
    strategy: str | StrategyKind = TREE.name
    routing: Struct | None = None
    modules: tuple[str, ...] = ()
    settings: Mapping[str, Struct] = field(default_factory=dict)  # of modules, by name


def make_broker(
    spec: BrokerSpec,
    incarnation: int,
    around: Surroundings | None = None,
    *,
    matcher: Matcher | None = None,
    clock: Callable[[], int] | None = None,
    gauges: ReadGauges = Gauges,
    added: Iterable[Module] = (),
    time_of_day: Callable[[], int] | None = None,
) -> Broker:
    """A broker without a network around it.

    `matcher` may be shared by a simulated world; by default the broker has its own. `clock` measures matching; `gauges`
    measures what only the driver can. `added` are modules made by the caller, which come before those of the
    specification. `time_of_day` is in nanoseconds since 1970; by default it is the time that `handle` is given.

    >>> broker = make_broker(BrokerSpec(BrokerConfig("B1"), modules=("inspection", "migration")), 1)
    >>> list(broker.modules)
    ['inspection', 'migration']
    """
    kind = strategy_kind(spec.strategy) if isinstance(spec.strategy, str) else spec.strategy
    routing = spec.routing if spec.routing is not None else kind.settings()
    return Broker(
        spec.core,
        incarnation,
        matcher if matcher is not None else OwnMatcher(make_engine()),
        lambda tables: kind.make(routing, tables),
        (*added, *_modules(spec, around or Surroundings(spec.core.name, spec.core.generation))),
        clock,
        gauges,
        time_of_day,
    )


def _modules(spec: BrokerSpec, around: Surroundings) -> Iterable[Module]:
    for name in spec.modules:
        kind = module_kind(name)
        if lacking := [need for need in kind.needs if need not in around.services]:
            raise BugError(f"{spec.core.name}: the module {name} needs {', '.join(lacking)}")
        settings = spec.settings.get(name)
        if settings is None and kind.settings is not None:
            settings = kind.settings()
        yield from kind.make(around, settings)
