"""The brokers and the constraints for a plan: one TOML file, which users write.

    [plan]                      algorithm, seed
    [constraints]               head_room_percent, learned_head_room, max_moves,
                                excluded = ["B3"], pinned = { alice = "B1" }
    [defaults]                  values for brokers that do not have their own
    [brokers.B1]                address, output_bytes_per_s, matching_base_us, matching_each_us
    [brokers."W1..W20"]         twenty equal brokers; {name} and {number} in their address are each one's own

Rules:
- The file wins over the trace. "measured", which is the default, is the value from the trace: the limit that the
  broker was configured with for plans, or else its measured capacity.
- A file without brokers stands for all brokers that were traced.
- Every broker is in the file once, with an address of its own, which is HOST:PORT.
- Every mistake is an InputError that begins with the file and the key.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from runnel.complaints import explain
from runnel.errors import InputError
from runnel.planning.documents.constraints import Constraints
from runnel.planning.foresight import Foresight
from runnel.planning.load import Capacity, Delay
from runnel.planning.planner import NAMES, PlanOptions

MEASURED, UNLIMITED = "measured", "unlimited"
MOST_IN_A_GROUP = 100_000
_GROUP = re.compile(r"(?P<prefix>.*?)(?P<first>\d+)\.\.(?P<again>.*?)(?P<last>\d+)")
# HOST:PORT or [IPv6]:PORT. net/addresses.py accepts more, but this package must not import it.
_ADDRESS = re.compile(
    r"(?:runnels://)?(?:\[[\da-f:.]+\]|[\w.-]+):(?P<port>\d{1,5})", re.ASCII | re.IGNORECASE
)

Amount = Annotated[float, Meta(ge=0, le=1e15)] | str


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class BrokerEntry(_Table, frozen=True):
    """A broker in the file; None: the key is missing."""

    address: str | None = None
    output_bytes_per_s: Amount | None = None
    matching_base_us: Amount | None = None
    matching_each_us: Amount | None = None


class _Plan(_Table, frozen=True):
    algorithm: str = "cram-iou"
    seed: int = 0


class _Constraints(_Table, frozen=True):
    head_room_percent: Annotated[float, Meta(ge=0, le=99.99)] = 0.0
    learned_head_room: bool = False
    max_moves: Annotated[int, Meta(ge=0)] | None = None
    excluded: list[str] = []
    pinned: dict[str, str] = {}


class _File(_Table, frozen=True):
    plan: _Plan = msgspec.field(default_factory=_Plan)
    constraints: _Constraints = msgspec.field(default_factory=_Constraints)
    defaults: BrokerEntry = msgspec.field(default_factory=BrokerEntry)
    brokers: dict[str, BrokerEntry] = {}


@dataclass(frozen=True, slots=True)
class ObservedBroker:
    """What is known of a broker from a trace. None: neither stated nor measured."""

    name: str
    address: str | None = None
    output_bytes_per_s: float | None = None
    base_ns: int | None = None
    each_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """The brokers that a plan may use, and their addresses."""

    capacities: tuple[Capacity, ...]
    addresses: dict[str, str]
    unknown: int  # how many have unlimited output because it is neither stated nor measured


@dataclass(frozen=True, slots=True)
class Inventory:
    """The contents of a file, with its groups expanded. Without a file: all traced brokers, and no constraints."""

    brokers: Mapping[str, BrokerEntry] = field(default_factory=dict)
    defaults: BrokerEntry = field(default_factory=BrokerEntry)
    constraints: Constraints = field(default_factory=Constraints)
    options: PlanOptions = field(default_factory=PlanOptions)
    origin: str = "the trace"

    def unlisted_brokers(self, traced: Sequence[ObservedBroker]) -> list[str]:
        """The brokers that were traced, but are neither in the file nor excluded by it."""
        known = {*self.brokers, *self.constraints.excluded}
        return [one.name for one in traced if one.name not in known] if self.brokers else []

    def make_fleet(self, traced: Sequence[ObservedBroker]) -> Fleet:
        """The brokers, in the order of their names, with the values of the file or of the trace."""
        observed = {one.name: one for one in traced}
        for name in self.constraints.excluded:
            if name not in self.brokers and name not in observed:
                raise InputError(
                    f"{self.origin}: {name} is excluded, but there is no such broker: nobody traced it, "
                    f"and there is no [brokers.{name}]: leave it out"
                )
        names = sorted({*self.brokers, *self.constraints.excluded} if self.brokers else observed)
        if not names:
            raise InputError(f"{self.origin}: there is no broker: write [brokers.B1]")
        capacities, unknown = [], 0
        for name in names:
            entry, seen = (
                self.brokers.get(name, BrokerEntry()),
                observed.get(name, ObservedBroker(name)),
            )
            output = self._value(entry, "output_bytes_per_s", seen.output_bytes_per_s)
            base_us = self._value(entry, "matching_base_us", _microseconds(seen.base_ns)) or 0.0
            each_us = self._value(entry, "matching_each_us", _microseconds(seen.each_ns)) or 0.0
            delay = Delay(math.ceil(base_us * 1_000), math.ceil(each_us * 1_000))
            unknown += output is None
            limit = None if output in (None, math.inf) else output
            capacities.append(Capacity(name, limit, delay))
        known = {name: self._address(name, observed) for name in names}
        addresses = {name: address for name, address in known.items() if address}
        if self.brokers:
            _verify_distinct(addresses, f"{self.origin}: ")
        missing = [name for name in names if name not in addresses]
        if addresses and missing:
            raise InputError(
                f"{self.origin}: brokers.{missing[0]}.address: is missing, and it was not traced: "
                "say where it listens"
            )
        return Fleet(tuple(capacities), addresses, unknown)

    def _value(self, entry: BrokerEntry, key: str, traced: float | None) -> float | None:
        """A value of the file, or else of the trace; None: unknown."""
        value = getattr(entry, key)
        if value is None:
            value = getattr(self.defaults, key)
        if value is None or value == MEASURED:
            return traced
        return math.inf if value == UNLIMITED else float(value)

    def _address(self, name: str, observed: Mapping[str, ObservedBroker]) -> str | None:
        address = self.brokers.get(name, BrokerEntry()).address
        return address or (observed[name].address if name in observed else None)

    def override(
        self,
        *,
        algorithm: str | None = None,
        seed: int | None = None,
        headroom_percent: float | None = None,
        foresight: Foresight | None = None,
        max_moves: int | None = None,
        excluded: Sequence[str] = (),
        pinned: Mapping[str, str] | None = None,
    ) -> Inventory:
        """The same inventory with some values replaced; None: unchanged. `excluded` and `pinned` are added.

        >>> Inventory().override(headroom_percent=20.0, excluded=["B3"]).constraints
        Constraints(pinned={}, excluded=('B3',), headroom_percent=20.0, max_moves=None, foresight=None)
        """
        was = self.constraints
        constraints = Constraints(
            {**was.pinned, **(pinned or {})},
            tuple(dict.fromkeys([*was.excluded, *excluded])),
            was.headroom_percent if headroom_percent is None else headroom_percent,
            was.max_moves if max_moves is None else max_moves,
            was.foresight if foresight is None else foresight,
        )
        options = replace(
            self.options,
            algorithm=self.options.algorithm if algorithm is None else NAMES[algorithm],
            seed=self.options.seed if seed is None else seed,
        )
        return replace(self, constraints=constraints, options=options)


def _microseconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1_000


# -- reading ------------------------------------------------------------------------------------------


def read_inventory(path: Path) -> Inventory:
    """Read and verify a file."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        why = error.strerror or error
        raise InputError(
            f"{path}: cannot be opened: {why}; `runnel pipeline init {path}` writes one"
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: this is not TOML: {error}") from None
    try:
        return make_inventory(tables, str(path))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def make_inventory(tables: Mapping[str, Any], origin: str = "the file") -> Inventory:
    """Make an inventory from the tables of a file, and validate it.

    >>> sorted(make_inventory({"brokers": {"W9..W11": {"address": "{name}.example:7001"}}}).brokers)
    ['W10', 'W11', 'W9']
    >>> make_inventory({"brokers": {"B1": {"output_bytes": 5}}})
    Traceback (most recent call last):
    runnel.errors.InputError: brokers.B1.output_bytes: there is no such key; did you mean output_bytes_per_s? \
known here: address, output_bytes_per_s, matching_base_us, matching_each_us
    """
    try:
        file = msgspec.convert(tables, _File)
    except msgspec.ValidationError as error:
        raise InputError(explain(str(error), tables, _File)) from None
    if file.defaults.address is not None:
        raise InputError("defaults.address: give it to each broker by itself")
    _verify_amounts("defaults", file.defaults)
    brokers: dict[str, BrokerEntry] = {}
    for key, entry in file.brokers.items():
        _verify_amounts(f"brokers.{key}", entry)
        for name, own in _expand_group(key, entry):
            if name in brokers:
                raise InputError(f"brokers.{key}: {name} is there twice: name it once")
            brokers[name] = own
    _verify_distinct({name: entry.address for name, entry in brokers.items() if entry.address})
    asked = file.constraints
    pinned, excluded = dict(asked.pinned), tuple(asked.excluded)
    for client, broker in pinned.items():
        if brokers and broker not in brokers:
            raise InputError(f"constraints.pinned.{client}: there is no [brokers.{broker}]")
    if file.plan.algorithm.lower() not in NAMES:
        raise InputError(
            f"plan.algorithm: there is no {file.plan.algorithm!r}; there are {', '.join(NAMES)}"
        )
    options = PlanOptions(NAMES[file.plan.algorithm.lower()], file.plan.seed)
    foresight = Foresight() if asked.learned_head_room else None
    constraints = Constraints(pinned, excluded, asked.head_room_percent, asked.max_moves, foresight)
    return Inventory(brokers, file.defaults, constraints, options, origin)


def _verify_amounts(place: str, entry: BrokerEntry) -> None:
    for key in ("output_bytes_per_s", "matching_base_us", "matching_each_us"):
        words = (MEASURED, UNLIMITED) if key == "output_bytes_per_s" else (MEASURED,)
        value = getattr(entry, key)
        if isinstance(value, str) and value not in words:
            listed = " or ".join(f'"{word}"' for word in words)
            raise InputError(f"{place}.{key}: must be a number or {listed}, got {value!r}")
        if key == "output_bytes_per_s" and value == 0:
            raise InputError(
                f'{place}.{key}: nothing can be sent with 0: exclude the broker, or say "unlimited"'
            )


def _expand_group(key: str, entry: BrokerEntry) -> Iterator[tuple[str, BrokerEntry]]:
    """The brokers that a key stands for: one, or those of a group, each with its own address.

    >>> [name for name, _ in _expand_group("b08..b10", BrokerEntry())]
    ['b08', 'b09', 'b10']
    """
    group = _GROUP.fullmatch(key)
    if group is None:
        yield key, msgspec.structs.replace(entry, address=_verify_address(key, entry.address))
        return
    first, last = int(group["first"]), int(group["last"])
    if group["again"] != group["prefix"] or not 0 <= last - first < MOST_IN_A_GROUP:
        raise InputError(f"brokers.{key}: is no group of brokers: write B1..B20")
    address = entry.address
    if address and last > first and "{name}" not in address and "{number}" not in address:
        raise InputError(
            f"brokers.{key}.address: is the same for all of them: write {{name}} or {{number}} in it"
        )
    width = len(group["first"]) if group["first"].startswith("0") else 0
    for number in range(first, last + 1):
        name = f"{group['prefix']}{number:0{width}}"
        own = address and address.replace("{name}", name).replace("{number}", str(number))
        yield name, msgspec.structs.replace(entry, address=_verify_address(name, own))


def _verify_address(name: str, address: str | None) -> str | None:
    """An address in the form that plans have: HOST:PORT, and with TLS runnels://HOST:PORT.

    >>> _verify_address("B1", "runnel://[::1]:7001"), _verify_address("B1", None)
    ('[::1]:7001', None)
    >>> _verify_address("B1", "runnels://b1:7001")
    'runnels://b1:7001'
    >>> _verify_address("B1", "nonsense1")
    Traceback (most recent call last):
    runnel.errors.InputError: brokers.B1.address: must be HOST:PORT, as in "127.0.0.1:7001", got 'nonsense1'
    """
    if address is None:
        return None
    short = address.removeprefix("runnel://")
    found = _ADDRESS.fullmatch(short)
    if found is None:
        raise InputError(
            f'brokers.{name}.address: must be HOST:PORT, as in "127.0.0.1:7001", got {address!r}'
        )
    if not 1 <= int(found["port"]) <= 65_535:
        raise InputError(f"brokers.{name}.address: a port is 1–65535, got {address!r}")
    return short


def _verify_distinct(addresses: Mapping[str, str], origin: str = "") -> None:
    """An error if two brokers have the same address."""
    there: dict[str, str] = {}
    for name, address in addresses.items():
        other = there.setdefault(address.lower(), name)
        if other != name:
            raise InputError(
                f"{origin}brokers.{name}.address: {address} is where {other} listens: "
                "each needs one of its own"
            )


# -- writing ------------------------------------------------------------------------------------------

_BEGIN = """\
# What brokers there are, and what a plan must keep to:
#   runnel plan --from-traces traces/ --brokers {file} --out plan.json
# Lines with a # are as if they were not there.

[plan]
# {algorithms}
algorithm = "cram-iou"
# For algorithms that draw lots.
seed = 0

[constraints]
# How much of its output and its matching each broker keeps free.
head_room_percent = 0
# Free what each subscription may need more tomorrow, as its traffic has varied so far: peaks, not means.
learned_head_room = false
# At most so many clients and publishers change their broker.
# max_moves = 50
# Not to be used any more: what is there goes elsewhere.
excluded = []
# Clients that must be at a broker; CLIENT/PUBLISHER says it of one publisher.
# pinned = {{ "alice" = "B1", "alice/quotes" = "B1" }}

# What brokers can do that do not say it themselves below. "measured" is what traces tell: what a broker is configured
# to be planned with, or else what it was measured to be able to do.
[defaults]
# Bytes per second that a broker may send; or "unlimited".
output_bytes_per_s = "measured"
# Microseconds that it takes to match a publication, and how much longer for each subscription.
matching_base_us = "measured"
matching_each_us = "measured"

# The brokers. None: those that were traced. [brokers."W1..W20"] are twenty equal ones, with {{name}} or {{number}} in
# their address. Brokers that no trace has, and that a plan may use as well, belong here too.
"""


def inventory_text(file: str, traced: Sequence[ObservedBroker] = ()) -> str:
    """A file to start from: every key with an explanation, and the brokers that were traced."""
    listed = ", ".join(NAMES)
    parts = [_BEGIN.format(file=file, algorithms=listed)]
    if not traced:
        parts.append('\n# [brokers.B1]\n# address = "127.0.0.1:7001"\n')
    for one in traced:
        found = {
            "output_bytes_per_s": one.output_bytes_per_s,
            "matching_base_us": _microseconds(one.base_ns),
            "matching_each_us": _microseconds(one.each_ns),
        }
        values = [
            f"# {key} = {value:.10g}" if value is not None else f"# {key}: was not measured"
            for key, value in found.items()
        ]
        address = f"address = {_quote(one.address)}" if one.address else '# address = "host:port"'
        parts.append(f"\n[brokers.{_quote(one.name)}]\n{address}\n" + "\n".join(values) + "\n")
    return "".join(parts)


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()
