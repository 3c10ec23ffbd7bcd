"""Loss, duplicates and strays, in traces made by hand in which each is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from runnel.lab.expectation import check_deliveries, count_differences
from runnel.lab.metrics import Window
from runnel.quantities import SECOND
from support.handmade import HandMade

WINDOW = Window(10 * SECOND, 70 * SECOND)


@pytest.fixture
def hand(tmp_path: Path) -> HandMade:
    """Two subscriptions that stand from the beginning, and two publications."""
    made = HandMade(tmp_path / "trace")
    made.subscribe(1, "a > 5", at_s=1)
    made.subscribe(2, "a > 7", at_s=1)
    made.publish(1, 20, a=6)
    made.publish(2, 69, a=8)
    return made


def deliver_all(hand: HandMade) -> None:
    hand.deliver(1, 1, 20, 0.1)
    hand.deliver(2, 1, 69, 0.1)
    hand.deliver(2, 2, 69, 3.0)  # after the window, but the publication was within


def test_everything_came_once(hand: HandMade) -> None:
    deliver_all(hand)
    found = check_deliveries(hand.open(), WINDOW)
    assert found.is_exact
    assert (found.publications, found.owed, found.delivered) == (2, 3, 3)


def test_what_is_missing_is_lost(hand: HandMade) -> None:
    hand.deliver(1, 1, 20, 0.1)
    hand.deliver(2, 2, 69, 0.1)
    found = check_deliveries(hand.open(), WINDOW)
    assert (found.lost, found.duplicates, found.stray) == (1, 0, 0)
    assert not found.is_exact


def test_what_came_again_is_a_duplicate(hand: HandMade) -> None:
    deliver_all(hand)
    hand.deliver(1, 1, 20, 0.2, broker="B3")
    found = check_deliveries(hand.open(), WINDOW)
    assert (found.lost, found.duplicates, found.stray) == (0, 1, 0)


@pytest.mark.parametrize("subscription", [2, 99])
def test_what_does_not_match_or_has_no_subscription_is_stray(
    hand: HandMade, subscription: int
) -> None:
    deliver_all(hand)
    hand.deliver(1, subscription, 20, 0.1)
    found = check_deliveries(hand.open(), WINDOW)
    assert (found.lost, found.duplicates, found.stray) == (0, 0, 1)


@pytest.mark.parametrize(
    ("made_s", "withdrawn_s", "owed"),
    [(15, None, 1), (15.1, None, 0), (1, 25, 1), (1, 24.9, 0), (1, 14, 0)],
)
def test_who_comes_or_goes_is_owed_nothing_within_the_grace(
    hand: HandMade, made_s: float, withdrawn_s: float | None, owed: int
) -> None:
    deliver_all(hand)
    hand.subscribe(3, "a = 6", made_s)
    if withdrawn_s is not None:
        hand.subscribe(3, "a = 6", withdrawn_s, event="withdrawn")
    found = check_deliveries(hand.open(), WINDOW)
    assert (found.owed, found.lost, found.stray) == (3 + owed, owed, 0)


@pytest.mark.parametrize(("made_s", "stray"), [(24.9, 0), (25.1, 1)])
def test_who_just_came_may_get_it(hand: HandMade, made_s: float, stray: int) -> None:
    deliver_all(hand)
    hand.subscribe(3, "a = 6", made_s)
    hand.deliver(1, 3, 20, 6.0)
    assert check_deliveries(hand.open(), WINDOW).stray == stray


def test_a_subscription_that_moves_stands_all_the_while(hand: HandMade) -> None:
    hand.subscribe(1, "a > 5", 21, broker="B1")
    hand.subscribe(1, "a > 5", 21, event="withdrawn")
    hand.deliver(2, 1, 69, 0.1, broker="B1")
    hand.deliver(2, 2, 69, 0.1)
    found = check_deliveries(hand.open(), WINDOW)
    assert (found.owed, found.lost) == (3, 1)  # the publication one second before the move


def test_a_subscription_that_comes_back_was_away(hand: HandMade) -> None:
    deliver_all(hand)
    hand.subscribe(3, "a > 0", 1)
    hand.subscribe(3, "a > 0", 12, event="withdrawn")
    hand.subscribe(3, "a > 0", 40)
    hand.deliver(2, 3, 69, 0.1)
    found = check_deliveries(hand.open(), WINDOW)
    assert found.is_exact and found.owed == 4


def test_runs_are_compared_by_who_got_what(hand: HandMade, tmp_path: Path) -> None:
    deliver_all(hand)
    # The same ten seconds later, by other ways, with one delivery changed.
    other = HandMade(tmp_path / "other")
    other.publish(1, 30, broker="B5", a=6)
    other.publish(2, 79, broker="B5", a=8)
    other.deliver(1, 1, 30, 2.0, broker="B7", hops=4)
    other.deliver(2, 1, 79, 2.0, broker="B7", hops=4)
    other.deliver(2, 3, 79, 2.0, broker="B7", hops=4)
    one = (hand.open(), WINDOW)
    later = Window(20 * SECOND, 80 * SECOND)
    two = (other.open(), later)
    assert count_differences(one, one) == count_differences(two, two) == 0
    assert count_differences(one, two) == 2  # c2 got it there, c3 got it here
    assert count_differences(one, (two[0], later._replace(end_ns=79 * SECOND))) == 2
