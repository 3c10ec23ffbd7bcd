"""POP's tables and decisions: placement §III, as functions and small tables that know no messages.

Phase 1 traces some publications to learn how many subscribers lie behind each neighbour: the publisher profile table.
Phase 2 passes a request from broker to broker, always to the neighbour that has more subscribers behind it than all
other directions together. A broker without such a neighbour is the *closest*.

Decision, where the paper is silent: a damping (its "threshold parameter" of future work) exists and is 0: a neighbour
must have more than everything else plus the damping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NEW_WEIGHT = 0.25
"""The weight of the newest value in the running average."""

LOCAL = ""
"""The row of a table for subscribers of the broker itself."""


@dataclass(slots=True)
class ProfileTable:
    """The PPTable of one publisher at one broker: subscribers behind each neighbour, on average.

    >>> table = ProfileTable()
    >>> table.add({"B5": 16, LOCAL: 1}); table.add({"B5": 8, "B2": 4})
    >>> table.average("B5"), table.average("B2"), table.average(LOCAL), table.traced
    (14.0, 1.0, 0.75, 2)
    """

    rows: dict[str, float] = field(default_factory=dict)
    traced: int = 0

    def add(self, counts: Mapping[str, int], new_weight: float = NEW_WEIGHT) -> None:
        """One traced publication: how many subscribers got it behind each neighbour, and here."""
        if not self.traced:
            self.rows = {name: float(count) for name, count in counts.items()}
        else:
            for name in {**self.rows, **counts}:
                old = self.rows.get(name, 0.0)
                self.rows[name] = new_weight * counts.get(name, 0) + (1 - new_weight) * old
        self.traced += 1

    def average(self, name: str) -> float:
        """The row of a neighbour, or of the broker itself."""
        return self.rows.get(name, 0.0)


@dataclass(frozen=True, slots=True)
class Step:
    """What a broker does with a relocation request: pass it on to `closest`; None: it is the closest itself."""

    closest: str | None
    behind: float  # what the next broker has behind the link that the request comes over


def next_step(
    table: ProfileTable, upstream: str | None, upstream_count: float, damping: float = 0.0
) -> Step:
    """Phase 2 at one broker. `upstream_count` is what the request says lies behind the link it came over.

    The example of the paper, at B1: B5 has 15, everything else 6 + 3 + 1.

    >>> b1 = ProfileTable({"B2": 6, "B4": 3, "B5": 15, LOCAL: 1}, traced=1)
    >>> next_step(b1, None, 0)
    Step(closest='B5', behind=10)
    """
    counts = {name: count for name, count in table.rows.items() if name not in (upstream, LOCAL)}
    if upstream is not None:
        counts[upstream] = upstream_count
    total = sum(counts.values()) + table.average(LOCAL)
    for name, count in counts.items():
        # At most one has more than all the others together; never back to where it came from.
        if name != upstream and count > total - count + damping:
            return Step(name, total - count)
    return Step(None, total)


def trace_probability(tagged: int, most: int) -> float:
    """P_trace = 1 − T / N: how likely the next publication of a window is traced.

    >>> trace_probability(0, 50), trace_probability(25, 50), trace_probability(50, 50)
    (1.0, 0.5, 0.0)
    """
    return max(0.0, 1.0 - tagged / most)
