"""A scenario: an experiment as a TOML file. `run.py` runs it in the simulator, `runnel up` on real processes.

    seed = 1                                   what everything is drawn from, unless a run says otherwise
    [topology]   shape = "green"               a shape and its parameters (shapes.py)
    [inventory]  name = "green"                an inventory and its parameters (inventory.py), or
    [resources]  match_us_each = 10            the same for every broker; nothing limits those without either
    [routing]    covering = true               advertisements = true
    [network]    latency_ms = 1                latency_spread, client_latency_ms, bytes_per_s, heartbeat_s
    [workload]   name = "stocks"               a workload and its parameters (runnel.workload)
    [clients]    placement = "workload"        or "random", "round-robin"; payload_bytes, verify, read_every_s, pings
    [time]       warm_up_s = 10                measure_s, drain_s_max
    [modules.placement]  algorithm = "grape"   publishers that migrate; the keys are those of a node's [placement]
    [trace]      sample = 1                    interval_s, publications, deliveries
    [[changes]]  at_s = 30, kind = "rate"      clients = "pub-*", share, factor or rate_per_s
                 kind = "join", "leave"        clients = "sub-1*": subscribers that come later, or go
                 kind = "stop", "start"        broker = "B1"
                 kind = "cut", "mend"          broker = "B1", other = "B2": the link between them

Rule: every mistake is an InputError that begins with its place in the file (`changes[2].broker`).
Time zero is when all brokers, links, publishers and first subscribers are there and know their routes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from runnel.complaints import explain
from runnel.compose import read_routing, routing_shape, settings_by_module
from runnel.errors import InputError
from runnel.lab.inventory import make_inventory
from runnel.lab.planned_network import PlannedNetwork
from runnel.lab.shapes import Shape, make_shape
from runnel.modules.placement.config import PlacementConfig
from runnel.routing.tree import TREE
from runnel.sim.resources import Resources
from runnel.workload.parameters import Parameters, Rate, Seconds, Share, read_parameters
from runnel.workload.registry import NAMES as WORKLOADS

Milliseconds = Annotated[float, Meta(ge=0.001, le=60_000)]
Bytes = Annotated[int, Meta(ge=0, le=1 << 40)]
Positive = Annotated[float, Meta(ge=0.001, le=1e8)]
_P = TypeVar("_P", bound=Parameters)


class ResourceSettings(Parameters, frozen=True):
    """[resources], the same for every broker. 0 means that matching takes no time, or that bandwidth has no limit."""

    match_us_each: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    match_us_base: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    output_bytes_per_s: Bytes = 0
    memory_bytes: Bytes = 1 << 40

    def for_world(self) -> Resources:
        """The same, in the simulator's units."""
        return Resources(
            round(self.match_us_each * 1_000),
            round(self.match_us_base * 1_000),
            self.output_bytes_per_s,
            self.memory_bytes,
        )


class NetworkSettings(Parameters, frozen=True):
    """[network]: what lies between hosts.

    With a `latency_spread` every link between brokers has a latency of its own, drawn from 1 − spread to 1 + spread
    times `latency_ms`. Heartbeats are rare: in a world where connections break only when a scenario says so, they
    would be most of what happens. A scenario that cuts links should have them as often as a node has, every second.
    """

    latency_ms: Milliseconds = 1.0
    latency_spread: Annotated[float, Meta(ge=0, le=0.99)] = 0.0
    client_latency_ms: Milliseconds = 0.1
    bytes_per_s: Bytes = 0
    heartbeat_s: Annotated[float, Meta(ge=0.05, le=86_400)] = 300.0


class ClientSettings(Parameters, frozen=True):
    """[clients]: their brokers, the size of payloads, and how subscribers read.

    Subscribers read at intervals everything that has come meanwhile: nothing waits for them, and it saves most of the
    time that simulating them takes. With `verify` they match and de-duplicate as every other client does, instead of
    only counting; this is needed if clients move. `pings` says how publishers measure brokers for
    GRAPE: not at all, so that the delay to all of them counts as the same, all at once, or one after the other.
    """

    placement: Literal["workload", "random", "round-robin"] = "workload"
    payload_bytes: Annotated[int, Meta(ge=0, le=1 << 19)] = 0
    verify: bool = False
    read_every_s: Seconds = 60.0
    pings: Literal["none", "at once", "in series"] = "none"


class TimeSettings(Parameters, frozen=True):
    """[time]: the warm-up, the time that is measured, and how long what is under way may then take to arrive."""

    warm_up_s: Seconds = 10.0
    measure_s: Positive = 60.0
    drain_s_max: Seconds = 60.0


class ScenarioTraceSettings(Parameters, frozen=True):
    """[trace]: one publication of so many; the load of brokers so often; the two large tables or not."""

    sample: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1
    interval_s: Positive = 10.0
    publications: bool = True
    deliveries: bool = True


class ScenarioChange(Parameters, frozen=True):
    """[[changes]]: something that happens at a time."""

    at_s: Seconds
    kind: Literal["rate", "join", "leave", "stop", "start", "cut", "mend"]
    clients: str = ""
    share: Share = 1.0
    factor: Rate | None = None
    rate_per_s: Rate | None = None
    broker: str = ""
    other: str = ""


_KEYS_OF: Mapping[str, frozenset[str]] = {
    "rate": frozenset({"clients", "share", "factor", "rate_per_s"}),
    **dict.fromkeys(("join", "leave"), frozenset({"clients"})),
    **dict.fromkeys(("stop", "start"), frozenset({"broker"})),
    **dict.fromkeys(("cut", "mend"), frozenset({"broker", "other"})),
}
"""Which keys of a change belong to which kind, besides `at_s` and `kind`."""


@dataclass(frozen=True, slots=True)
class NamedParameters:
    """A name with parameters, which are checked when the thing of that name is made."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, read and verified. Files that it names are looked for in `folder`."""

    name: str
    topology: NamedParameters
    workload: NamedParameters
    seed: int = 1
    inventory: NamedParameters | None = None
    means: ResourceSettings = field(default_factory=ResourceSettings)
    strategy: str = TREE.name
    routing: Struct = field(default_factory=TREE.settings)
    network: NetworkSettings = field(default_factory=NetworkSettings)
    clients: ClientSettings = field(default_factory=ClientSettings)
    time: TimeSettings = field(default_factory=TimeSettings)
    modules: Mapping[str, Struct] = field(default_factory=dict)  # with their settings
    trace: ScenarioTraceSettings = field(default_factory=ScenarioTraceSettings)
    changes: tuple[ScenarioChange, ...] = ()
    folder: Path = Path()
    planned: PlannedNetwork | None = (
        None  # a plan's overlay and places, instead of those of topology and inventory
    )

    @property
    def placement(self) -> PlacementConfig | None:
        """How publishers are placed; without it they stay where they are."""
        config = self.modules.get("placement")
        assert config is None or isinstance(config, PlacementConfig)
        return config

    def shape(self, seed: int | None = None) -> Shape:
        """The brokers and their links."""
        if self.planned is not None:
            return self.planned.shape
        with errors_at("topology"):
            return make_shape(
                self.topology.name, self.topology.parameters, self.seed if seed is None else seed
            )

    def resources(self, shape: Shape) -> dict[str, Resources]:
        """What each broker has to work with."""
        if self.planned is not None:
            return dict(self.planned.resources)
        if self.inventory is None:
            return dict.fromkeys(shape.brokers, self.means.for_world())
        with errors_at("inventory"):
            return make_inventory(self.inventory.name, self.inventory.parameters, shape.brokers)


def read_scenario(path: Path) -> Scenario:
    """Read and verify a file; InputError names the file, the place, and what to do."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: this is not TOML: {error}") from None
    return _parse(text, str(path), path.stem, path.parent)


def scenario_names() -> list[str]:
    """The names of the scenarios that come with Runnel."""
    files = resources.files("runnel.lab").joinpath("scenarios").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def named_scenario(name: str) -> Scenario:
    """One of the scenarios that come with Runnel."""
    if name not in scenario_names():
        raise InputError(f"there is no scenario {name!r}; there are {', '.join(scenario_names())}")
    file = resources.files("runnel.lab").joinpath("scenarios", f"{name}.toml")
    return _parse(file.read_text(encoding="utf-8"), f"scenario {name}", name, Path())


def _parse(text: str, place: str, name: str, folder: Path) -> Scenario:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{place}: this is not TOML: {error}") from None
    try:
        return make_scenario(tables, name, folder)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def is_scenario(path: Path) -> bool:
    """Whether a file is a scenario, rather than a topology with its brokers one by one, or nothing at all."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return False
    return "workload" in tables and "brokers" not in tables


def make_scenario(
    tables: Mapping[str, Any], name: str = "scenario", folder: Path = Path()
) -> Scenario:
    """Make a scenario of the tables of a file, and verify it.

    >>> made = make_scenario({"topology": {"shape": "star"}, "workload": {"name": "stocks"}})
    >>> made.shape().brokers
    ('B0', 'B1', 'B2', 'B3', 'B4')
    >>> make_scenario({"topology": {"shape": "star", "brokers": 0}, "workload": {"name": "stocks"}})
    Traceback (most recent call last):
    runnel.errors.InputError: topology.brokers: must be at least 1, got 0
    """
    _verify_keys(tables)
    changes = tables.get("changes", [])
    if not isinstance(changes, list):
        raise InputError("changes: must be a list of tables: write [[changes]]")
    routing = _find_table(tables, "routing")
    strategy, settings = read_routing(_convert_table("routing", routing, routing_shape(routing)))
    scenario = Scenario(
        name=name,
        topology=_read_named(tables, "topology", "shape"),
        workload=_read_named(tables, "workload", "name"),
        seed=_read_whole_number(tables, "seed", 1),
        inventory=_read_named(tables, "inventory", "name") if "inventory" in tables else None,
        means=_read_table(tables, "resources", ResourceSettings),
        strategy=strategy,
        routing=settings,
        network=_read_table(tables, "network", NetworkSettings),
        clients=_read_table(tables, "clients", ClientSettings),
        time=_read_table(tables, "time", TimeSettings),
        modules=_read_modules(tables),
        trace=_read_table(tables, "trace", ScenarioTraceSettings),
        changes=tuple(_read_change(number, table) for number, table in enumerate(changes)),
        folder=folder,
    )
    _verify(scenario)
    return scenario


@contextmanager
def errors_at(place: str) -> Iterator[None]:
    """Prefix every InputError with its place in the file."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}.{error}") from None


_KEYS = (
    *("topology", "inventory", "resources", "routing", "network", "workload", "clients", "time"),
    *("modules", "trace", "changes", "seed"),
)


def _verify_keys(tables: Mapping[str, Any]) -> None:
    for key in tables:
        if key not in _KEYS:
            raise InputError(f"{key}: there is no such key; known here: {', '.join(_KEYS)}")
    for key in ("topology", "workload"):
        if key not in tables:
            raise InputError(f"{key}: is missing: write [{key}]")
    if "inventory" in tables and "resources" in tables:
        raise InputError("resources: there is an inventory already: leave one of the two out")


def _find_table(tables: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = tables.get(key, {})
    if not isinstance(table, dict):
        raise InputError(f"{key}: must be a table: write [{key}]")
    return table


def _read_table(tables: Mapping[str, Any], key: str, kind: type[_P]) -> _P:
    with errors_at(key):
        return read_parameters(kind, _find_table(tables, key))


def _read_whole_number(tables: Mapping[str, Any], key: str, default: int) -> int:
    value = tables.get(key, default)
    if type(value) is not int or value < 0:
        raise InputError(f"{key}: must be a whole number, 0 or more, got {value!r}")
    return value


def _read_named(tables: Mapping[str, Any], key: str, by: str) -> NamedParameters:
    """A table of which one key is the name and the others are parameters."""
    table = dict(_find_table(tables, key))
    name = table.pop(by, None)
    if not isinstance(name, str):
        raise InputError(f'{key}.{by}: must be a name in quotes: write {by} = "…"')
    return NamedParameters(name, table)


def _read_modules(tables: Mapping[str, Any]) -> dict[str, Struct]:
    found: dict[str, Struct] = {}
    shapes = settings_by_module()
    for name, table in _find_table(tables, "modules").items():
        if name not in shapes:
            known = ", ".join(shapes)
            raise InputError(f"modules.{name}: there is no such module; known here: {known}")
        if not isinstance(table, dict):
            raise InputError(f"modules.{name}: must be a table: write [modules.{name}]")
        found[name] = _convert_table(f"modules.{name}", table, shapes[name])
    return found


def _convert_table(place: str, table: Mapping[str, Any], shape: type[Struct]) -> Struct:
    """A table whose keys a strategy or a module has declared."""
    try:
        return msgspec.convert(table, shape)
    except msgspec.ValidationError as error:
        raise InputError(f"{place}.{explain(str(error), table, shape)}") from None


def _read_change(number: int, table: Any) -> ScenarioChange:
    place = f"changes[{number}]"
    if not isinstance(table, dict):
        raise InputError(f"{place}: must be a table: write [[changes]]")
    with errors_at(place):
        change = read_parameters(ScenarioChange, table)
        keys = _KEYS_OF[change.kind]
        for key in table:
            if key not in keys and key not in ("at_s", "kind"):
                raise InputError(f"{key}: has no place in a change of kind {change.kind!r}")
        for key in sorted(keys & {"clients", "broker", "other"}):
            if not getattr(change, key):
                raise InputError(f"{key}: is missing")
        if change.kind == "rate" and (change.factor is None) == (change.rate_per_s is None):
            raise InputError("factor: give either factor or rate_per_s")
    return change


def _verify(scenario: Scenario) -> None:
    """Check what can be checked before anything runs, without making the workload."""
    shape = scenario.shape()
    scenario.resources(shape)
    if scenario.workload.name not in WORKLOADS:
        raise InputError(
            f"workload.name: there is no workload {scenario.workload.name!r}; there are {', '.join(WORKLOADS)}"
        )
    joined = {frozenset(link) for link in shape.links}
    for number, change in enumerate(scenario.changes):
        place = f"changes[{number}]"
        for key in ("broker", "other"):
            name = getattr(change, key)
            if name and name not in shape.brokers:
                raise InputError(f"{place}.{key}: there is no broker {name}")
        if change.other and frozenset((change.broker, change.other)) not in joined:
            raise InputError(
                f"{place}.other: there is no link between {change.broker} and {change.other}"
            )
