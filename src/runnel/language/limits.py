"""How large a filter may be, so that one client's filter cannot take a broker's time or memory from all others.

Rule: the limits are checked on the text before it is read, and on the selection that came out of
it. What happens in between is bounded as well (see `normal_form`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runnel.errors import FilterLimitError, InvalidValue
from runnel.language.filters import DISJUNCTS_MAX, Filter, Selection, any_of

_SPLIT = "split it into several subscriptions"
_SLACK = 4
"""How many times too many filters are still compared with each other, to find that few are left."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a filter may have at most.

    >>> Limits(disjuncts=2).check_text("a > 5")
    """

    characters: int = 65_536
    """In the text, or for a filter built by hand in its names and strings."""

    predicates: int = 1_000
    """In all disjuncts together; the members of an IN count as one."""

    disjuncts: int = 100
    """Filters under one subscription, once OR and NOT are multiplied out; 1,000 is the most."""

    def __post_init__(self) -> None:
        if min(self.characters, self.predicates, self.disjuncts) < 1:
            raise InvalidValue("every limit must be at least 1")
        if self.disjuncts > DISJUNCTS_MAX:
            raise InvalidValue(f"the limit on disjuncts can be {DISJUNCTS_MAX} at most")

    def check_text(self, text: str) -> None:
        """Raise FilterLimitError if a text is too long to be read at all."""
        _check("characters", len(text), self.characters, "shorten it")

    def select(self, filters: Iterable[Filter]) -> Selection:
        """Return `any_of` the filters, or raise FilterLimitError before it becomes expensive.

        >>> from runnel.language import EVERYTHING, NOTHING
        >>> Limits(disjuncts=1).select([EVERYTHING, NOTHING])
        Filter(everything)
        """
        distinct = {filter_ for filter_ in filters if not filter_.is_contradiction}
        if len(distinct) > self.disjuncts * _SLACK:
            _check("disjuncts", len(distinct), self.disjuncts, _SPLIT)
        selection = any_of(distinct)
        self.check(selection)
        return selection

    def check(self, selection: Selection) -> None:
        """Raise FilterLimitError if a selection is too large; for filters that were built by hand.

        >>> from runnel.language import Filter, Op, Predicate
        >>> Limits(characters=5).check(Filter([Predicate("symbol", Op.EQ, "YHOO")]))
        Traceback (most recent call last):
            ...
        runnel.errors.FilterLimitError: the filter has 10 characters, the limit is 5: shorten it
        """
        predicates = [p for filter_ in selection.disjuncts for p in filter_.predicates]
        _check("disjuncts", len(selection.disjuncts), self.disjuncts, _SPLIT)
        _check("predicates", len(predicates), self.predicates, _SPLIT)
        _check("characters", sum(p.characters for p in predicates), self.characters, "shorten it")


DEFAULT_LIMITS = Limits()


def _check(what: str, count: int, limit: int, advice: str) -> None:
    if count > limit:
        raise FilterLimitError(f"the filter has {count} {what}, the limit is {limit}: {advice}")
