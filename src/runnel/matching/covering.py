"""Finding, among many selections, those that cover, are covered by, or intersect a given one.

Comparing with every selection would be quadratic, because brokers ask at every subscription. So selections are filed
under *terms*: their attributes, and their equalities with the value. If one selection covers another, the other has all
of its terms (contradictions are kept apart, since everything covers them). Two selections with different values for one
attribute do not intersect. The candidates found so are tested with `covers` and `intersects`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypeVar

from runnel.errors import InputError
from runnel.language import Filter, Selection
from runnel.language.predicates import Op
from runnel.language.values import Kind, Value, kind_of

_K = TypeVar("_K")
_V = TypeVar("_V")

Equality = tuple[str, Kind, Value]
Term = Equality | tuple[str] | tuple[()]


class Covering:
    """Selections by id: which of them cover a selection, and which does it cover?

    >>> from runnel.language import parse
    >>> covering = Covering()
    >>> covering.add(1, parse("a > 5"))
    >>> covering.is_covered(parse("a > 9")), covering.ids_covered_by(parse("a > 0"))
    (True, [1])
    """

    def __init__(self) -> None:
        self._ids: dict[Selection, dict[int, None]] = {}
        self._selection_of: dict[int, Selection] = {}
        self._by_term: dict[Term, dict[Selection, None]] = {}
        self._by_lead: dict[Term, dict[Selection, None]] = {}
        self._contradictions: dict[Selection, None] = {}

    def __len__(self) -> int:
        return len(self._selection_of)

    def __contains__(self, id: object) -> bool:
        return id in self._selection_of

    def __iter__(self) -> Iterator[int]:
        return iter(self._selection_of)

    def selection(self, id: int) -> Selection:
        """The selection filed under an id."""
        return self._selection_of[id]

    def ids(self, selection: Selection) -> dict[int, None]:
        """The ids of exactly this selection."""
        return self._ids.get(selection, {})

    def add(self, id: int, selection: Selection) -> None:
        """File a selection under an id that is not in use."""
        if id in self._selection_of:
            raise InputError(f"subscription {id} is filed already; remove it first")
        self._selection_of[id] = selection
        if selection not in self._ids:
            self._ids[selection] = {}
            self._file(selection)
        self._ids[selection][id] = None

    def remove(self, id: int) -> Selection:
        """Remove an id and return its selection."""
        if id not in self._selection_of:
            raise InputError(f"subscription {id!r} is not filed")
        selection = self._selection_of.pop(id)
        del self._ids[selection][id]
        if not self._ids[selection]:
            del self._ids[selection]
            self._unfile(selection)
        return selection

    def is_covered(self, selection: Selection) -> bool:
        """Whether some filed selection covers this one."""
        return next(self.find_covering(selection), None) is not None

    def ids_covered_by(self, selection: Selection) -> list[int]:
        """The ids of all filed selections that this one covers."""
        return [id for covered in self.find_covered(selection) for id in self._ids[covered]]

    def find_covering(self, selection: Selection) -> Iterator[Selection]:
        """The filed selections that cover this one: they have a lead among its terms."""
        if selection.is_contradiction:
            yield from self._ids
            return
        for term in terms_of(selection):
            for other in self._by_lead.get(term, ()):
                if other.covers(selection):
                    yield other

    def find_covered(self, selection: Selection) -> Iterator[Selection]:
        """The filed selections that this one covers: they have its lead."""
        for other in self._by_term.get(terms_of(selection)[-1], ()):
            if selection.covers(other):
                yield other
        yield from self._contradictions

    def _file(self, selection: Selection) -> None:
        if selection.is_contradiction:
            self._contradictions[selection] = None
            return
        terms = terms_of(selection)
        for term in terms:
            self._by_term.setdefault(term, {})[selection] = None
        self._by_lead.setdefault(terms[-1], {})[selection] = None

    def _unfile(self, selection: Selection) -> None:
        if selection.is_contradiction:
            del self._contradictions[selection]
            return
        terms = terms_of(selection)
        for term in terms:
            _drop(self._by_term, term, selection)
        _drop(self._by_lead, terms[-1], selection)


class Intersecting:
    """Selections by id: which of them intersect a selection?

    >>> from runnel.language import parse
    >>> intersecting = Intersecting()
    >>> intersecting.add(1, parse("symbol = 'YHOO' AND volume > 5"))
    >>> list(intersecting.find(parse("volume > 9"))), list(intersecting.find(parse("volume < 3")))
    ([1], [])
    """

    def __init__(self) -> None:
        self._selection_of: dict[int, Selection] = {}
        # Lead attribute → equality → ids; under the attribute "" those without an equality.
        self._groups: dict[str, dict[Term, dict[int, None]]] = {}

    def __len__(self) -> int:
        return len(self._selection_of)

    def add(self, id: int, selection: Selection) -> None:
        """File a selection under an id that is not in use."""
        self._selection_of[id] = selection
        attribute, lead = _lead_equality(selection)
        self._groups.setdefault(attribute, {}).setdefault(lead, {})[id] = None

    def remove(self, id: int) -> None:
        """Forget an id."""
        attribute, lead = _lead_equality(self._selection_of.pop(id))
        group = self._groups[attribute]
        _drop(group, lead, id)
        if not group:
            del self._groups[attribute]

    def find(self, selection: Selection) -> Iterator[int]:
        """The ids of all filed selections that intersect this one."""
        equalities = {term[0]: term for term in terms_of(selection) if len(term) == 3}
        for attribute, group in self._groups.items():
            lead = equalities.get(attribute)
            buckets = group.values() if lead is None else [group.get(lead, {})]
            for bucket in buckets:
                for id in bucket:
                    if selection.intersects(self._selection_of[id]):
                        yield id


@lru_cache(maxsize=1 << 16)
def terms_of(selection: Selection) -> tuple[Term, ...]:
    """The terms of a selection: the empty term, then attributes, then equalities. The last one is its *lead*."""
    if selection.is_contradiction:
        return ((),)
    if not isinstance(selection, Filter):
        first, *others = (terms_of(disjunct) for disjunct in selection.disjuncts)
        return tuple(term for term in first if all(term in terms for terms in others))
    attributes = dict.fromkeys((p.attribute,) for p in selection.predicates)
    equalities = [
        (p.attribute, kind_of(p.value), p.value)
        for p in selection.predicates
        if p.op is Op.EQ and p.value is not None and not isinstance(p.value, tuple)
    ]
    return ((), *attributes, *equalities)


def _lead_equality(selection: Selection) -> tuple[str, Term]:
    lead = terms_of(selection)[-1]
    return (lead[0], lead) if len(lead) == 3 else ("", ())


def _drop(table: dict[_K, dict[_V, None]], key: _K, value: _V) -> None:
    del table[key][value]
    if not table[key]:
        del table[key]
