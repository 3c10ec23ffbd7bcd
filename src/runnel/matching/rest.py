"""Rest: the entries of a node with several tests left, matched by bucketed bitmaps.

The entries of a short list are tried one by one. Those of a long one are *marked*: each attribute with number
comparisons is a column, cut into buckets at the quantiles of its thresholds. Bucket b keeps a bitmap of the slots that
fail for every value in b, and its edges: the comparisons whose threshold lies inside b, which must be made. An event
ORs one bitmap per column and walks the edges of one bucket per column; for the slots that remain, all comparisons are
true. Slots with other tests as well are tried one by one at the end.

Bitmaps are Python ints. They are built in one go when enough entries wait, which happens at a match, so
that loading many filters builds once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import ge, gt, le, lt
from typing import Any

from runnel.language import Predicate
from runnel.language.predicates import Op
from runnel.language.values import Kind, Value, kind_of
from runnel.matching.keys import Attribute, Key, KeyedEvent, Keys

Test = Callable[[KeyedEvent], bool]

MARK_FROM = 256
BUCKETS_MAX = 128

COMPARE: dict[Op, Callable[[Any, Any], bool]] = {Op.GT: gt, Op.GE: ge, Op.LT: lt, Op.LE: le}
LOWER = (Op.GT, Op.GE)  # false for small values; the other two are false for large ones


class Entry:
    """One conjunction as the index keeps it: the path it is filed under and what is left to ask."""

    __slots__ = ("attributes", "id", "keys", "left", "node", "number", "path", "several", "tests")

    def __init__(self, id: int, several: bool, left: list[Predicate], number: int) -> None:
        self.id = id
        self.several = several  # one of several disjuncts of its subscription
        self.left = left
        self.number = number  # its place in the index's list of entries
        self.path: list[Key] = []
        self.keys: list[Key] = []  # every key it uses, on the path or in a test
        self.attributes: list[Attribute] = []
        self.tests: list[Test] = []
        self.node: Any = None

    def passes(self, event: KeyedEvent) -> bool:
        return all(test(event) for test in self.tests)

    def answer(self, event: KeyedEvent, out: list[int]) -> None:
        """Append the id; a subscription with several disjuncts is appended only once."""
        if self.several:
            if self.id in event.answered:
                return
            event.answered.add(self.id)
        out.append(self.id)


def is_comparison(predicate: Predicate) -> bool:
    """Whether a predicate compares a number, which sorted arrays and bitmaps can answer."""
    return predicate.op in COMPARE and not isinstance(predicate.value, str)


def make_test(predicate: Predicate, entry: Entry, keys: Keys) -> Test:
    """The test of a predicate on an event; the keys that it needs are added to the entry."""
    name, op, value = predicate
    attribute = keys.attribute(name)
    entry.attributes.append(attribute)

    def use(shape: Op, literal: Value) -> Key:
        entry.keys.append(attribute.use(shape, literal))
        return entry.keys[-1]

    if op is Op.PRESENT:
        return lambda event: name in event.kinds
    if op is Op.ABSENT:
        return lambda event: name not in event.kinds
    if isinstance(value, tuple):
        kind, members = kind_of(value[0]), {use(Op.EQ, member) for member in value}
        if op is Op.IN:
            return lambda event: event.equals.get(name) in members
        return lambda event: event.kinds.get(name) is kind and event.equals.get(name) not in members
    assert value is not None
    kind = kind_of(value)
    if op is Op.NE:
        key = use(Op.EQ, value)
        return lambda event: event.kinds.get(name) is kind and event.equals.get(name) is not key
    if op in COMPARE:
        compare = COMPARE[op]
        return lambda event: event.kinds.get(name) is kind and compare(event.values[name], value)
    if op in (Op.LIKE, Op.NOT_LIKE):
        key = use(Op.LIKE, value)
        if op is Op.LIKE:
            return lambda event: event.like(key)
        return lambda event: event.kinds.get(name) is kind and not event.like(key)
    if op in (Op.PREFIX, Op.SUFFIX, Op.CONTAINS):
        key = use(op, value)
        return lambda event: key in event.holds
    key = use(op.negation, value)
    return lambda event: event.kinds.get(name) is kind and key not in event.holds


class Column:
    """One attribute of the marked entries: for each bucket of values, the slots that certainly fail there."""

    def __init__(self, comparisons: list[tuple[float, Op, int]], slots: int) -> None:
        comparisons.sort(key=lambda comparison: comparison[0])
        thresholds = [threshold for threshold, _, _ in comparisons]
        buckets = max(8, min(BUCKETS_MAX, slots // 64))
        quantiles = (thresholds[b * len(thresholds) // buckets] for b in range(1, buckets))
        self.bounds = list(dict.fromkeys(quantiles))  # bucket b is [bounds[b - 1], bounds[b])
        self.edges: list[list[tuple[float, Op, int]]] = [[] for _ in range(len(self.bounds) + 1)]
        for comparison in comparisons:
            self.edges[self.bucket(comparison[0])].append(comparison)
        self.asking = _bitmap((slot for _, _, slot in comparisons), slots)
        self.fails = [0] * len(self.edges)
        self._mark(range(len(self.edges)), lower=False, slots=slots)
        self._mark(range(len(self.edges) - 1, -1, -1), lower=True, slots=slots)

    def bucket(self, value: float) -> int:
        return bisect_right(self.bounds, value)

    def _mark(self, buckets: range, *, lower: bool, slots: int) -> None:
        """Upward, an upper bound fails in every bucket after its own; a lower bound likewise downward."""
        failing = 0
        for b in buckets:
            self.fails[b] |= failing
            failing |= _bitmap(
                (slot for _, op, slot in self.edges[b] if (op in LOWER) == lower), slots
            )

    def find_failing(self, event: KeyedEvent, name: str) -> int:
        """The slots with a comparison of this attribute that is not true."""
        if event.kinds.get(name) is not Kind.NUMBER:
            return self.asking
        value = event.values[name]
        b = self.bucket(value)
        failing = self.fails[b]
        for threshold, op, slot in self.edges[b]:
            if not COMPARE[op](value, threshold):
                failing |= 1 << slot
        return failing


class Rest:
    """Entries in two groups: marked in bitmaps, and waiting to be."""

    def __init__(self) -> None:
        self._waiting: dict[Entry, None] = {}
        self._slots: list[Entry] = []
        self._slot_of: dict[Entry, int] = {}
        self._alive = 0  # bitmap
        self._special = 0  # bitmap: needs to be tried
        self._columns: dict[str, Column] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting or self._slot_of)

    def add(self, entry: Entry) -> None:
        self._waiting[entry] = None

    def remove(self, entry: Entry) -> None:
        if entry in self._waiting:
            del self._waiting[entry]
        else:
            self._alive &= ~(1 << self._slot_of.pop(entry))

    def match(self, event: KeyedEvent, out: list[int]) -> None:
        """Append the ids of the entries all of whose tests are true."""
        if len(self._waiting) > MARK_FROM + len(self._slot_of) // 16 or 2 * len(
            self._slot_of
        ) < len(self._slots):
            self._rebuild()
        for entry in self._waiting:
            if entry.passes(event):
                entry.answer(event, out)
        alive = self._alive
        for name, column in self._columns.items():
            alive &= ~column.find_failing(event, name)
        special = alive & self._special
        out += [self._slots[slot].id for slot in _bits(alive ^ special)]
        for slot in _bits(special):
            if self._slots[slot].passes(event):
                self._slots[slot].answer(event, out)

    def _rebuild(self) -> None:
        entries = [*self._slot_of, *self._waiting]
        if len(entries) < MARK_FROM:
            self.__init__()  # type: ignore[misc]
            self._waiting = dict.fromkeys(entries)
            return
        self._waiting = {}
        self._slots = entries
        self._slot_of = {entry: slot for slot, entry in enumerate(entries)}
        self._alive = (1 << len(entries)) - 1
        comparisons: dict[str, list[tuple[float, Op, int]]] = {}
        special = []
        for slot, entry in enumerate(entries):
            if entry.several or not all(is_comparison(predicate) for predicate in entry.left):
                special.append(slot)
            for predicate in entry.left:
                if is_comparison(predicate):
                    name, op, threshold = predicate
                    comparisons.setdefault(name, []).append((threshold, op, slot))  # type: ignore[arg-type]
        self._special = _bitmap(iter(special), len(entries))
        self._columns = {name: Column(found, len(entries)) for name, found in comparisons.items()}


def _bitmap(slots: Iterator[int], size: int) -> int:
    """The int with these bits set; through bytes, since setting them one by one copies the int each time."""
    bits = bytearray(size // 8 + 1)
    for slot in slots:
        bits[slot >> 3] |= 1 << (slot & 7)
    return int.from_bytes(bits, "little")


def _bits(bitmap: int) -> Iterator[int]:
    """The positions of the set bits, in one pass over the bytes."""
    for at, byte in enumerate(bitmap.to_bytes((bitmap.bit_length() + 7) // 8, "little")):
        base = 8 * at
        while byte:
            low = byte & -byte
            yield base + low.bit_length() - 1
            byte ^= low
