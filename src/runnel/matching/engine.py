"""The matching interface: who wants this event?

An engine keeps selections (filters, or disjunctions of them) under integer ids and answers, for an event,
with the ids of all selections that match. Two engines share this interface and one index design: `Index`
in pure Python, the readable definition, and the compiled engine, its fast twin. Answers are slices and
arrays of ids; nothing is built per match.

An answer refers to the index itself and is valid until the engine changes (adding and removing change it;
matching may, since the index learns from events). `ids()` takes a copy.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from runnel.errors import InputError
from runnel.language import Selection
from runnel.matching.tally import Tally

ID_MAX = 2**63 - 1


@runtime_checkable
class Matches(Protocol):
    """The ids of the selections that want one event, each once, in no promised order."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...

    def ids(self) -> array[int]:
        """All ids as one array('q') of the caller's own."""
        ...

    def distinct(self, table: array[int]) -> list[int]:
        """The distinct non-negative values that `table` (an array('q') by id) has for the ids.

        This is how a broker gets its next hops: the table says to which hop each subscription belongs.
        An id beyond the table, or with a negative value, counts for nothing.
        """
        ...

    def slices(self) -> Sequence[Sequence[int]]:
        """The same ids as the pieces the index keeps them in."""
        ...


class BatchMatches:
    """The answers to a batch: row i is wanted by `ids[offsets[i]:offsets[i + 1]]`."""

    __slots__ = ("ids", "offsets")

    def __init__(self, offsets: array[int], ids: array[int]) -> None:
        self.offsets = offsets
        self.ids = ids

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> array[int]:
        if not 0 <= row < len(self):
            raise IndexError(row)
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @staticmethod
    def rows_of(columns: Mapping[str, Any]) -> int:
        """The number of rows, which must be the same in every column."""
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise InputError(f"the columns of a batch differ in length: {sorted(lengths)}")
        return lengths.pop() if lengths else 0

    @staticmethod
    def as_list(column: Any) -> list[Any]:
        """A column as plain Python values: lists, NumPy and Arrow arrays, any sequence."""
        if isinstance(column, list):
            return column
        convert = getattr(column, "to_pylist", None) or getattr(column, "tolist", None)
        return list(convert() if convert else column)


class Engine(Protocol):
    """What both engines do."""

    name: str

    def __len__(self) -> int: ...

    def __contains__(self, id: object) -> bool: ...

    def add(self, id: int, selection: Selection) -> None:
        """File a selection under an id that is not in use."""
        ...

    def remove(self, id: int) -> None:
        """Forget an id and its selection."""
        ...

    def match(self, attributes: Mapping[str, Any]) -> Matches:
        """Who wants this event?"""
        ...

    def match_batch(self, columns: Mapping[str, Any]) -> BatchMatches:
        """Who wants each row of these columns (attribute name → values, None where absent)?"""
        ...

    def tally(self) -> Tally:
        """A tally of this engine, for callers that need totals only."""
        ...


def distinct(ids: array[int], table: array[int]) -> list[int]:
    """The distinct non-negative values that a table has for some ids; both are array('q').

    >>> distinct(array("q", [0, 2, 9]), array("q", [7, 8, 7, -1]))
    [7]
    """
    size = len(table)
    labels = dict.fromkeys(table[id] for id in ids if id < size)
    return [label for label in labels if label >= 0]


def check_new_id(id: object, engine: Engine) -> None:
    """Refuse an id that cannot be filed, and say why."""
    if not isinstance(id, int) or isinstance(id, bool) or not 0 <= id <= ID_MAX:
        raise InputError(f"a subscription id is an int from 0 to 2**63 - 1, not {id!r}")
    if id in engine:
        raise InputError(f"subscription {id} is in the engine already; remove it first")


def unknown_id(id: object) -> InputError:
    """The error for an unknown id."""
    return InputError(f"subscription {id!r} is not in the engine")
