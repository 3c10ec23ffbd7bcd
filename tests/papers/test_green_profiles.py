"""Green §III and §VI-B6: bit vectors that shift, Fig. 1, load estimates, safety scaling."""

from __future__ import annotations

import pytest

from runnel.planning.algorithms.packing import bin_packing
from runnel.planning.load import MICRO, Capacity, Delay, Item, Scaling, Traffic, scaling_for
from runnel.planning.network import Network
from runnel.planning.profiles import (
    BITS,
    BitVector,
    PublisherProfile,
    SubscriptionProfile,
    synchronise,
    union,
)


def test_a_vector_shifts_just_enough_for_the_printed_example() -> None:
    vector = BitVector(first=100, length=10)
    for id in (100, 105, 109):
        vector.record(id)
    vector.record(119)
    assert vector.first == 110, "shifted by 10"
    assert vector.bits == 1 << 9, "bit 9 is set, everything older is gone"


def test_a_shift_keeps_what_is_still_inside() -> None:
    vector = BitVector(first=100, length=10)
    vector.record(109)
    vector.record(112)
    assert (vector.first, vector.bits) == (103, 1 << 6 | 1 << 9)
    vector.record(102)
    assert (vector.first, vector.bits) == (103, 1 << 6 | 1 << 9), "too old to be recorded"


def test_the_default_length_is_the_papers() -> None:
    profile = SubscriptionProfile("S")
    profile.record("Adv", 7)
    assert profile.vectors["Adv"].length == BITS == 1_280


def test_fig_1_two_subscriptions_become_one() -> None:
    """S1 as printed: 75 to 77 from Adv1, 144 to 148 from Adv2. S2 is our own: the figure is not in the text."""
    s1, s2 = SubscriptionProfile("S1"), SubscriptionProfile("S2")
    for id in (75, 76, 77):
        s1.record("Adv1", id)
    for id in range(144, 149):
        s1.record("Adv2", id)
    for id in (76, 79):
        s2.record("Adv1", id)
    publishers = [PublisherProfile("Adv1", 1, 100, 79), PublisherProfile("Adv2", 1, 100, 148)]
    windows = synchronise(publishers, [s1, s2])
    assert windows.spans == (5, 5), "75 to 79 and 144 to 148"
    one, other = windows.profiles
    assert one == {0: 0b00111, 1: 0b11111}
    assert other == {0: 0b10010}, "the same publication is the same place"
    assert union([one, other]) == {0: 0b10111, 1: 0b11111}


def test_a_window_is_no_longer_than_the_vectors() -> None:
    profile = SubscriptionProfile("S")
    for id in range(1, 31):
        profile.record("P", id, length=10)
    windows = synchronise([PublisherProfile("P", 1, 1, 32)], [profile], length=10)
    assert windows.spans == (10,)
    assert windows.profiles == ({0: 0b0011111111},), "23 to 32; 31 and 32 were not wanted"


def test_the_load_estimate_of_the_text() -> None:
    traffic = Traffic((PublisherProfile("P", 50.0, 50_000.0, 99),), (100,))
    ten_of_hundred = {0: sum(1 << place for place in range(0, 100, 10))}
    assert traffic.rate(ten_of_hundred) == 5 * MICRO
    assert traffic.need(ten_of_hundred) == 5_000 * MICRO


def test_a_cluster_sends_the_sum_and_takes_in_the_or() -> None:
    traffic = Traffic((PublisherProfile("P", 10.0, 1_000.0, 9),), (10,))
    profiles = [{0: 0b0000011111}, {0: 0b0000011111}, {0: 0b0000111000}]
    items = [Item(one, traffic.need(one), (n,)) for n, one in enumerate(profiles)]
    brokers = [Capacity("B", 1_301.0), Capacity("C", 1_300.0)]
    network = Network(tuple(brokers), traffic.publishers, ("a", "b", "c"), tuple(profiles), (10,))
    scheme = bin_packing(items, network.bins(), traffic)
    assert scheme.placed == {"B": (0, 1, 2)}, "500 + 500 + 300, and something must be left over"
    assert scheme.rate == 6 * MICRO, "six of ten publications, once"
    with pytest.raises(ValueError, match="do not fit"):
        bin_packing(items, network.bins()[1:], traffic)


def test_the_matching_rate_is_the_inverse_of_the_delay() -> None:
    delay = Delay(base_ns=1_000_000, each_ns=10_000)
    assert delay.rate(0) == 1_000 * MICRO
    assert delay.rate(100) == 500 * MICRO
    assert delay.most_subscriptions(500 * MICRO) == 100
    assert delay.most_subscriptions(1_001 * MICRO) == -1, "not even with none"


@pytest.mark.parametrize(
    ("length", "percent", "reckoned"),
    [
        *[(1_280, 1, 1), (1_280, 30, 30)],
        *[(1_024, 5, 20), (1_024, 30, 37.5), (1_024, 40, 40), (1_024, 90, 90)],
        *[(512, 5, 35), (128, 24, 35), (512, 30, 43.5), (512, 40, 40)],
    ],
)
def test_safety_scaling_follows_the_length(length: int, percent: int, reckoned: float) -> None:
    assert scaling_for(length).bits(percent, 100) == pytest.approx(reckoned)


def test_nothing_is_scaled_beyond_the_window_or_out_of_nothing() -> None:
    assert Scaling(0.2, ((1.0, 0.5),)).bits(90, 100) == 100
    assert scaling_for(128).bits(0, 100) == 0
