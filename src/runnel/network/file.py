"""Reads a topology from TOML, the role that PANDA has for PADRES: brokers, links, clients and their work.

    links = [["B1", "B2"], ["B2", "B3"]]        the first of a pair dials the second
    [defaults]                                  for every broker: any key that a broker has
    [brokers.B1]                                listen = "127.0.0.1:7001" or port = 7001; neighbours = ["B2"];
                                                output_bytes_per_s, and whatever `runnel broker` can be configured with
    [[clients]]                                 name, broker, start_s, copies, subscribe = [filters]
    publish = { advertise = "class = 'STOCK'", rate_per_s = 10, count = 100, events = "stocks", payload_bytes = 0 }

Rule: every mistake is an InputError that begins with its place in the file (`clients.alice.subscribe[1]`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta, Struct

from runnel.compose import import_extensions, settings_by_module
from runnel.errors import FilterSyntaxError, InputError
from runnel.language import Value, check_attributes, parse
from runnel.network.topology import (
    BrokerPlan,
    ClientPlan,
    LinkOf,
    PublishPlan,
    Topology,
    WrittenFilter,
)
from runnel.paths import path_between

_T = TypeVar("_T")

Name = Annotated[str, Meta(min_length=1, max_length=200)]


class _TopologyTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class _TopologyFile(_TopologyTable, frozen=True):
    brokers: dict[Name, Any]
    links: list[tuple[str, str]] = []
    defaults: dict[str, Any] = {}
    clients: list[Any] = []


class _BrokerTable(_TopologyTable, frozen=True):
    listen: str | None = None
    port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    neighbours: list[str] = []
    output_bytes_per_s: Annotated[int, Meta(ge=0)] | None = None
    drain_s: float | None = None
    stories: bool | None = None
    allow_remote: bool | None = None
    extensions: list[str] | None = None


_HERE = ("listen", "port", "neighbours", "output_bytes_per_s")
"""The keys that this module evaluates; all others are passed on to the brokers unchanged."""


@cache
def _broker_shape(modules: tuple[str, ...]) -> type[_BrokerTable]:
    """The keys of a broker: those above, and the tables of a node with those of all modules."""
    links = ("link", "client_link", "limits", "tls", "access", "admin")
    tables = ("routing", *links, "log", "trace", *modules)
    fields: list[Any] = [
        (name, dict[str, Any], msgspec.field(default_factory=dict)) for name in tables
    ]
    made = msgspec.defstruct(
        "_BrokerTable", fields, bases=(_BrokerTable,), frozen=True, forbid_unknown_fields=True
    )
    return cast("type[_BrokerTable]", made)


class _PublishTable(_TopologyTable, frozen=True):
    advertise: str
    events: str | list[dict[str, str | int | float | bool]] = "stocks"
    rate_per_s: Annotated[float, Meta(gt=0, le=1e6)] = 10.0
    count: Annotated[int, Meta(ge=0)] | None = None
    payload_bytes: Annotated[int, Meta(ge=0, le=1 << 19)] = 0
    seed: int = 1


class _ClientTable(_TopologyTable, frozen=True):
    name: Name
    broker: str
    start_s: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    copies: Annotated[int, Meta(ge=1, le=10_000)] = 1
    subscribe: str | list[str] = []
    publish: _PublishTable | None = None


def read_topology(path: Path) -> Topology:
    """Read and verify a file; InputError names the file, the place, and what to do."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: this is not TOML: {error}") from None
    try:
        return make_topology(tables, path.parent)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def make_topology(tables: Mapping[str, Any], folder: Path = Path()) -> Topology:
    """Make a topology from the tables of a file, and verify it.

    >>> made = make_topology({"brokers": {"B1": {}, "B2": {}}, "links": [["B1", "B2"]]})
    >>> made.dials("B1")
    ['B2']
    >>> make_topology({"brokers": {"B1": {}}, "links": [["B1", "B9"]]})
    Traceback (most recent call last):
    runnel.errors.InputError: links[0]: there is no broker B9: known are B1
    """
    file = _convert("", tables, _TopologyFile)
    for table in (file.defaults, *file.brokers.values()):
        extensions = table.get("extensions", ()) if isinstance(table, dict) else ()
        if isinstance(extensions, list):
            import_extensions(str(name) for name in extensions)
    shape_of = _broker_shape(tuple(settings_by_module()))
    defaults = _convert("defaults", file.defaults, shape_of)
    for key in ("listen", "port", "neighbours"):
        if key in file.defaults:
            raise InputError(f"defaults.{key}: give it to each broker by itself")
    tables_of = {
        name: _convert(f"brokers.{name}", table, shape_of) for name, table in file.brokers.items()
    }
    if not tables_of:
        raise InputError("brokers: there is none: write [brokers.B1]")
    brokers = {name: _broker(name, table, defaults) for name, table in tables_of.items()}
    _verify_ports(brokers)
    links = _links(file, tables_of)
    shape = Topology(brokers, links, folder=folder)
    _verify_connected(shape)
    clients = [client for table in file.clients for client in _clients(table, shape)]
    _verify_names(brokers, clients)
    return Topology(brokers, links, tuple(clients), folder)


def _convert(place: str, table: Any, kind: type[_T]) -> _T:
    """Convert one table; errors of the library become errors with a place."""
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        said, _, where = str(error).partition(" - at `$")
        at = place + where.rstrip("`")
        said = said.replace("Object contains unknown field", "there is no key")
        said = said.replace("Object missing required field", "there must be a key")
        if said.startswith("there is no key"):
            known: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
            near = get_close_matches(said.rpartition(" ")[2].strip("`"), known, n=1)
            meant = f"did you mean {near[0]}? " if near else ""
            said += f": {meant}known are {', '.join(known)}"
        raise InputError(f"{at.lstrip('.') or 'the file'}: {said}") from None


# -- brokers and links --------------------------------------------------------------------------------


def verify_broker_name(name: str) -> None:
    """Raise InputError unless the name can be used in files, on a command line and as the name of a log file.

    >>> verify_broker_name("B 1")
    Traceback (most recent call last):
    runnel.errors.InputError: 'B 1' is no name of a broker: a name is printable and has no blanks and no '/'
    """
    if not name.isprintable() or " " in name or "/" in name:
        raise InputError(
            f"{name!r} is no name of a broker: a name is printable and has no blanks and no '/'"
        )


def _broker(name: str, table: _BrokerTable, defaults: _BrokerTable) -> BrokerPlan:
    try:
        verify_broker_name(name)
    except InputError as error:
        raise InputError(f"brokers.{name}: {error}") from None
    if table.listen is not None and table.port is not None:
        raise InputError(f"brokers.{name}: either listen or port, not both")
    settings: dict[str, Any] = {}
    for source in (defaults, table):
        for key in source.__struct_fields__:
            if key in _HERE:
                continue
            value = getattr(source, key)
            if isinstance(value, dict):
                if value:
                    settings[key] = settings.get(key, {}) | value
            elif value is not None:
                settings[key] = value
        if source.output_bytes_per_s is not None:
            short = {"output_bytes_per_s": source.output_bytes_per_s}
            settings["limits"] = settings.get("limits", {}) | short
    return BrokerPlan(name, table.listen or f"127.0.0.1:{table.port or 0}", settings)


def _verify_ports(brokers: Mapping[str, BrokerPlan]) -> None:
    taken: dict[str, str] = {}
    for name, broker in brokers.items():
        if broker.listen.endswith(":0"):
            continue
        if broker.listen in taken:
            raise InputError(
                f"brokers.{name}: {broker.listen} is where {taken[broker.listen]} listens: "
                "give each broker a port of its own"
            )
        taken[broker.listen] = name


def _links(file: _TopologyFile, tables: Mapping[str, _BrokerTable]) -> tuple[LinkOf, ...]:
    named = [(f"links[{number}]", tuple(pair)) for number, pair in enumerate(file.links)]
    seen: dict[frozenset[str], str] = {}
    links: list[LinkOf] = []
    for place, (one, other) in named:
        _verify_link(place, one, other, tables)
        if frozenset((one, other)) in seen:
            raise InputError(
                f"{place}: {one} and {other} are joined by {seen[frozenset((one, other))]}"
            )
        seen[frozenset((one, other))] = place
        _verify_no_loop(place, one, other, tables, links)
        links.append((one, other))
    for name, table in tables.items():
        for number, other in enumerate(table.neighbours):
            place = f"brokers.{name}.neighbours[{number}]"
            _verify_link(place, name, other, tables)
            if frozenset((name, other)) in seen:
                continue  # both may name each other
            seen[frozenset((name, other))] = place
            _verify_no_loop(place, name, other, tables, links)
            links.append((name, other))
    return tuple(links)


def _verify_link(place: str, one: str, other: str, tables: Mapping[str, _BrokerTable]) -> None:
    for name in (one, other):
        if name not in tables:
            raise InputError(f"{place}: there is no broker {name}: known are {', '.join(tables)}")
    if one == other:
        raise InputError(f"{place}: {one} is not its own neighbour")


def _verify_no_loop(
    place: str, one: str, other: str, tables: Mapping[str, _BrokerTable], links: list[LinkOf]
) -> None:
    path = path_between(links, one, other)
    if path:
        raise InputError(
            f"{place}: {one} and {other} are joined already by {' – '.join(path)}: "
            "brokers form a tree, leave one of these links out"
        )


def _verify_connected(topology: Topology) -> None:
    first = next(iter(topology.brokers))
    apart = [name for name in topology.brokers if not path_between(topology.links, first, name)]
    if apart:
        raise InputError(
            f"links: no way leads from {first} to {', '.join(apart)}: join all brokers into one tree"
        )


# -- clients ------------------------------------------------------------------------------------------


def _clients(table: Any, topology: Topology) -> list[ClientPlan]:
    name = table.get("name", "?") if isinstance(table, dict) else "?"
    place = f"clients.{name}"
    read = _convert(place, table, _ClientTable)
    if read.broker not in topology.brokers:
        known = ", ".join(topology.brokers)
        raise InputError(f"{place}.broker: there is no broker {read.broker}: known are {known}")
    texts = [read.subscribe] if isinstance(read.subscribe, str) else read.subscribe
    wanted = tuple(
        _parse_filter(f"{place}.subscribe[{number}]", text) for number, text in enumerate(texts)
    )
    publish = None if read.publish is None else _publish(f"{place}.publish", read.publish, topology)
    if publish is None and not wanted:
        raise InputError(f"{place}: it does nothing: give it subscribe or publish")
    names = (
        [read.name] if read.copies == 1 else [f"{read.name}-{n + 1}" for n in range(read.copies)]
    )
    return [ClientPlan(name, read.broker, read.start_s, wanted, publish) for name in names]


def _parse_filter(place: str, text: str) -> WrittenFilter:
    try:
        return WrittenFilter(text, parse(text))
    except FilterSyntaxError as error:
        raise InputError(f"{place}: {error}") from None
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def _publish(place: str, read: _PublishTable, topology: Topology) -> PublishPlan:
    advertise = _parse_filter(f"{place}.advertise", read.advertise)
    events: str | tuple[Mapping[str, Value], ...]
    if isinstance(read.events, str):
        events = read.events
        if events != "stocks" and not (topology.folder / events).is_file():
            raise InputError(
                f"{place}.events: there is no file {topology.folder / events}: "
                'name one, write "stocks", or write the events here'
            )
    else:
        events = tuple(read.events)
        for number, event in enumerate(events):
            _verify_event(f"{place}.events[{number}]", event, advertise)
        if not events:
            raise InputError(f"{place}.events: the list is empty")
    return PublishPlan(
        advertise, events, read.rate_per_s, read.count, read.payload_bytes, read.seed
    )


def _verify_event(place: str, event: Mapping[str, Value], advertise: WrittenFilter) -> None:
    try:
        check_attributes(event)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
    if not advertise.selection.matches(event):
        raise InputError(f"{place}: it is not what is advertised: {advertise.text}")


def _verify_names(brokers: Mapping[str, BrokerPlan], clients: list[ClientPlan]) -> None:
    taken = dict.fromkeys(brokers, "a broker")
    for client in clients:
        if client.name in taken:
            raise InputError(
                f"clients.{client.name}: {taken[client.name]} has that name already: "
                "give everybody a name of their own"
            )
        taken[client.name] = "a client"
