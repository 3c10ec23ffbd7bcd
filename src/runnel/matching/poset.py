"""The poset of filters: who covers whom, and the covering subscription set (CSS).

Named and drawn as in balance §2.1, Fig. 2: a directed acyclic graph under an imaginary root, a node for
each distinct filter, parents with a larger subscription space than their children. The CSS, the filters
covered by no other, are the children of the root and cost nothing to get. Insertion and removal are
incremental.

`covers` may say no where a proof is hard, so two filters can cover each other without being equal; such
twins stand side by side, neither under the other: only *strict* covering makes a parent.

To find whom a filter might cover without asking everybody, each node is filed under its terms (its
attributes, and its equalities with their value). Whatever a filter covers has all of its terms; but
everything covers a contradiction, so those are kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runnel.errors import InputError
from runnel.language import Filter, Selection
from runnel.language.predicates import Op
from runnel.language.values import Kind, Value, kind_of

Term = tuple[str, Kind, Value] | tuple[str] | tuple[()]


class PosetNode:
    """One distinct selection, the ids that ask for it, and its nearest neighbours in the order."""

    __slots__ = ("children", "ids", "lead", "parents", "selection", "terms")

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.ids: dict[int, None] = {}
        self.parents: dict[PosetNode, None] = {}
        self.children: dict[PosetNode, None] = {}
        self.terms = _terms(selection)
        self.lead = self.terms[-1]  # the term that the fewest share: an equality if there is one


class Poset:
    """Filters by covering.

    >>> from runnel.language import parse
    >>> poset = Poset()
    >>> for id, text in enumerate(["a > 5", "a > 9", "b = 1"]):
    ...     _ = poset.add(id, parse(text))
    >>> poset.css()
    [0, 2]
    >>> poset.remove(0)
    >>> poset.css()
    [1, 2]
    """

    def __init__(self) -> None:
        self._nodes: dict[Selection, PosetNode] = {}
        self._node_of: dict[int, PosetNode] = {}
        self._top: dict[PosetNode, None] = {}  # children of the root
        self._by_term: dict[Term, dict[PosetNode, None]] = {}
        self._by_lead: dict[Term, dict[PosetNode, None]] = {}
        self._contradictions: dict[PosetNode, None] = {}

    def __len__(self) -> int:
        return len(self._node_of)

    def __contains__(self, id: object) -> bool:
        return id in self._node_of

    def add(self, id: int, selection: Selection) -> bool:
        """File a selection; True if it is now in the CSS (so nothing else covers it)."""
        if id in self._node_of:
            raise InputError(f"subscription {id} is in the poset already; remove it first")
        node = self._nodes.get(selection)
        if node is None:
            node = self._nodes[selection] = PosetNode(selection)
            self._link(node)
        node.ids[id] = None
        self._node_of[id] = node
        return node in self._top

    def remove(self, id: int) -> None:
        """Forget an id; a filter that nobody asks for any more leaves the order."""
        node = self._node_of.pop(id, None)
        if node is None:
            raise InputError(f"subscription {id!r} is not in the poset")
        del node.ids[id]
        if not node.ids:
            del self._nodes[node.selection]
            self._unlink(node)

    def css(self) -> list[int]:
        """The covering subscription set: one id for each filter that no other covers."""
        return [next(iter(node.ids)) for node in self._top]

    def css_nodes(self) -> Iterable[PosetNode]:
        """The children of the root."""
        return self._top.keys()

    def node(self, id: int) -> PosetNode:
        """The node of an id, to walk the order from."""
        return self._node_of[id]

    def covered_by(self, selection: Selection) -> list[int]:
        """The ids of all filed selections that this one covers, strictly or by being its equal."""
        return [
            id
            for node in self._candidates_below(selection)
            if selection.covers(node.selection)
            for id in node.ids
        ]

    def is_covered(self, selection: Selection) -> bool:
        """Whether some filed selection covers this one."""
        return any(node.selection.covers(selection) for node in self._candidates_above(selection))

    def _link(self, node: PosetNode) -> None:
        above = [
            other
            for other in self._candidates_above(node.selection)
            if _strictly_covers(other, node)
        ]
        below = [
            other
            for other in self._candidates_below(node.selection)
            if _strictly_covers(node, other)
        ]
        above_set, below_set = set(above), set(below)
        parents = [
            other for other in above if not any(child in above_set for child in other.children)
        ]
        children = [
            other for other in below if not any(parent in below_set for parent in other.parents)
        ]
        for child in children:  # what stood between them now stands around the new node
            for parent in list(child.parents):
                if parent in above_set:
                    _disconnect(parent, child)
            self._top.pop(child, None)
            _connect(node, child)
        for parent in parents:
            _connect(parent, node)
        if not parents:
            self._top[node] = None
        if node.selection.is_contradiction:
            self._contradictions[node] = None
            return
        for term in node.terms:
            self._by_term.setdefault(term, {})[node] = None
        self._by_lead.setdefault(node.lead, {})[node] = None

    def _unlink(self, node: PosetNode) -> None:
        if node.selection.is_contradiction:
            del self._contradictions[node]
        else:
            for term in node.terms:
                _drop(self._by_term, term, node)
            _drop(self._by_lead, node.lead, node)
        self._top.pop(node, None)
        children, parents = list(node.children), list(node.parents)
        for parent in parents:
            _disconnect(parent, node)
        for child in children:
            _disconnect(node, child)
        for child in children:
            for parent in parents:
                if not _reaches(parent, child):
                    _connect(parent, child)
            if not child.parents:
                self._top[child] = None

    def _candidates_above(self, selection: Selection) -> Iterator[PosetNode]:
        """Who might cover a selection: those whose lead it has."""
        if selection.is_contradiction:
            yield from self._nodes.values()
            return
        for term in _terms(selection):
            yield from self._by_lead.get(term, ())

    def _candidates_below(self, selection: Selection) -> Iterator[PosetNode]:
        """Whom a selection might cover: those that have its lead."""
        yield from self._by_term.get(_terms(selection)[-1], ())
        yield from self._contradictions


def _terms(selection: Selection) -> tuple[Term, ...]:
    """The empty term, which all have; then attributes; then equalities."""
    if selection.is_contradiction:
        return ((),)
    if not isinstance(selection, Filter):
        return _common_terms(selection)
    attributes = dict.fromkeys((p.attribute,) for p in selection.predicates)
    equalities = [
        (p.attribute, kind_of(p.value), p.value)
        for p in selection.predicates
        if p.op is Op.EQ and p.value is not None and not isinstance(p.value, tuple)
    ]
    return ((), *attributes, *equalities)


def _common_terms(selection: Selection) -> tuple[Term, ...]:
    """What all disjuncts have in common: only that is sure to hold of what they select."""
    first, *others = (_terms(disjunct) for disjunct in selection.disjuncts)
    return tuple(term for term in first if all(term in terms for terms in others))


def _strictly_covers(one: PosetNode, other: PosetNode) -> bool:
    return one.selection.covers(other.selection) and not other.selection.covers(one.selection)


def _connect(parent: PosetNode, child: PosetNode) -> None:
    parent.children[child] = None
    child.parents[parent] = None


def _disconnect(parent: PosetNode, child: PosetNode) -> None:
    parent.children.pop(child, None)
    child.parents.pop(parent, None)


def _drop(table: dict[Term, dict[PosetNode, None]], term: Term, node: PosetNode) -> None:
    del table[term][node]
    if not table[term]:
        del table[term]


def _reaches(ancestor: PosetNode, node: PosetNode) -> bool:
    """Whether a path leads down from one node to another."""
    stack, seen = [node], set()
    while stack:
        for parent in stack.pop().parents:
            if parent is ancestor:
                return True
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return False
