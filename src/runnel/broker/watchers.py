"""Which modules are called for publications: those that mark them, that watch all of them, or only the marked ones.

A module declares this in its class (`Module.marks_publications`, `watches_publications`, `watches_marked`). While the
broker runs it may be changed through `Context.watch` only, which renews the tuples here. These are replaced and never
altered, so a module may switch while it is being called; the change holds from the next run on. The router reads them
for every run; if all are empty, that is the only cost.
"""

from __future__ import annotations

from collections.abc import Iterable

from runnel.broker.module import Module
from runnel.errors import BugError
from runnel.wire import Publication


class Watchers:
    """The modules of a broker that have to do with publications, in the order in which the broker has them."""

    __slots__ = ("_modules", "depend_on_marks", "markers", "of_all", "of_marked")

    def __init__(self, modules: Iterable[Module]) -> None:
        self._modules = tuple(modules)
        self.markers: tuple[Module, ...] = ()
        """Those whose `mark_publications` is called."""
        self.of_all: tuple[Module, ...] = ()
        """Those that are told of every publication."""
        self.of_marked: tuple[Module, ...] = ()
        """Those that are told of a run with a mark in it: all of the above, and who watches marks alone."""
        self.depend_on_marks = False
        """Whether the last two differ."""
        self._select()

    def of(self, run: list[Publication]) -> tuple[Module, ...]:
        """The modules that a run is reported to."""
        for publication in run:
            if publication.flags:
                return self.of_marked
        return self.of_all

    def watch(
        self,
        module: Module,
        *,
        publications: bool | None = None,
        marked: bool | None = None,
        marks: bool | None = None,
    ) -> None:
        """Switch what a module is called for; None leaves it as it is. See `Context.watch`."""
        if module not in self._modules:
            raise BugError(f"module {module.name} is none of this broker's")
        if publications is not None:
            module.watches_publications = publications
        if marked is not None:
            module.watches_marked = marked
        if marks is not None:
            module.marks_publications = marks
        self._select()

    def _select(self) -> None:
        modules = self._modules
        self.markers = tuple(m for m in modules if m.marks_publications)
        self.of_all = tuple(m for m in modules if m.watches_publications)
        self.of_marked = tuple(m for m in modules if m.watches_publications or m.watches_marked)
        self.depend_on_marks = self.of_marked != self.of_all
