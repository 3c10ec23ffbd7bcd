"""The configuration of a node: read from TOML, checked once, then never changed.

The types are the checks, and the defaults are the core's own. Rules:

- Units are in the names (`heartbeat_s`, `queue_bytes_max`).
- Whatever cannot be used is an InputError that names the key and says what is allowed.
- A key that nobody knows is an error too: a misspelt limit must not be a limit that does not hold.

`example.toml` beside this file shows every key with its default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from runnel.allocation.config import ProfilesConfig
from runnel.broker.config import BrokerConfig, client_link_config
from runnel.broker.links import SECOND, LinkConfig
from runnel.complaints import explain
from runnel.errors import InputError
from runnel.net.addresses import DEFAULT_PORT, Address, parse_address
from runnel.placement.config import PlacementConfig
from runnel.routing.tree import TreeConfig
from runnel.wire.messages import NAME_CHARACTERS_MAX

_LINK, _CLIENT_LINK, _BROKER, _TREE = (
    LinkConfig(),
    client_link_config(),
    BrokerConfig("-"),
    TreeConfig(),
)

Seconds = Annotated[float, Meta(ge=0.05, le=86_400)]
Bytes = Annotated[int, Meta(ge=1_024, le=1 << 40)]
Count = Annotated[int, Meta(ge=1, le=1 << 30)]


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class Routing(_Table, frozen=True):
    """Both switches of routing on a tree."""

    covering: bool = _TREE.covering
    advertisements: bool = _TREE.advertisements


class Link(_Table, frozen=True):
    """The limits of links to other brokers."""

    heartbeat_s: Seconds = _LINK.heartbeat_ns / SECOND
    resume_timeout_s: Seconds = _LINK.resume_timeout_ns / SECOND
    window_bytes: Bytes = _LINK.window_bytes
    queue_bytes_max: Bytes = _LINK.queue_bytes_max
    ack_every: Count = _LINK.ack_every

    def for_core(self) -> LinkConfig:
        """The same, in the core's units."""
        return LinkConfig(
            heartbeat_ns=round(self.heartbeat_s * SECOND),
            resume_timeout_ns=round(self.resume_timeout_s * SECOND),
            window_bytes=self.window_bytes,
            queue_bytes_max=self.queue_bytes_max,
            ack_every=self.ack_every,
        )


class ClientLink(Link, frozen=True):
    """The limits of links to clients."""

    heartbeat_s: Seconds = _CLIENT_LINK.heartbeat_ns / SECOND
    resume_timeout_s: Seconds = _CLIENT_LINK.resume_timeout_ns / SECOND
    window_bytes: Bytes = _CLIENT_LINK.window_bytes
    queue_bytes_max: Bytes = _CLIENT_LINK.queue_bytes_max
    ack_every: Count = _CLIENT_LINK.ack_every


class Limits(_Table, frozen=True):
    """What this broker may send, and when it slows publishers down."""

    output_bytes_per_s: Annotated[int, Meta(ge=0, le=1 << 40)] = 0
    credit_max: Count = _BROKER.credit_max
    credit_min: Count = _BROKER.credit_min
    congested_bytes: Bytes = _BROKER.congested_bytes


class Log(_Table, frozen=True):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class Trace(_Table, frozen=True):
    """What is traced, and where to; no directory means nothing."""

    dir: Annotated[str, Meta(max_length=4_096)] = ""
    sample: Count = 1
    interval_s: Seconds = 10.0
    flush_interval_s: Seconds = 5.0
    publications: bool = True
    deliveries: bool = True


class NodeConfig(_Table, frozen=True):
    """One broker process. `neighbours` are those that it dials; others may dial it.

    >>> read_config({"name": "B1", "neighbours": {"B2": "127.0.0.1:7002"}}).address
    Address(host='127.0.0.1', port=7001)
    >>> read_config({"name": "B1", "link": {"heartbeat_s": -1}})
    Traceback (most recent call last):
    runnel.errors.InputError: link.heartbeat_s: must be at least 0.05, got -1
    """

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
    listen: str = f"127.0.0.1:{DEFAULT_PORT}"
    allow_remote: bool = False
    neighbours: dict[str, str] = {}
    drain_s: Annotated[float, Meta(ge=0, le=86_400)] = 10.0
    stories: bool = False
    state: Annotated[str, Meta(max_length=4_096)] = ""
    routing: Routing = field(default_factory=Routing)
    link: Link = field(default_factory=Link)
    client_link: ClientLink = field(default_factory=ClientLink)
    limits: Limits = field(default_factory=Limits)
    log: Log = field(default_factory=Log)
    trace: Trace = field(default_factory=Trace)
    placement: PlacementConfig = field(default_factory=PlacementConfig)
    profiles: ProfilesConfig = field(default_factory=ProfilesConfig)

    @property
    def address(self) -> Address:
        """Where it is to listen; port 0 means any that is free."""
        return parse_address(self.listen)

    def for_core(self) -> BrokerConfig:
        """What the broker's core needs of it, in the core's units."""
        return BrokerConfig(
            name=self.name,
            dials=tuple(self.neighbours),
            link=self.link.for_core(),
            client_link=self.client_link.for_core(),
            credit_max=self.limits.credit_max,
            credit_min=self.limits.credit_min,
            congested_bytes=self.limits.congested_bytes,
            tell_stories=self.stories,
        )


def load_config(path: Path | None, flags: Mapping[str, Any] | None = None) -> NodeConfig:
    """Read a TOML file; what the flags say takes the place of what the file says."""
    tables: dict[str, Any] = {}
    if path is not None:
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}: not UTF-8, as TOML must be") from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path}: not TOML: {error}") from None
    for key, value in (flags or {}).items():
        known = tables.get(key)
        tables[key] = known | value if isinstance(known, dict) and type(value) is dict else value
    try:
        return read_config(tables)
    except InputError as error:
        raise InputError(f"{path}: {error}" if path else str(error)) from None


def read_config(tables: Mapping[str, Any]) -> NodeConfig:
    """Check what a file says, already taken apart; InputError names the key."""
    try:
        config = msgspec.convert(tables, NodeConfig)
    except msgspec.ValidationError as error:
        raise InputError(explain(str(error), tables, NodeConfig)) from None
    _check_name("name", config.name)
    _check_addresses(config)
    _check_sizes(config)
    return config


def example_config() -> str:
    """The complete commented example, as text."""
    return resources.files("runnel.node").joinpath("example.toml").read_text(encoding="utf-8")


def _check_name(key: str, name: str) -> None:
    if not name.isprintable() or "://" in name or name != name.strip():
        raise InputError(
            f"{key}: must be printable, without '://' and without blanks around it, got {name!r}"
        )


def _check_addresses(config: NodeConfig) -> None:
    listen = _address("listen", config.listen)
    if not listen.is_loopback and not config.allow_remote:
        raise InputError(
            f"listen: {config.listen!r} can be reached from other machines, and there is no "
            "authentication yet: anybody there could read and publish everything. Listen on 127.0.0.1, "
            "or set allow_remote = true (--allow-remote) if you trust the whole network"
        )
    for name, text in config.neighbours.items():
        key = f"neighbours.{name}"
        if not 0 < len(name) <= NAME_CHARACTERS_MAX:
            raise InputError(f"{key}: a name has 1 to {NAME_CHARACTERS_MAX} characters")
        _check_name(key, name)
        if name == config.name:
            raise InputError(f"{key}: a broker is not its own neighbour")
        if _address(key, text).port == 0:
            raise InputError(f"{key}: must be an address with a port, got {text!r}")


def _address(key: str, text: str) -> Address:
    try:
        return parse_address(text)
    except InputError as error:
        raise InputError(f"{key}: {error}") from None


def _check_sizes(config: NodeConfig) -> None:
    limits = config.limits
    if limits.credit_min > limits.credit_max:
        raise InputError(
            f"limits.credit_min: must be at most limits.credit_max, which is {limits.credit_max}, "
            f"got {limits.credit_min}"
        )
    if limits.congested_bytes > config.link.queue_bytes_max:
        raise InputError(
            "limits.congested_bytes: must be at most link.queue_bytes_max, which is "
            f"{config.link.queue_bytes_max}, or publishers would be slowed down too late, "
            f"got {limits.congested_bytes}"
        )
