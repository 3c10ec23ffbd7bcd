"""The poset of filters: who covers whom, and the covering subscription set (CSS).

Named and drawn as in balance §2.1, Fig. 2: a directed acyclic graph under an imaginary root, a node for
each distinct filter, parents with a larger subscription space than their children. The CSS, the filters
covered by no other, are the children of the root and cost nothing to get. Insertion and removal are
incremental.

`covers` may say no where a proof is hard, so two filters can cover each other without being equal; such
twins stand side by side, neither under the other: only *strict* covering makes a parent.
"""

from __future__ import annotations

from collections.abc import Iterable

from runnel.language import Selection
from runnel.matching.covering import Covering


class PosetNode:
    """One distinct selection and its nearest neighbours in the order."""

    __slots__ = ("children", "parents", "selection")

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.parents: dict[PosetNode, None] = {}
        self.children: dict[PosetNode, None] = {}


class Poset:
    """Filters by covering.

    >>> from runnel.language import parse
    >>> poset = Poset()
    >>> for id, text in enumerate(["a > 5", "a > 9", "b = 1"]):
    ...     poset.add(id, parse(text))
    >>> poset.css()
    [0, 2]
    >>> poset.remove(0)
    >>> sorted(poset.css())
    [1, 2]
    """

    def __init__(self) -> None:
        self.covering = Covering()
        self._nodes: dict[Selection, PosetNode] = {}
        self._top: dict[PosetNode, None] = {}  # children of the root

    def __len__(self) -> int:
        return len(self.covering)

    def __contains__(self, id: object) -> bool:
        return id in self.covering

    def add(self, id: int, selection: Selection) -> None:
        """File a selection under an id that is not in use."""
        is_new = selection not in self._nodes
        if is_new:
            node = PosetNode(selection)
            self._link(node)
            self._nodes[selection] = node
        self.covering.add(id, selection)

    def remove(self, id: int) -> None:
        """Forget an id; a filter that nobody asks for any more leaves the order."""
        selection = self.covering.remove(id)
        if not self.covering.ids(selection):
            self._unlink(self._nodes.pop(selection))

    def css(self) -> list[int]:
        """The covering subscription set: one id for each filter that no other covers."""
        return [next(iter(self.covering.ids(node.selection))) for node in self._top]

    def css_nodes(self) -> Iterable[PosetNode]:
        """The children of the root."""
        return self._top.keys()

    def node(self, id: int) -> PosetNode:
        """The node of an id, to walk the order from."""
        return self._nodes[self.covering.selection(id)]

    def _link(self, node: PosetNode) -> None:
        new = node.selection
        above = {
            self._nodes[s]: None for s in self.covering.find_covering(new) if not new.covers(s)
        }
        below = {self._nodes[s]: None for s in self.covering.find_covered(new) if not s.covers(new)}
        parents = [p for p in above if not any(child in above for child in p.children)]
        children = [c for c in below if not any(parent in below for parent in c.parents)]
        for child in children:  # what stood between them now stands around the new node
            for parent in list(child.parents):
                if parent in above:
                    _disconnect(parent, child)
            self._top.pop(child, None)
            _connect(node, child)
        for parent in parents:
            _connect(parent, node)
        if not parents:
            self._top[node] = None

    def _unlink(self, node: PosetNode) -> None:
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


def _connect(parent: PosetNode, child: PosetNode) -> None:
    parent.children[child] = None
    child.parents[parent] = None


def _disconnect(parent: PosetNode, child: PosetNode) -> None:
    parent.children.pop(child, None)
    child.parents.pop(parent, None)


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
