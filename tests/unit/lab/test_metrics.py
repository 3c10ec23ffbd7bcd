"""Metrics of traces that were made by hand: every number here can be worked out on paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runnel.errors import InputError
from runnel.lab.metrics import (
    Window,
    count_published,
    delays,
    forwarding,
    hop_counts,
    loads,
    over_time,
    overhead,
    overhead_share,
    percentile,
    spread,
)
from runnel.quantities import SECOND
from support.handmade import HandMade

MINUTE = Window(10 * SECOND, 70 * SECOND)


@pytest.fixture
def hand(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path / "trace")


def test_the_message_rate_is_what_comes_in_over_whole_intervals(hand: HandMade) -> None:
    hand.interval("B1", 10, publications_in=999)  # before the window
    hand.interval("B1", 20, publications_in=30, clients=1)
    hand.interval("B1", 30, publications_in=50, clients=1)
    hand.interval("B0", 30, 20, publications_in=20, publications_out=60)
    hand.interval("B2", 20, publications_in=0)
    hand.interval("B1", 80, 20, publications_in=999)  # half of it after the window
    found = loads(hand.open(), MINUTE)
    assert found.brokers == ("B0", "B1", "B2")
    assert found.message_rate.tolist() == [1.0, 4.0, 0.0]
    assert found.output_rate.tolist() == [3, 0, 0]
    mean, deviation, maximum = spread(found.message_rate)
    assert mean == pytest.approx(5 / 3) and maximum == 4
    assert deviation == pytest.approx(np.sqrt((4 + 49 + 25) / 27))  # (2/3)², (7/3)², (5/3)²


def test_brokers_without_clients_and_traffic_are_not_allocated(hand: HandMade) -> None:
    hand.interval("idle", 20)
    hand.interval("forwards", 20, publications_in=10)
    hand.interval("serves", 20, clients=2)
    found = loads(hand.open(), MINUTE)
    used = found.of(found.allocated)
    assert used.brokers == ("forwards", "serves")
    assert spread(used.message_rate) == (0.5, 0.5, 1.0)
    assert used.clients.tolist() == [0, 2]


def test_utilisations_are_averages_over_time_and_delay_over_publications(hand: HandMade) -> None:
    for end_s, window_s, ratio, count, delay_s in (
        (20, 10, 0.9, 1, 0.001),
        (50, 30, 0.1, 9, 0.002),
    ):
        hand.interval(
            "B0",
            end_s,
            window_s,
            input_ratio=ratio,
            output_ratio=ratio / 2,
            publications_in=count,
            matching_delay_s=delay_s,
            memory_bytes=count * 4000,
        )
    hand.interval("B1", 20)
    found = loads(hand.open(), MINUTE)
    assert found.input_ratio.tolist() == pytest.approx([0.3, 0.0])
    assert found.output_ratio[0] == pytest.approx(0.15)
    assert found.memory_bytes[0] == (4000 * 10 + 36000 * 30) / 40
    assert np.isnan(found.output_ratio[1]) and np.isnan(found.memory_bytes[1])  # nobody did
    assert found.matching_delay_s.tolist() == pytest.approx([0.0019, 0.0])


def test_a_column_over_time(hand: HandMade) -> None:
    hand.interval("B0", 40, input_ratio=0.5)
    hand.interval("B1", 20, input_ratio=0.1)
    hand.interval("B0", 20, input_ratio=0.9)
    found = over_time(hand.open(), MINUTE, "input_ratio")
    plain = {name: (s.tolist(), values.tolist()) for name, (s, values) in found.items()}
    assert plain == {"B0": ([10.0, 30.0], [0.9, 0.5]), "B1": ([10.0], [0.1])}


def test_table_sizes_are_those_at_the_end(hand: HandMade) -> None:
    hand.interval("B0", 30, subscriptions=7, advertisements=3, clients=1)
    hand.interval("B0", 20, subscriptions=9, advertisements=1, clients=5)
    found = loads(hand.open(), MINUTE)
    assert (found.subscriptions[0], found.advertisements[0], found.clients[0]) == (7, 3, 1)


def test_a_window_without_a_whole_interval_is_a_mistake(hand: HandMade) -> None:
    hand.interval("B0", 75, 10)
    with pytest.raises(InputError, match=r"no interval lies within 10\.000 s to 70\.000 s"):
        loads(hand.open(), MINUTE)


def test_overhead_by_class(hand: HandMade) -> None:
    hand.interval("B0", 20, publications_in=5, control_in=2)
    hand.interval("B1", 20, messages_in=[("Publication", 1), ("subscription", 2)])
    counts = overhead(hand.open(), MINUTE)
    assert counts == {"Publication": 6, "control": 2, "subscription": 2}
    assert list(counts) == ["Publication", "control", "subscription"]
    assert overhead_share(counts) == 0.4
    assert overhead_share(counts, ["subscription"]) == 0.2
    assert overhead_share({}) == 0.0


@pytest.mark.parametrize(
    ("percent", "expected"), [(1, 1), (5, 1), (30, 2), (40, 2), (50, 3), (99.9, 5), (100, 5)]
)
def test_percentiles_by_nearest_rank(percent: float, expected: int) -> None:
    assert percentile(np.array([5, 3, 1, 2, 4]), percent) == expected


def test_a_percentile_of_a_thousand_is_not_off_by_one() -> None:
    assert percentile(np.arange(1, 1001), 99.9) == 999


def test_a_percentile_of_nothing_is_a_mistake() -> None:
    with pytest.raises(InputError, match="no values"):
        percentile(np.zeros(0), 50)
    with pytest.raises(InputError, match="above 0 and at most 100"):
        percentile(np.ones(1), 0)


def test_delays_and_hops_are_those_of_the_deliveries_in_the_window(hand: HandMade) -> None:
    hand.deliver(1, 1, published_s=9.0, delay_s=0.5, hops=9)  # before the window
    hand.deliver(2, 1, published_s=9.5, delay_s=0.5, hops=0)  # on its first nanosecond
    hand.deliver(3, 1, published_s=20.0, delay_s=0.25, hops=3)
    hand.deliver(4, 1, published_s=69.9, delay_s=0.1, hops=9)  # on the first after it
    trace = hand.open()
    assert sorted(delays(trace, MINUTE).tolist()) == [SECOND // 4, SECOND // 2]
    assert sorted(hop_counts(trace, MINUTE).tolist()) == [0, 3]


def test_pure_forwarders_and_yield(hand: HandMade) -> None:
    # One publication along B0 – B1 – B2, wanted twice at B2; another wanted at B0 alone.
    for broker, count in (("B0", 2), ("B1", 1), ("B2", 1)):
        hand.interval(broker, 30, publications_in=count)
    hand.publish(1, 20)
    hand.publish(2, 21)
    hand.deliver(1, 11, 20, 0.1, "B2", hops=2)
    hand.deliver(1, 12, 20, 0.1, "B2", hops=2)
    hand.deliver(2, 13, 21, 0.0, "B0")
    trace = hand.open()
    found = forwarding(trace, MINUTE)
    assert (found.handled, found.delivered, found.pure) == (4, 2, 2)
    assert found.useful == 0.5
    assert count_published(trace, MINUTE) == 2


def test_intervals_of_brokers_need_not_end_together(hand: HandMade) -> None:
    """Of each broker that counts which its own intervals are of: a yield is never above 1."""
    for broker, ends in (("B0", (20, 30)), ("B1", (25, 35))):
        for end in ends:
            hand.interval(broker, end, publications_in=10)
    for counter, at_s in enumerate(range(10, 40), 1):
        for broker in ("B0", "B1"):
            hand.deliver(counter, 1, at_s, 0.0, broker)
    trace = hand.open()
    found = forwarding(trace, Window(10 * SECOND, 40 * SECOND))
    assert (found.handled, found.delivered) == (40, 20 + 20)
    found = forwarding(trace, Window(12 * SECOND, 34 * SECOND))
    assert (found.handled, found.delivered) == (10 + 10, 10 + 10)


def test_a_sampled_trace_is_refused(tmp_path: Path) -> None:
    hand = HandMade(tmp_path / "trace", sample=10)
    hand.interval("B0", 20, publications_in=1)
    trace = hand.open()
    assert loads(trace, MINUTE).publications_in.tolist() == [1]  # intervals are never sampled
    with pytest.raises(InputError, match="needs all deliveries, but writer hand kept one in 10"):
        delays(trace, MINUTE)
