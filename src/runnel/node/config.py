"""The configuration of a node: read from TOML, checked once, then never changed.

The types are the checks, and the defaults are the core's own. Rules:

- Units are in the names (`heartbeat_s`, `queue_bytes_max`).
- Whatever cannot be used is an InputError that names the key and says what is allowed.
- An unknown key is an error too: otherwise a misspelt limit would silently not apply.
- [routing] has the settings of the strategy that it names, and every module with settings has a table of its name
  (`config_shape`): both are declared where the strategy or the module is (`runnel/compose.py` lists them).

`example.toml` beside this file shows every key with its default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta, Struct, field

from runnel.broker.config import BrokerConfig, client_link_config
from runnel.broker.links import LinkConfig
from runnel.complaints import explain
from runnel.compose import import_extensions, routing_shape, settings_by_module
from runnel.errors import BugError, InputError
from runnel.net.addresses import DEFAULT_PORT, Address, parse_address
from runnel.quantities import MILLISECOND, SECOND
from runnel.wire.messages import NAME_CHARACTERS_MAX

ANY_BROKER = "*"
"""In `accept`: whatever a broker is called."""

_LINK, _CLIENT_LINK, _BROKER = LinkConfig(), client_link_config(), BrokerConfig("-")

Seconds = Annotated[float, Meta(ge=0.05, le=86_400)]
Bytes = Annotated[int, Meta(ge=1_024, le=1 << 40)]
Count = Annotated[int, Meta(ge=1, le=1 << 30)]


class _NodeTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class LinkTable(_NodeTable, frozen=True):
    """The limits of links to other brokers."""

    heartbeat_s: Seconds = _LINK.heartbeat_ns / SECOND
    resume_timeout_s: Seconds = _LINK.resume_timeout_ns / SECOND
    window_bytes: Bytes = _LINK.window_bytes
    queue_bytes_max: Bytes = _LINK.queue_bytes_max
    ack_every: Count = _LINK.ack_every

    def for_core(self) -> LinkConfig:
        """The limits in the core's units."""
        return LinkConfig(
            heartbeat_ns=round(self.heartbeat_s * SECOND),
            resume_timeout_ns=round(self.resume_timeout_s * SECOND),
            window_bytes=self.window_bytes,
            queue_bytes_max=self.queue_bytes_max,
            ack_every=self.ack_every,
        )


class ClientLinkTable(LinkTable, frozen=True):
    """The limits of links to clients."""

    heartbeat_s: Seconds = _CLIENT_LINK.heartbeat_ns / SECOND
    resume_timeout_s: Seconds = _CLIENT_LINK.resume_timeout_ns / SECOND
    window_bytes: Bytes = _CLIENT_LINK.window_bytes
    queue_bytes_max: Bytes = _CLIENT_LINK.queue_bytes_max
    ack_every: Count = _CLIENT_LINK.ack_every


class LimitsTable(_NodeTable, frozen=True):
    """How much this broker may send, by how much its matching is slowed, and when it slows publishers down."""

    output_bytes_per_s: Annotated[int, Meta(ge=0, le=1 << 40)] = 0
    matching_delay_factor: Annotated[float, Meta(ge=1, le=1_000_000)] = 1.0
    matching_delay_ms: Annotated[float, Meta(ge=0, le=60_000)] = 0.0
    credit_max: Count = _BROKER.credit_max
    credit_min: Count = _BROKER.credit_min
    congested_bytes: Bytes = _BROKER.congested_bytes

    @property
    def matching_delay_ns(self) -> int:
        """The time added to the matching of each publication."""
        return round(self.matching_delay_ms * MILLISECOND)

    @property
    def slows_matching(self) -> bool:
        """Whether matching is to be slowed down."""
        return self.matching_delay_factor > 1 or self.matching_delay_ms > 0


class LogTable(_NodeTable, frozen=True):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class TraceTable(_NodeTable, frozen=True):
    """What is traced, and where to; no directory means nothing."""

    dir: Annotated[str, Meta(max_length=4_096)] = ""
    sample: Count = 1
    interval_s: Seconds = 10.0
    flush_interval_s: Seconds = 5.0
    publications: bool = True
    deliveries: bool = True


class AdminTable(_NodeTable, frozen=True):
    """Where operators and monitoring are served, apart from brokers and clients; nowhere else means with them."""

    listen: str = ""


class TlsTable(_NodeTable, frozen=True):
    """The files of TLS; without any of them no connection is secured."""

    certificate: str = ""
    key: str = ""
    authority: str = ""
    require_certificate: bool = True

    @property
    def is_on(self) -> bool:
        """Whether every listener speaks TLS, and nothing else."""
        return bool(self.certificate)


class AccessTable(_NodeTable, frozen=True):
    """The file that says who may do what (node/access/file.py); none means that nobody is asked who he is."""

    file: Annotated[str, Meta(max_length=4_096)] = ""


class NodeConfig(_NodeTable, frozen=True):
    """One broker process. `neighbours` are those that it dials, `accept` those that may dial it.

    >>> read_config({"name": "B1", "neighbours": {"B2": "127.0.0.1:7002"}}).address
    Address(host='127.0.0.1', port=7001, is_secure=False)
    >>> read_config({"name": "B1", "link": {"heartbeat_s": -1}})
    Traceback (most recent call last):
    runnel.errors.InputError: link.heartbeat_s: must be at least 0.05, got -1
    """

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]
    listen: str = f"127.0.0.1:{DEFAULT_PORT}"
    allow_remote: bool = False
    neighbours: dict[str, str] = {}
    accept: list[Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX)]] = []
    drain_s: Annotated[float, Meta(ge=0, le=86_400)] = 10.0
    stories: bool = False
    state: Annotated[str, Meta(max_length=4_096)] = ""
    extensions: list[str] = field(default_factory=list)
    link: LinkTable = field(default_factory=LinkTable)
    client_link: ClientLinkTable = field(default_factory=ClientLinkTable)
    limits: LimitsTable = field(default_factory=LimitsTable)
    log: LogTable = field(default_factory=LogTable)
    trace: TraceTable = field(default_factory=TraceTable)
    admin: AdminTable = field(default_factory=AdminTable)
    tls: TlsTable = field(default_factory=TlsTable)
    access: AccessTable = field(default_factory=AccessTable)

    @property
    def admits_strangers(self) -> bool:
        """Whether somebody may connect without having shown who he is."""
        return not (self.access.file or (self.tls.is_on and self.tls.require_certificate))

    def settings_of(self, table: str) -> Any:
        """[routing], with the settings of the strategy; or the table of a module."""
        return getattr(self, table)

    @property
    def address(self) -> Address:
        """Where to listen; port 0 means any free port."""
        return parse_address(self.listen)._replace(is_secure=self.tls.is_on)

    @property
    def accepts(self) -> tuple[str, ...]:
        """The brokers that may dial this one, besides those that it dials; `ANY_BROKER` among them stands for all.

        Where nothing is said about neighbours at all, any broker on this machine may: the quick start. With TLS
        none may, because clients have certificates too, and with access rules none, because brokers are believed.
        """
        is_open = self.address.is_loopback and not (self.tls.is_on or self.access.file)
        if self.accept or self.neighbours or not is_open:
            return tuple(self.accept)
        return (ANY_BROKER,)

    @property
    def admin_address(self) -> Address | None:
        """Where it is to serve operators and monitoring, if not at its address."""
        if not self.admin.listen:
            return None
        return parse_address(self.admin.listen)._replace(is_secure=self.tls.is_on)

    def for_core(self) -> BrokerConfig:
        """The configuration of the broker's core, in the core's units."""
        return BrokerConfig(
            name=self.name,
            dials=tuple(self.neighbours),
            is_guarded=bool(self.access.file),
            link=self.link.for_core(),
            client_link=self.client_link.for_core(),
            credit_max=self.limits.credit_max,
            credit_min=self.limits.credit_min,
            congested_bytes=self.limits.congested_bytes,
            tell_stories=self.stories,
        )


def load_config(path: Path | None, flags: Mapping[str, Any] | None = None) -> NodeConfig:
    """Read a TOML file; flags override its values."""
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
    """Check the parsed tables of a file; InputError names the key."""
    shape = config_shape(tables)
    try:
        config = msgspec.convert(tables, shape)
    except msgspec.ValidationError as error:
        raise InputError(explain(str(error), tables, shape)) from None
    _check_name("name", config.name)
    _check_tls(config)
    _check_addresses(config)
    _check_accept(config)
    _check_sizes(config)
    return config


def config_shape(tables: Mapping[str, Any]) -> type[NodeConfig]:
    """The type of a configuration, with the tables of the strategy that it names and of all modules."""
    extensions = tables.get("extensions", ())
    if isinstance(extensions, list):
        import_extensions(str(name) for name in extensions)
    tables_of = {"routing": routing_shape(tables.get("routing", {})), **settings_by_module()}
    return _config_shape(tuple(tables_of.items()))


@cache
def _config_shape(tables: tuple[tuple[str, type[Struct]], ...]) -> type[NodeConfig]:
    fields = [(name, shape, field(default_factory=shape)) for name, shape in tables]
    if taken := [name for name, _ in tables if name in NodeConfig.__struct_fields__]:
        raise BugError(f"no module can have the name of a key of the node: {', '.join(taken)}")
    made = msgspec.defstruct(
        "NodeConfig", fields, bases=(NodeConfig,), frozen=True, forbid_unknown_fields=True
    )
    return cast("type[NodeConfig]", made)


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
    if not listen.is_loopback and not config.allow_remote and config.admits_strangers:
        raise InputError(
            f"listen: {config.listen!r} can be reached from other machines, and nobody is asked who he is: "
            "anybody there could read and publish everything. Ask for certificates ([tls]), or say who may do what "
            "(access.file), or listen on "
            "127.0.0.1, or set allow_remote = true (--allow-remote) if you trust the whole network"
        )
    _check_admin(config, listen)
    for name, text in config.neighbours.items():
        key = f"neighbours.{name}"
        if not 0 < len(name) <= NAME_CHARACTERS_MAX:
            raise InputError(f"{key}: a name has 1 to {NAME_CHARACTERS_MAX} characters")
        _check_name(key, name)
        if name == config.name:
            raise InputError(f"{key}: a broker is not its own neighbour")
        if _address(key, text).port == 0:
            raise InputError(f"{key}: must be an address with a port, got {text!r}")


def _check_tls(config: NodeConfig) -> None:
    """All of the files or none, and no address whose scheme says something else."""
    tls = config.tls
    files = {"certificate": tls.certificate, "key": tls.key, "authority": tls.authority}
    missing = [key for key, file in files.items() if not file]
    if missing and len(missing) < len(files):
        raise InputError(
            f"tls.{missing[0]}: TLS needs three files, certificate, key and authority: name this one too, or none"
        )
    addresses = {"listen": config.listen, "admin.listen": config.admin.listen}
    addresses |= {f"neighbours.{name}": text for name, text in config.neighbours.items()}
    for key, text in addresses.items():
        if not text or "://" not in text or _address(key, text).is_secure == tls.is_on:
            continue
        if tls.is_on:
            short = _address(key, text).short
            raise InputError(f'{key}: with [tls] nothing but TLS is spoken: write "{short}"')
        raise InputError(
            f"{key}: {text!r} is an address with TLS, which needs certificates: see [tls]; "
            "runnel certs init makes a set"
        )


def _check_accept(config: NodeConfig) -> None:
    if ANY_BROKER in config.accept and config.access.file:
        raise InputError(
            "accept: '*' takes in any broker, and what a broker hands on is believed, whatever the rules of "
            "access.file say: name the brokers that may dial this one"
        )
    for number, name in enumerate(config.accept):
        key = f"accept[{number}]"
        _check_name(key, name)
        if name == config.name:
            raise InputError(f"{key}: a broker is not its own neighbour")


def _check_admin(config: NodeConfig, listen: Address) -> None:
    text = config.admin.listen
    if not text:
        return
    admin = _address("admin.listen", text)
    if not admin.is_loopback and config.admits_strangers:
        raise InputError(
            f"admin.listen: {text!r} can be reached from other machines, and nobody is asked who he is: anybody "
            "there could change the network. Ask for certificates ([tls]), or say who may do what (access.file), "
            "or listen on 127.0.0.1"
        )
    if admin == listen and admin.port:
        raise InputError(
            f"admin.listen: {text!r} is where brokers and clients are served: give it a port of its own"
        )


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
