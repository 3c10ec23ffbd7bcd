"""Shares are dealt exactly."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from runnel.workload.draw import apportion, deal, zipf_shares


@given(st.integers(0, 5_000), st.lists(st.floats(0.001, 1_000), min_size=1, max_size=40))
def test_the_parts_make_the_whole_and_none_is_off_by_one(total: int, weights: list[float]) -> None:
    parts = apportion(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - total * weight / sum(weights)) < 1 + 1e-6


def test_dealing_is_exact_and_in_no_order() -> None:
    deck = deal(["x", "y"], 100, [40, 60], Random(1))
    assert Counter(deck) == {"x": 40, "y": 60}
    assert deck != sorted(deck)


def test_a_larger_exponent_favours_the_first_more() -> None:
    flat, steep = zipf_shares(10, 0.0), zipf_shares(10, 2.0)
    assert flat == [0.1] * 10
    assert abs(sum(steep) - 1) < 1e-12 and steep[0] > 0.6
