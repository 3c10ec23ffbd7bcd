"""A scenario: an experiment as a TOML file. `run.py` runs it in the simulator, `runnel up` on real processes.

    seed = 1                                   what everything is drawn from, unless a run says otherwise
    [topology]   shape = "green"               a shape and its parameters (shapes.py)
    [inventory]  name = "green"                an inventory and its parameters (inventory.py), or
    [resources]  match_us_each = 10            the same for every broker; nothing limits those without either
    [routing]    covering = true               advertisements = true
    [network]    latency_ms = 1                latency_spread, client_latency_ms, bytes_per_s, heartbeat_s
    [workload]   name = "stocks"               a workload and its parameters (runnel.workload)
    [clients]    placement = "workload"        or "random", "round-robin"; payload_bytes, verify, read_every_s
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
from runnel.errors import InputError
from runnel.lab.inventory import make_inventory
from runnel.lab.laid import Laid
from runnel.lab.shapes import Shape, make_shape
from runnel.placement.config import PlacementConfig
from runnel.sim.resources import Resources
from runnel.workload.parameters import Parameters, Rate, Seconds, Share, read_parameters
from runnel.workload.registry import NAMES as WORKLOADS

Milliseconds = Annotated[float, Meta(ge=0.001, le=60_000)]
Bytes = Annotated[int, Meta(ge=0, le=1 << 40)]
Positive = Annotated[float, Meta(ge=0.001, le=1e8)]
_P = TypeVar("_P", bound=Parameters)

MODULES: Mapping[str, type[Struct]] = {"placement": PlacementConfig}
"""What brokers can do beyond plain routing, by name, with what each is told."""


class Means(Parameters, frozen=True):
    """[resources]: the same for every broker; 0 is matching that takes no time, or bandwidth without limit."""

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


class Routing(Parameters, frozen=True):
    """[routing]: both switches of routing on a tree."""

    covering: bool = True
    advertisements: bool = True


class NetworkOf(Parameters, frozen=True):
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


class ClientsOf(Parameters, frozen=True):
    """[clients]: where they are, what publications carry along, and how subscribers take what they get.

    Subscribers read every so often, all that has come until then: nobody waits for them, and it saves most of the
    time that they take. `verify` lets them match and de-duplicate, as every other client does, rather than count; where
    clients are moved, that is needed.
    """

    placement: Literal["workload", "random", "round-robin"] = "workload"
    payload_bytes: Annotated[int, Meta(ge=0, le=1 << 19)] = 0
    verify: bool = False
    read_every_s: Seconds = 60.0


class Time(Parameters, frozen=True):
    """[time]: what is measured comes after the warm-up; then what is under way may arrive."""

    warm_up_s: Seconds = 10.0
    measure_s: Positive = 60.0
    drain_s_max: Seconds = 60.0


class TraceOf(Parameters, frozen=True):
    """[trace]: one publication of so many; the load of brokers so often; the two large tables or not."""

    sample: Annotated[int, Meta(ge=1, le=1_000_000_000)] = 1
    interval_s: Positive = 10.0
    publications: bool = True
    deliveries: bool = True


class Change(Parameters, frozen=True):
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
class Named:
    """Something with a name and parameters, which whoever makes it will check."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """An experiment, read and verified. `folder` is where files that it names are looked for."""

    name: str
    topology: Named
    workload: Named
    seed: int = 1
    inventory: Named | None = None
    means: Means = field(default_factory=Means)
    routing: Routing = field(default_factory=Routing)
    network: NetworkOf = field(default_factory=NetworkOf)
    clients: ClientsOf = field(default_factory=ClientsOf)
    time: Time = field(default_factory=Time)
    placement: PlacementConfig | None = None  # without it publishers stay where they are
    trace: TraceOf = field(default_factory=TraceOf)
    changes: tuple[Change, ...] = ()
    folder: Path = Path()
    laid: Laid | None = (
        None  # a plan's overlay and places, instead of those of topology and inventory
    )

    def shape(self, seed: int | None = None) -> Shape:
        """The brokers and their links."""
        if self.laid is not None:
            return self.laid.shape
        with at("topology"):
            return make_shape(
                self.topology.name, self.topology.parameters, self.seed if seed is None else seed
            )

    def resources(self, shape: Shape) -> dict[str, Resources]:
        """What each broker has to work with."""
        if self.laid is not None:
            return dict(self.laid.resources)
        if self.inventory is None:
            return dict.fromkeys(shape.brokers, self.means.for_world())
        with at("inventory"):
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
    """The scenarios that come along."""
    files = resources.files("runnel.lab").joinpath("scenarios").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def named_scenario(name: str) -> Scenario:
    """One of the scenarios that come along."""
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
    """Verify what a file says, already taken apart.

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
    scenario = Scenario(
        name=name,
        topology=_named(tables, "topology", "shape"),
        workload=_named(tables, "workload", "name"),
        seed=_whole(tables, "seed", 1),
        inventory=_named(tables, "inventory", "name") if "inventory" in tables else None,
        means=_table(tables, "resources", Means),
        routing=_table(tables, "routing", Routing),
        network=_table(tables, "network", NetworkOf),
        clients=_table(tables, "clients", ClientsOf),
        time=_table(tables, "time", Time),
        **_modules(tables),
        trace=_table(tables, "trace", TraceOf),
        changes=tuple(_change(number, table) for number, table in enumerate(changes)),
        folder=folder,
    )
    _verify(scenario)
    return scenario


@contextmanager
def at(place: str) -> Iterator[None]:
    """Let complaints begin with their place in the file."""
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


def _get(tables: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = tables.get(key, {})
    if not isinstance(table, dict):
        raise InputError(f"{key}: must be a table: write [{key}]")
    return table


def _table(tables: Mapping[str, Any], key: str, kind: type[_P]) -> _P:
    with at(key):
        return read_parameters(kind, _get(tables, key))


def _whole(tables: Mapping[str, Any], key: str, default: int) -> int:
    value = tables.get(key, default)
    if type(value) is not int or value < 0:
        raise InputError(f"{key}: must be a whole number, 0 or more, got {value!r}")
    return value


def _named(tables: Mapping[str, Any], key: str, by: str) -> Named:
    """A table of which one key is the name and the others are parameters."""
    table = dict(_get(tables, key))
    name = table.pop(by, None)
    if not isinstance(name, str):
        raise InputError(f'{key}.{by}: must be a name in quotes: write {by} = "…"')
    return Named(name, table)


def _modules(tables: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, table in _get(tables, "modules").items():
        if name not in MODULES:
            known = ", ".join(MODULES)
            raise InputError(f"modules.{name}: there is no such module; known here: {known}")
        if not isinstance(table, dict):
            raise InputError(f"modules.{name}: must be a table: write [modules.{name}]")
        try:
            found[name] = msgspec.convert(table, MODULES[name])
        except msgspec.ValidationError as error:
            raise InputError(
                f"modules.{name}.{explain(str(error), table, MODULES[name])}"
            ) from None
    return found


def _change(number: int, table: Any) -> Change:
    place = f"changes[{number}]"
    if not isinstance(table, dict):
        raise InputError(f"{place}: must be a table: write [[changes]]")
    with at(place):
        change = read_parameters(Change, table)
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
    """What can be found out before anything runs, without making the workload."""
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
