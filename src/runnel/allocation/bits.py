"""Bit vectors in both shapes, and the one place that converts: Python ints here, packed NumPy matrices there.

An int is best for one vector (`&`, `|` and `bit_count` of 1,280 bits take about 100 ns), a matrix of 64-bit words for
one vector against many. The first publication of a window is the least significant bit, in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]
WORD = 64


def words_for(length: int) -> int:
    """How many words a vector of so many bits takes.

    >>> words_for(1_280), words_for(65)
    (20, 2)
    """
    return max(1, -(-length // WORD))


def packed(vectors: Sequence[int], length: int) -> Words:
    """A matrix with one row per vector.

    >>> packed([5, 1 << 64], 65).tolist()
    [[5, 0], [0, 1]]
    """
    words = words_for(length)
    data = b"".join(vector.to_bytes(words * 8, "little") for vector in vectors)
    return np.frombuffer(data, dtype="<u8").reshape(len(vectors), words).astype(np.uint64)


def unpacked(matrix: Words) -> list[int]:
    """The rows of a matrix as ints.

    >>> unpacked(packed([5, 1 << 64], 65)) == [5, 1 << 64]
    True
    """
    rows = np.ascontiguousarray(matrix, dtype="<u8")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def from_places(places: Iterable[int]) -> int:
    """The vector in which the bits at these places are set.

    >>> bin(from_places([0, 3]))
    '0b1001'
    """
    marks = list(places)
    flags = np.zeros(max(marks, default=0) + 1, dtype=bool)
    flags[marks] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _count_by_table(matrix: Words) -> npt.NDArray[np.uint8]:
    """The bits set in every word, for a NumPy before 2.0."""
    octets = np.ascontiguousarray(matrix)[..., None].view(np.uint8)
    return np.asarray(_BITS_OF_OCTET[octets].sum(axis=-1, dtype=np.uint8))


_BITS_OF_OCTET = np.array([octet.bit_count() for octet in range(256)], dtype=np.uint8)
_count: Callable[[Words], Any] = getattr(np, "bitwise_count", _count_by_table)


def popcounts(matrix: Words) -> Counts:
    """How many bits are set in each row.

    >>> popcounts(packed([0, 7, 1 << 64], 65)).tolist()
    [0, 3, 1]
    """
    return np.asarray(_count(matrix).sum(axis=-1, dtype=np.int64))


def common(matrix: Words, row: Words) -> Counts:
    """How many bits each row has in common with one; what XOR and OR count follows from it.

    >>> common(packed([0b011, 0b110], 3), packed([0b111], 3)[0]).tolist()
    [2, 2]
    """
    return popcounts(matrix & row)


def common_columns(columns: Words, row: Words) -> npt.NDArray[np.uint16] | npt.NDArray[np.uint32]:
    """The same as `common` for a matrix with a column per vector, which takes a third of the time.

    >>> common_columns(packed([0b011, 0b110], 3).T, packed([0b111], 3)[0]).tolist()
    [2, 2]
    """
    total = np.uint16 if len(row) * WORD < 1 << 16 else np.uint32
    return np.asarray(_count(columns & row[:, None]).sum(axis=0, dtype=total))
