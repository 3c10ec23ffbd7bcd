"""Ids are unique as long as prefixes are."""

import pytest

from runnel.broker.ids import COUNTER_BITS, PREFIX_MAX, IdSource
from runnel.errors import BugError


def test_a_source_that_is_used_up_draws_another_prefix() -> None:
    source = IdSource(3, lambda: 9)
    ids = [source.next() for _ in range((1 << COUNTER_BITS) + 5)]
    assert len(set(ids)) == len(ids)
    assert {id >> COUNTER_BITS for id in ids} == {3, 9}


def test_without_another_prefix_it_says_so() -> None:
    source = IdSource(PREFIX_MAX)
    for _ in range((1 << COUNTER_BITS) - 1):
        source.next()
    with pytest.raises(BugError, match="another prefix"):
        source.next()
    with pytest.raises(BugError, match="lies between"):
        IdSource(0)
