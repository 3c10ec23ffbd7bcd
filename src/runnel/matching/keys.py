"""Keys: every distinct literal, tried once per event and shared by all filters that use it.

A key is (attribute, shape, literal): `symbol = 'YHOO'`, `note prefix 'ab'`. For each attribute of an event
the tables name the keys that hold without trying those that do not: equalities by hash, prefixes and
suffixes by one look-up per length in use, substrings by their first four characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runnel.language.patterns import like
from runnel.language.predicates import Op
from runnel.language.values import Kind, Value, check_range, kind_of

GRAM = 4


class Key:
    """One distinct literal of one attribute."""

    __slots__ = ("attribute", "hits", "literal", "path_uses", "shape", "uses")

    def __init__(self, attribute: Attribute, shape: Op, literal: Value) -> None:
        self.attribute = attribute
        self.shape = shape
        self.literal = literal
        self.uses = 0  # predicates that name it
        self.path_uses = 0  # entries filed under it
        self.hits = 0  # events in which it held: the learned selectivity


class Attribute:
    """The keys of one attribute, by shape."""

    __slots__ = ("equals", "keys", "lengths", "name", "patterns", "substrings", "uses")

    def __init__(self, name: str) -> None:
        self.name = name
        self.uses = 0
        self.keys: dict[tuple[Op, Kind, Value], Key] = {}  # (shape, kind, literal)
        self.equals: dict[tuple[Kind, Value], Key] = {}  # (kind, literal), so that True is not 1
        self.patterns = 0
        self.lengths: dict[Op, dict[int, int]] = {Op.PREFIX: {}, Op.SUFFIX: {}}
        self.substrings: dict[str, list[Key]] = {}  # first characters → keys

    def use(self, shape: Op, literal: Value) -> Key:
        """The key for a literal, made if it is new, with one more use."""
        kind = kind_of(literal)
        key = self.keys.get((shape, kind, literal))
        if key is None:
            key = self.keys[shape, kind, literal] = Key(self, shape, literal)
            self._list(key, kind)
        key.uses += 1
        return key

    def release(self, key: Key) -> None:
        """Release one use of a key; without uses it is removed."""
        key.uses -= 1
        if key.uses:
            return
        kind = kind_of(key.literal)
        del self.keys[key.shape, kind, key.literal]
        self._unlist(key, kind)

    def _list(self, key: Key, kind: Kind) -> None:
        if key.shape is Op.EQ:
            self.equals[kind, key.literal] = key
        elif key.shape is Op.CONTAINS:
            self.patterns += 1
            self.substrings.setdefault(str(key.literal)[:GRAM], []).append(key)
        elif key.shape in self.lengths:
            self.patterns += 1
            lengths, size = self.lengths[key.shape], len(str(key.literal))
            lengths[size] = lengths.get(size, 0) + 1

    def _unlist(self, key: Key, kind: Kind) -> None:
        if key.shape is Op.EQ:
            del self.equals[kind, key.literal]
        elif key.shape is Op.CONTAINS:
            self.patterns -= 1
            gram = str(key.literal)[:GRAM]
            self.substrings[gram].remove(key)
            if not self.substrings[gram]:
                del self.substrings[gram]
        elif key.shape in self.lengths:
            self.patterns -= 1
            lengths, size = self.lengths[key.shape], len(str(key.literal))
            lengths[size] -= 1
            if not lengths[size]:
                del lengths[size]

    def find_holding(self, text: str) -> list[Key]:
        """The pattern keys that hold for a text."""
        found = []
        for size in self.lengths[Op.PREFIX]:
            if size <= len(text) and (key := self.keys.get((Op.PREFIX, Kind.STRING, text[:size]))):
                found.append(key)
        for size in self.lengths[Op.SUFFIX]:
            if size <= len(text) and (
                key := self.keys.get((Op.SUFFIX, Kind.STRING, text[len(text) - size :]))
            ):
                found.append(key)
        if self.substrings:
            grams = {
                text[at : at + size]: None
                for size in range(GRAM + 1)
                for at in range(len(text) - size + 1)
            }
            for gram in grams:
                found += [key for key in self.substrings.get(gram, ()) if str(key.literal) in text]
        return found


class KeyedEvent:
    """One event with the keys that hold for it."""

    __slots__ = ("answered", "equals", "holding", "holds", "kinds", "likes", "values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.kinds: dict[str, Kind] = {}
        self.equals: dict[str, Key] = {}  # attribute → the equality key that holds
        self.holding: list[Key] = []  # keys that hold and have entries filed under them
        self.holds: set[Key] = set()  # pattern keys that hold
        self.likes: dict[Key, bool] = {}
        self.answered: set[int] = set()  # ids with several disjuncts, answered already

    def like(self, key: Key) -> bool:
        """Whether a LIKE pattern holds; tried once."""
        if key not in self.likes:
            name = key.attribute.name
            self.likes[key] = self.kinds.get(name) is Kind.STRING and like(
                str(key.literal)
            ).matches(self.values[name])
        return self.likes[key]


class Keys:
    """The attributes that filters use, with their keys; finds the keys that hold for an event."""

    def __init__(self) -> None:
        self.attributes: dict[str, Attribute] = {}
        self.seen = 0  # events, on the scale of Key.hits

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name, with one more use."""
        attribute = self.attributes.get(name)
        if attribute is None:
            attribute = self.attributes[name] = Attribute(name)
        attribute.uses += 1
        return attribute

    def release_attribute(self, attribute: Attribute) -> None:
        """Release one use of an attribute; without uses it is removed."""
        attribute.uses -= 1
        if not attribute.uses:
            del self.attributes[attribute.name]

    def chance(self, key: Key) -> float:
        """The chance that an event satisfies the key, as far as events and filters tell."""
        attribute = key.attribute
        return (key.hits + 1) / (self.seen + len(attribute.equals) + attribute.patterns + 1)

    def event(self, attributes: Mapping[str, Any]) -> KeyedEvent:
        """Find the keys that hold for an event. None and NaN mean that the attribute is absent."""
        self.seen += 1
        if self.seen == 1 << 20:
            self._halve_counts()
        event = KeyedEvent()
        for name, attribute in self.attributes.items():
            value: Any = attributes.get(name)
            kind = kind_of(value)
            if kind is Kind.ABSENT:
                continue
            check_range(value)
            event.values[name] = value
            event.kinds[name] = kind
            key = attribute.equals.get((kind, value))
            if key is not None:
                event.equals[name] = key
                key.hits += 1
                if key.path_uses:
                    event.holding.append(key)
            if attribute.patterns and kind is Kind.STRING:
                for key in attribute.find_holding(value):
                    event.holds.add(key)
                    key.hits += 1
                    if key.path_uses:
                        event.holding.append(key)
        return event

    def _halve_counts(self) -> None:
        """Halve the counts, so that the learned chances follow the traffic."""
        self.seen //= 2
        for attribute in self.attributes.values():
            for key in attribute.keys.values():
                key.hits //= 2
