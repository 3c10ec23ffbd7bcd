"""Why an event does or does not satisfy a filter: the predicates that fail, each with what the event has instead."""

from __future__ import annotations

from typing import Any

from runnel.language import Attributes, Selection, to_sql
from runnel.language.filters import Filter
from runnel.language.predicates import Predicate


def failures(selection: Selection, event: Attributes) -> list[list[dict[str, Any]]]:
    """For each alternative of a selection, the predicates that the event fails; empty if it satisfies one.

    >>> from runnel.language import parse
    >>> failures(parse("symbol = 'YHOO' AND volume > 5"), {"symbol": "YHOO", "volume": 3})
    [[{'predicate': 'volume > 5', 'attribute': 'volume', 'present': True, 'value': 3}]]
    >>> failures(parse("volume > 5"), {"volume": 6})
    []
    """
    if selection.matches(event):
        return []
    return [
        [
            _failure(predicate, event)
            for predicate in disjunct.predicates
            if _fails(predicate, event)
        ]
        for disjunct in selection.disjuncts
    ]


def describe(failure: dict[str, Any]) -> str:
    """A failure as a person would say it.

    >>> describe({"predicate": "volume > 5", "attribute": "volume", "present": True, "value": 3})
    'volume > 5 fails: volume is 3'
    >>> describe({"predicate": "volume > 5", "attribute": "volume", "present": False, "value": None})
    'volume > 5 fails: the event has no volume'
    """
    attribute = failure["attribute"]
    has = f"{attribute} is {failure['value']!r}"
    return f"{failure['predicate']} fails: " + (
        has if failure["present"] else f"the event has no {attribute}"
    )


def _fails(predicate: Predicate, event: Attributes) -> bool:
    return not predicate.holds(event.get(predicate.attribute))


def _failure(predicate: Predicate, event: Attributes) -> dict[str, Any]:
    value = event.get(predicate.attribute)
    return {
        "predicate": to_sql(Filter([predicate])),
        "attribute": predicate.attribute,
        "present": value is not None,
        "value": value,
    }
