"""The index: a trie of keys in order of selectivity, with sorted arrays and a rest at every node.

This is the definition that the compiled engine (`native/engine.hpp`) follows, and the engine of installs
without a compiler. Journey of an event: `Keys.event` names the keys that hold; `_visit` walks the nodes all
of whose keys hold; each node answers with what is on its shelves.

A conjunction is filed once: under its equalities, rarest first (without one, under its longest string
pattern; a set of values is filed under each member, of which an event has at most one). What is left to
ask decides the shelf: nothing → `everyone`; one number comparison → a sorted array, answered by a slice;
more → `rest` (see `rest.py`).

Which equality is rarest is learned from events. A cursor goes round the entries, one step with every `add` and
every 64th match, and files an entry anew if it belongs elsewhere by now: so there is no pause for a rebuild.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from typing import Any

from runnel.language import Filter, Predicate, Selection
from runnel.language.predicates import Op
from runnel.language.values import Kind, Value
from runnel.matching.engine import BatchMatches, check_new_id, distinct, unknown_id
from runnel.matching.keys import Key, KeyedEvent, Keys
from runnel.matching.rest import Entry, Rest, is_comparison, make_test
from runnel.matching.tally import PlainTally

Slice = tuple[list[int], int, int]


class IndexMatches:
    """One answer: pieces of the index's id lists, and the ids found one by one."""

    __slots__ = ("_count", "_loose", "_slices")

    def __init__(self, slices: list[Slice], loose: list[int]) -> None:
        self._slices = slices
        self._loose = loose
        self._count = sum(stop - start for _, start, stop in slices) + len(loose)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids())

    def ids(self) -> array[int]:
        """All ids as one array('q') of the caller's own."""
        out = array("q", self._loose)
        for ids, start, stop in self._slices:
            out.extend(ids[start:stop])
        return out

    def distinct(self, table: array[int]) -> list[int]:
        """The distinct non-negative values that `table` has for the ids."""
        return distinct(self.ids(), table)

    def slices(self) -> list[list[int]]:
        """The same ids as the pieces the index keeps them in."""
        return [ids[start:stop] for ids, start, stop in self._slices] + (
            [self._loose] if self._loose else []
        )


class Shelf:
    """Ids sorted by the threshold of their one comparison, so that a value answers with a slice."""

    __slots__ = ("ids", "op", "thresholds")

    def __init__(self, op: Op) -> None:
        self.op = op
        self.thresholds: list[float] = []
        self.ids: list[int] = []

    def add(self, threshold: float, id: int) -> None:
        at = bisect_right(self.thresholds, threshold)
        self.thresholds.insert(at, threshold)
        self.ids.insert(at, id)

    def remove(self, threshold: float, id: int) -> None:
        at = self.ids.index(id, bisect_left(self.thresholds, threshold))
        del self.thresholds[at], self.ids[at]

    def slice(self, value: float) -> Slice:
        """The ids whose comparison is true of a value."""
        if self.op is Op.GT:
            return self.ids, 0, bisect_left(self.thresholds, value)
        if self.op is Op.GE:
            return self.ids, 0, bisect_right(self.thresholds, value)
        if self.op is Op.LT:
            return self.ids, bisect_right(self.thresholds, value), len(self.ids)
        return self.ids, bisect_left(self.thresholds, value), len(self.ids)


class TrieNode:
    """A node of the trie: what is filed under one sequence of keys."""

    __slots__ = ("children", "everyone", "key", "parent", "rest", "shelves")

    def __init__(self, parent: TrieNode | None = None, key: Key | None = None) -> None:
        self.parent = parent
        self.key = key
        self.everyone: list[int] = []
        self.shelves: dict[tuple[str, Op], Shelf] = {}
        self.rest = Rest()
        self.children: dict[Key, TrieNode] = {}

    def is_empty(self) -> bool:
        return not (self.everyone or self.shelves or self.children or self.rest)


class Index:
    """The pure-Python engine; the interface is `runnel.matching.engine.Engine`.

    >>> from runnel.language import parse
    >>> index = Index()
    >>> index.add(7, parse("volume > 300000"))
    >>> list(index.match({"volume": 300001}))
    [7]
    """

    name = "index"

    def __init__(self) -> None:
        self._keys = Keys()
        self._root = TrieNode()
        self._subscriptions: dict[int, list[Entry]] = {}
        self._entries: list[Entry] = []
        self._cursor = 0

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __contains__(self, id: object) -> bool:
        return id in self._subscriptions

    def add(self, id: int, selection: Selection) -> None:
        """File a selection under an id that is not in use."""
        check_new_id(id, self)
        disjuncts = selection.disjuncts
        self._subscriptions[id] = [
            self._add_entry(id, path, left, several=len(disjuncts) > 1)
            for conjunction in disjuncts
            for path, left in _paths(conjunction)
        ]
        self._refile_next()

    def remove(self, id: int) -> None:
        """Forget an id and its selection."""
        if id not in self:
            raise unknown_id(id)
        for entry in self._subscriptions.pop(id):
            self._unfile(entry)
            for key in entry.path:
                key.path_uses -= 1
            for key in entry.keys:
                key.attribute.release(key)
            for attribute in entry.attributes:
                self._keys.release_attribute(attribute)
            last = self._entries.pop()
            if last is not entry:
                self._entries[entry.number] = last
                last.number = entry.number

    def match(self, attributes: Mapping[str, Any]) -> IndexMatches:
        """Who wants this event?"""
        event = self._keys.event(attributes)
        if self._keys.seen % 64 == 0:
            self._refile_next()
        slices: list[Slice] = []
        loose: list[int] = []
        self._visit(self._root, event, slices, loose)
        return IndexMatches(slices, loose)

    def match_batch(self, columns: Mapping[str, Any]) -> BatchMatches:
        """Who wants each row of these columns (attribute name → values, None where absent)?"""
        rows = BatchMatches.rows_of(columns)
        asked = {
            name: BatchMatches.as_list(columns[name])
            for name in columns
            if name in self._keys.attributes
        }
        offsets, ids = array("q", [0]), array("q")
        for row in range(rows):
            ids.extend(self.match({name: column[row] for name, column in asked.items()}).ids())
            offsets.append(len(ids))
        return BatchMatches(offsets, ids)

    def tally(self) -> PlainTally:
        """Something to count matches with."""
        return PlainTally(self)

    def _visit(
        self, node: TrieNode, event: KeyedEvent, slices: list[Slice], loose: list[int]
    ) -> None:
        if node.everyone:
            slices.append((node.everyone, 0, len(node.everyone)))
        for (name, _), shelf in node.shelves.items():
            if event.kinds.get(name) is Kind.NUMBER:
                slices.append(shelf.slice(event.values[name]))
        if node.rest:
            node.rest.match(event, loose)
        if node.children:
            for key in event.holding:
                if (child := node.children.get(key)) is not None:
                    self._visit(child, event, slices, loose)

    def _add_entry(
        self, id: int, path: list[Predicate], left: list[Predicate], *, several: bool
    ) -> Entry:
        entry = Entry(id, several, left, number=len(self._entries))
        for attribute, op, literal in path:
            assert not isinstance(literal, tuple) and literal is not None
            entry.attributes.append(self._keys.attribute(attribute))
            entry.path.append(entry.attributes[-1].use(op, literal))
        entry.keys += entry.path
        for key in entry.path:
            key.path_uses += 1
        entry.path.sort(key=self._keys.chance)
        entry.tests = [make_test(predicate, entry, self._keys) for predicate in left]
        self._entries.append(entry)
        self._file(entry)
        return entry

    def _file(self, entry: Entry) -> None:
        node = self._root
        for key in entry.path:
            if key not in node.children:
                node.children[key] = TrieNode(node, key)
            node = node.children[key]
        entry.node = node
        if entry.several or len(entry.left) > 1:
            node.rest.add(entry)
        elif not entry.left:
            insort(node.everyone, entry.id)
        elif is_comparison(entry.left[0]):
            name, op, threshold = entry.left[0]
            shelf = node.shelves.setdefault((name, op), Shelf(op))
            shelf.add(threshold, entry.id)  # type: ignore[arg-type]
        else:
            node.rest.add(entry)

    def _unfile(self, entry: Entry) -> None:
        node: TrieNode = entry.node
        if entry.several or len(entry.left) > 1:
            node.rest.remove(entry)
        elif not entry.left:
            del node.everyone[bisect_left(node.everyone, entry.id)]
        elif is_comparison(entry.left[0]):
            name, op, threshold = entry.left[0]
            node.shelves[name, op].remove(threshold, entry.id)  # type: ignore[arg-type]
            if not node.shelves[name, op].ids:
                del node.shelves[name, op]
        else:
            node.rest.remove(entry)
        while node.parent is not None and node.key is not None and node.is_empty():
            del node.parent.children[node.key]
            node = node.parent

    def _refile_next(self) -> None:
        if not self._entries:
            return
        self._cursor = (self._cursor + 1) % len(self._entries)
        entry = self._entries[self._cursor]
        if len(entry.path) < 2:
            return
        path = sorted(entry.path, key=self._keys.chance)
        if 2 * self._keys.chance(path[0]) <= self._keys.chance(entry.path[0]):
            self._unfile(entry)
            entry.path = path
            self._file(entry)


def _paths(conjunction: Filter) -> Iterator[tuple[list[Predicate], list[Predicate]]]:
    """How a conjunction is filed: its path and what is left to ask; once per member for a set."""
    equalities = [p for p in conjunction.predicates if p.op is Op.EQ]
    others = [p for p in conjunction.predicates if p.op is not Op.EQ]
    if equalities:
        yield equalities, others
        return
    if sets := [p for p in others if p.op is Op.IN]:
        spread = min(sets, key=_size)
        others.remove(spread)
        for member in _members(spread):
            yield [Predicate(spread.attribute, Op.EQ, member)], others
        return
    patterns = [p for p in others if p.op in (Op.PREFIX, Op.SUFFIX, Op.CONTAINS)]
    if patterns:
        longest = max(patterns, key=_size)
        others.remove(longest)
        yield [longest], others
        return
    yield [], others


def _members(predicate: Predicate) -> tuple[Value, ...]:
    assert isinstance(predicate.value, tuple)
    return predicate.value


def _size(predicate: Predicate) -> int:
    assert isinstance(predicate.value, str | tuple)
    return len(predicate.value)
