"""How close two profiles are: green §IV-C. More is closer.

    INTERSECT  |a ∩ b|                    XOR   1 / |a ⊕ b|, at most 10⁹
    IOS        |a ∩ b|² / (|a| + |b|)     IOU   |a ∩ b|² / |a ∪ b|

All four are computed from the number of bits in common and the sizes, both for ints and for NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from runnel.planning.profiles import Profile, Weights, size

Metric = Literal["INTERSECT", "XOR", "IOS", "IOU"]
XOR_MAX = 1e9
"""The closeness of identical profiles under XOR, for which the formula divides by zero."""


def intersect(both: Any, one: Any, other: Any) -> Any:
    """Bits in common."""
    return both + 0.0


def xor(both: Any, one: Any, other: Any) -> Any:
    """The inverse of the number of bits that only one has."""
    return 1.0 / np.maximum(one + other - 2 * both, 1.0 / XOR_MAX)


def xor_of_two(both: int, one: int, other: int) -> float:
    """The same for two profiles."""
    apart = one + other - 2 * both
    return 1.0 / apart if apart else XOR_MAX


def ios(both: Any, one: Any, other: Any) -> Any:
    """Intersect over sum."""
    return both * both / (one + other)


def iou(both: Any, one: Any, other: Any) -> Any:
    """Intersect over union."""
    return both * both / (one + other - both)


PAIR_METRICS: dict[Metric, Callable[[int, int, int], float]] = {
    "INTERSECT": intersect,
    "XOR": xor_of_two,
    "IOS": ios,
    "IOU": iou,
}
"""(bits in common, |a|, |b|) → closeness; neither profile is empty."""

ARRAY_METRICS: dict[Metric, Callable[[Any, Any, Any], Any]] = {
    "INTERSECT": intersect,
    "XOR": xor,
    "IOS": ios,
    "IOU": iou,
}
"""The same for arrays."""


def count_common_bits(one: Profile, other: Profile, weights: Weights | None = None) -> int:
    """|a ∩ b|."""
    if len(one) > len(other):
        one, other = other, one
    found = 0
    for publisher, bits in one.items():
        there = other.get(publisher)
        if there is not None:
            both = (bits & there).bit_count()
            found += both if weights is None else both * weights[publisher]
    return found


def closeness(metric: Metric, one: Profile, other: Profile) -> float:
    """The closeness of two profiles that are not empty.

    >>> s1, s2 = {0: (1 << 36) - 1}, {0: ((1 << 24) - 1) << 28}
    >>> round(closeness("IOS", s1, s2), 2), closeness("INTERSECT", s1, s2), closeness("XOR", s1, s1)
    (1.07, 8.0, 1000000000.0)
    """
    return PAIR_METRICS[metric](count_common_bits(one, other), size(one), size(other))


def covers(one: Profile, other: Profile) -> bool:
    """Whether one has every bit of the other.

    >>> covers({0: 7, 1: 1}, {0: 5}), covers({0: 5}, {0: 7})
    (True, False)
    """
    for publisher, bits in other.items():  # noqa: SIM110 - a generator takes twice as long
        if one.get(publisher, 0) & bits != bits:
            return False
    return True
