"""Messages of every kind, made from their declared types: sound ones at the edges of their bounds, and spoilt ones.

A message is drawn as a registry declares it, so one that is added tomorrow is fuzzed tomorrow. `FuzzPool` has what is
worth using instead of noise: ids and names that mean something to whoever reads them, selections, arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

import runnel.compose  # noqa: F401 - so that the messages of all modules are known
from runnel.broker.kinds import KINDS
from runnel.broker.questions import Command
from runnel.language import EVERYTHING, parse
from runnel.modules.generations.messages import Switching
from runnel.modules.generations.questions import CloseGeneration, OpenGeneration, SetGoal
from runnel.modules.inspection.messages import Ask
from runnel.modules.placement.questions import Decide, MovePublisher
from runnel.wire import (
    PROTOCOL,
    REGISTRY,
    Ack,
    Advertise,
    Barrier,
    Bye,
    ClientHere,
    Handover,
    Hello,
    Listens,
    Message,
    Mum,
    Publication,
    Stage,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    encode,
    encode_selection,
    make_publication,
    may_go,
)
from runnel.wire.header import FRAME

_pack = msgspec.msgpack.encode
ITEMS_MAX = 300  # of a list that may be longer: enough to be long
NONSENSE: tuple[Any, ...] = (
    *(None, True, -1, 2**63 - 1, 2**64 - 1, -(2**63), 0.5, float("nan"), float("inf"), b"", ""),
    *([], {}, [[]], "x" * 2_000, b"x" * 2_000, [0] * 2_000, {"a": 1}, "\x00\n\ud7ff"),
)
SELECTIONS = (
    encode_selection(EVERYTHING),
    *map(encode_selection, map(parse, ("n >= 0", "n < 0", "n = 1 OR m LIKE 'a%'", "b IS NULL"))),
)
BAD_SELECTIONS = (
    *(b"\xc0", b"\x91\x91\x93\xa1n\xa1?\x01", b"\x91" * 300 + b"\xc0", _pack([[]] * 500)),
    _pack([[["n", "=", 1]] * 3_000]),
)


@dataclass(frozen=True, slots=True)
class FuzzPool:
    """What is worth being said."""

    ids: tuple[int, ...] = (0, 1, 7, 2**63 - 1)
    names: tuple[str, ...] = ("", "B", "alice")
    arguments: tuple[tuple[str, bytes], ...] = (("status", _pack({})),)  # of questions, by name


@cache
def _type_of(kind: type[Message]) -> inspect.Type:
    """A message as a type with bounds."""
    return inspect.type_info(kind)


class Maker:
    """Draws messages; the same seed draws the same."""

    def __init__(
        self, seed: int, pool: FuzzPool | None = None, bad_selections: float = 0.2
    ) -> None:
        self.random = Random(seed)
        self.pool = pool or FuzzPool()
        self._bad_selections = bad_selections  # the share of selections that nobody can read

    def frame(self, kind: type[Message]) -> bytes:
        """A sound message of a kind, as it goes over the wire."""
        return self.framed(kind, self.body(kind))

    def framed(self, kind: type[Message], body: Any) -> bytes:
        """These fields as it goes over the wire."""
        return self._framed(kind, _pack(body))

    def body(self, kind: type[Message]) -> Any:
        """The fields of a sound message."""
        if kind is Ask:
            name, argument = self.random.choice(self.pool.arguments)
            return [self._int(0, 2**63 - 1), name, msgspec.Raw(argument)]
        return self._value(_type_of(kind))

    def spoilt(self, kind: type[Message]) -> bytes:
        """One that is not sound, in one of many ways."""
        body, random = self.body(kind), self.random
        what = random.randrange(6)
        if what == 0:
            body = body[: random.randrange(len(body))] if body else [None]
        elif what == 1:
            body = [*body, random.choice(NONSENSE)]
        elif what == 2:
            body = random.choice(NONSENSE)
        elif what == 3:
            raw = _pack(body)
            return self._framed(kind, raw[: random.randrange(len(raw))] + random.randbytes(2))
        elif body:
            place = random.randrange(len(body))
            body[place] = self._beyond(_type_of(kind).fields[place].type)  # type: ignore[attr-defined]
        return self._framed(kind, _pack(body))

    def publication(self, ttl: int = 255) -> bytes:
        """A publication of somebody's, or of nobody's."""
        random = self.random
        return make_publication(
            random.choice(self.pool.ids),
            random.choice((1, 2, 2**63 - 1)),
            {"n": random.choice((-1, 1, 2**60)), "fuzz": True},
            b"x" * random.choice((0, 10, 5_000)),
            publisher=random.choice(self.pool.names)[:60],
            time_ns=random.choice((0, 2**63 - 1)),
            flags=random.choice((0, 1, 2, 0xFFFF)),
            scope=random.choice((0, 0xFF)),
            ttl=random.choice((0, 1, ttl)),
        ).frame()

    # -- inside ---------------------------------------------------------------------------------------

    def _framed(self, kind: type[Message], body: bytes) -> bytes:
        return FRAME.pack(len(body) + 1, REGISTRY.tag(kind)) + body

    def _int(self, least: int, most: int) -> int:
        near = (least, least + 1, most - 1, most, self.random.randrange(5), *self.pool.ids)
        return min(max(self.random.choice(near), least), most)

    def _text(self, most: int) -> str:
        known = self.random.choice(self.pool.names)
        return self.random.choice((known, known, "", "é" * most, "\n\x00"))[:most]

    def _value(self, kind: inspect.Type, items_max: int = ITEMS_MAX) -> Any:
        """A sound value of a type; lists within lists are short."""
        random = self.random
        match kind:
            case inspect.StructType():
                return [self._value(field.type, items_max) for field in kind.fields]
            case inspect.IntType():
                assert kind.ge is not None and kind.le is not None
                return self._int(kind.ge, kind.le)
            case inspect.FloatType():
                return random.choice((kind.ge, kind.le, 1.5))
            case inspect.StrType():
                return self._text(kind.max_length or 0)
            case inspect.BytesType():
                return random.randbytes(random.choice((0, 1, min(kind.max_length or 0, 1_000))))
            case inspect.BoolType():
                return random.random() < 0.5
            case inspect.EnumType():
                return random.choice(list(kind.cls)).value
            case inspect.LiteralType():
                return random.choice(kind.values)
            case inspect.RawType():
                is_bad = random.random() < self._bad_selections
                some = BAD_SELECTIONS if is_bad else SELECTIONS
                return msgspec.Raw(random.choice(some))
            case inspect.ListType() | inspect.VarTupleType():
                count = random.choice((0, 1, 3, min(kind.max_length or 0, items_max)))
                return [self._value(kind.item_type, 3) for _ in range(count)]
            case inspect.TupleType():
                return [self._value(one) for one in kind.item_types]
            case inspect.DictType():
                keys = (self._value(kind.key_type) for _ in range(3))
                return {key: self._value(kind.value_type, 3) for key in keys}
            case inspect.UnionType():
                return self._value(random.choice(kind.types))
            case inspect.NoneType():
                return None
        raise AssertionError(f"nobody here can draw {kind}: say how")

    def _beyond(self, kind: inspect.Type) -> Any:
        """A value just beyond the bounds of a type, or of another type."""
        random = self.random
        if random.random() < 0.3:
            return random.choice(NONSENSE)
        match kind:
            case inspect.IntType():
                assert kind.ge is not None and kind.le is not None
                return random.choice((max(kind.ge - 1, -(2**63)), min(kind.le + 1, 2**64 - 1)))
            case inspect.FloatType():
                return random.choice((float("nan"), float("inf"), -1.0))
            case inspect.StrType():
                return "x" * ((kind.max_length or 0) + 1)
            case inspect.ListType() | inspect.VarTupleType():
                most = kind.max_length or 0
                return [self._value(kind.item_type, 3)] * (most + 1 if most <= 5_000 else 1) + [
                    None
                ]
            case _:
                return random.choice(NONSENSE)


MESSAGES = [one for one in REGISTRY.messages if one.__module__.startswith("runnel.")]
# Whoever knows an advertisement's id may move its publisher.
SPARED: tuple[type[Message], ...] = (Mum,)
# What a configured broker hands on is believed by the whole network: a stranger says what is sound and harms nobody.
BELIEVED: tuple[type[Message], ...] = (Switching, ClientHere)
# Ends the link of whoever says it, always or as a rule: what comes behind it in the same chunk nobody reads.
LAST: tuple[type[Message], ...] = (Hello, Bye, Handover, Unsubscribe, Unadvertise, Listens)
BAD_SHARE = 0.02
LAST_SHARE = 0.06
"""Of what a stranger says, as long as it is heard."""

FuzzedKind = type[Message] | type[Publication]


@cache
def sayable(kind: str) -> tuple[type[Message], ...]:
    """The messages that a peer of this kind may send."""
    return tuple(one for one in MESSAGES if may_go(one, KINDS[kind].says))


@cache
def calm(kind: str) -> tuple[type[Message], ...]:
    """Those that it may send again and again."""
    return tuple(one for one in sayable(kind) if one not in LAST)


class FuzzWord(NamedTuple):
    """One frame that a stranger says, and what it is."""

    what: FuzzedKind
    raw: bytes
    is_spoilt: bool = False


class StrangeVoice:
    """What a stranger says: mostly what its kind may say, some of it spoilt, some that is for others to say.

    `theirs` are ids that others use and that it has overheard. Where brokers take whoever knows an id for its owner, it
    does not use them: all brokers believe each other, and those that are not `guarded` believe clients.

    Messages are dealt from a pack in which each kind of message is once, so that all are said, however few there are.
    """

    def __init__(
        self, seed: int, theirs: tuple[int, ...] = (), *, is_guarded: bool = False
    ) -> None:
        self._is_guarded = is_guarded
        self.random = Random(seed)
        edges = (0, 1, 7, 2**63 - 1)
        names = ("", "B1", "B2", "F1", "alice", "bob", "mallory", "x" * 255)
        arguments = ARGUMENTS + (COMMANDS if is_guarded else ())
        self._maker = Maker(seed, FuzzPool((*edges, *theirs), names, arguments), BAD_SHARE)
        self._nobodys = Maker(seed, FuzzPool(edges, names, arguments), BAD_SHARE)
        self._harmless = Maker(seed, FuzzPool(edges, ("", "mallory", "x" * 255)))
        self._packs: dict[tuple[str, str], list[type[Message]]] = {}

    def hello(self, kind: str, name: str) -> bytes:
        """Of a new run of the link, or of one that it pretends to know."""
        token = self.random.choice((1, 5, self.random.getrandbits(62)))
        return encode(Hello(PROTOCOL, kind, name, token, 0, 0, 0, 0))

    def word(self, kind: str, name: str = "") -> FuzzWord:
        """One frame of a peer of this kind, which is called so; now and then one that ends its link."""
        if self.random.random() < LAST_SHARE:
            return self.last_word(kind, name)
        return self.calm_word(kind)

    def calm_word(self, kind: str) -> FuzzWord:
        """One after which a broker listens to more."""
        if kind != "operator" and self.random.random() < 0.2:
            is_believed = kind == "broker" or not self._is_guarded
            maker = self._nobodys if is_believed else self._maker
            return FuzzWord(Publication, maker.publication())
        return self._say(kind, self._deal(kind, "calm", calm(kind)))

    def last_word(self, kind: str, name: str = "") -> FuzzWord:
        """One that ends a link: a message that does, one that is for others to say, or one that is spoilt."""
        random, mine = self.random, sayable(kind)
        chance = random.random()
        if chance < 0.15:
            message = self._deal(kind, "spoilt", mine)
            return FuzzWord(message, self._maker_for(kind, message).spoilt(message), True)
        if chance < 0.3:
            others = [one for one in MESSAGES if one not in mine]
            return self._say(kind, self._deal(kind, "others", others))
        last = [one for one in mine if one in LAST]
        return self._say(kind, self._deal(kind, "last", last), name)

    # -- inside ---------------------------------------------------------------------------------------

    def _deal(self, kind: str, which: str, messages: Sequence[type[Message]]) -> type[Message]:
        """The next message of a pack, which is shuffled anew when it is empty."""
        pack = self._packs.setdefault((kind, which), [])
        if not pack:
            pack += messages
            self.random.shuffle(pack)
        return pack.pop()

    def _say(self, kind: str, message: type[Message], name: str = "") -> FuzzWord:
        random, maker = self.random, self._maker_for(kind, message)
        if message is Ack and random.random() < 0.95:  # others acknowledge what nobody has sent
            return FuzzWord(Ack, encode(Ack(0, 0, 0, random.random() < 0.1)))
        if message is Hello:
            return FuzzWord(Hello, self.hello(kind, name))
        body = maker.body(message)
        if message is Switching:
            # Of the generation in which everybody is: a broker believes it, and there is nowhere to go.
            body[:3] = [random.choice((0, 1)), body[1], Stage.NEW]
        elif message in (Advertise, Barrier, Subscribe) and random.random() < 0.97:
            body[0] = random.getrandbits(
                62
            )  # an id that is in use ends the link of who uses it again
        elif message is Handover and random.random() < 0.5:
            body[2] = name  # the client: itself
        return FuzzWord(message, maker.framed(message, body))

    def _maker_for(self, kind: str, message: type[Message]) -> Maker:
        if message in BELIEVED:
            return self._harmless
        is_believed = kind == "broker" or not self._is_guarded
        return self._nobodys if is_believed and message in SPARED else self._maker


def _arguments() -> tuple[tuple[str, bytes], ...]:
    """What operators ask, sensibly and not. Commands that change the network are for it to obey, and left out."""
    asked: list[tuple[str, Any]] = [
        *(("status", {}), ("tables", {"rows_max": 3}), ("route", {"event": {"n": 1}})),
        *(("subscriptions", {"client": "bob", "event": {"n": 1}}), ("story", {"id": 1})),
        *(
            ("publishers", {"candidates": True}),
            ("generation", {}),
            ("decide", {"advertisement": 7}),
        ),
        *(("status", []), ("tables", {"rows_max": 2**60}), ("route", {"event": {"": [1]}})),
        *(("nothing", {}), ("story", {"id": "x"}), ("move-publisher", {"advertisement": -1})),
    ]
    return tuple((name, _pack(argument)) for name, argument in asked)


def _commands() -> tuple[tuple[str, bytes], ...]:
    """Commands that would change the network: for operators that may not give any."""
    orders: tuple[Command, ...] = (
        *(OpenGeneration(2), CloseGeneration(1), Decide(7)),
        SetGoal(2, 1, Stage.NEW, "runnel://127.0.0.1:1"),
        MovePublisher(7, "B2", "runnel://127.0.0.1:1"),
    )
    return tuple((order.asked_as, _pack(order)) for order in orders)


ARGUMENTS, COMMANDS = _arguments(), _commands()
