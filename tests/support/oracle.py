"""The oracle of matching: a scan over all selections with `matches`, and nothing clever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runnel.language import Selection


class BruteForce:
    """What an engine must answer."""

    def __init__(self) -> None:
        self.selections: dict[int, Selection] = {}

    def add(self, id: int, selection: Selection) -> None:
        self.selections[id] = selection

    def remove(self, id: int) -> None:
        del self.selections[id]

    def match(self, attributes: Mapping[str, Any]) -> list[int]:
        return sorted(id for id, s in self.selections.items() if s.matches(attributes))

    def css(self) -> list[int]:
        """The ids of all selections that no other strictly covers."""
        return sorted(
            id
            for id, one in self.selections.items()
            if not any(
                other.covers(one) and not one.covers(other) for other in self.selections.values()
            )
        )
