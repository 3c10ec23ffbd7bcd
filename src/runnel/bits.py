"""Bit vectors as Python ints and as NumPy matrices of words, and the conversion between both.

An int is best for single vectors (`&`, `|` and `bit_count` of 1,280 bits take about 100 ns), a matrix of 64-bit words
for comparing one vector with many. In both, the first publication of a window is the least significant bit.
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


def pack(vectors: Sequence[int], length: int) -> Words:
    """A matrix with one row per vector.

    >>> pack([5, 1 << 64], 65).tolist()
    [[5, 0], [0, 1]]
    """
    words = words_for(length)
    data = b"".join(vector.to_bytes(words * 8, "little") for vector in vectors)
    return np.frombuffer(data, dtype="<u8").reshape(len(vectors), words).astype(np.uint64)


def unpack(matrix: Words) -> list[int]:
    """The rows of a matrix as ints.

    >>> unpack(pack([5, 1 << 64], 65)) == [5, 1 << 64]
    True
    """
    rows = np.ascontiguousarray(matrix, dtype="<u8")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def vector_of_places(places: Iterable[int]) -> int:
    """The vector in which the bits at these places are set.

    >>> bin(vector_of_places([0, 3]))
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


def count_bits(matrix: Words) -> Counts:
    """How many bits are set in each row.

    >>> count_bits(pack([0, 7, 1 << 64], 65)).tolist()
    [0, 3, 1]
    """
    return np.asarray(_count(matrix).sum(axis=-1, dtype=np.int64))


def count_common_bits(matrix: Words, row: Words) -> Counts:
    """How many bits each row has in common with one row; the counts of XOR and OR follow from it.

    >>> count_common_bits(pack([0b011, 0b110], 3), pack([0b111], 3)[0]).tolist()
    [2, 2]
    """
    return count_bits(matrix & row)
