"""Green §V: the overlay layer by layer, each optimisation as the text describes it, and GRAPE at the end."""

from __future__ import annotations

import pytest

from runnel.errors import InputError
from runnel.planning.algorithms.overlay import (
    OverlayOptions,
    build_overlay,
    drop_idle_brokers,
    place_publishers,
)
from runnel.planning.algorithms.packing import Scheme, bin_packing
from runnel.planning.layout import Layout, overloaded_brokers, predict_loads
from runnel.planning.load import Bin, Capacity, Item, Traffic
from runnel.planning.network import Network
from runnel.planning.planner import make_plan
from runnel.planning.profiles import Profile, PublisherProfile

SPAN = 100
TRAFFIC = Traffic(
    tuple(PublisherProfile(f"P{n}", SPAN / 1_000_000, SPAN / 1_000_000, 99) for n in range(4)),
    (SPAN,) * 4,
)
"""One bit is one (millionth of a) message and byte per second, so that rooms are plain numbers."""

NONE = OverlayOptions(drop_forwarders=False, take_over=False, best_fit=False)
ONLY_1 = OverlayOptions(take_over=False, best_fit=False)
ONLY_2 = OverlayOptions(drop_forwarders=False, best_fit=False)
ONLY_3 = OverlayOptions(drop_forwarders=False, take_over=False)


def bits(publisher: int, count: int, first: int = 0) -> Profile:
    return {publisher: ((1 << count) - 1) << first}


def leaves(*loads: tuple[Profile, int]) -> tuple[Scheme, list[Item]]:
    """One broker L0, L1, … per load, with a single item that needs so much."""
    items = [Item(profile, need, (n,)) for n, (profile, need) in enumerate(loads)]
    return Scheme({f"L{n}": (n,) for n in range(len(loads))}, 0), items


def bins(leaf_rooms: list[int], free: dict[str, int]) -> list[Bin]:
    return [
        *(Bin(f"L{n}", room) for n, room in enumerate(leaf_rooms)),
        *(Bin(name, room) for name, room in free.items()),
    ]


def build(
    loads: list[tuple[Profile, int]],
    rooms: list[int],
    free: dict[str, int],
    options: OverlayOptions,
) -> Layout:
    scheme, items = leaves(*loads)
    return build_overlay(scheme, items, bins(rooms, free), TRAFFIC, bin_packing, options)


THREE = [(bits(0, 40), 80), (bits(1, 40), 80), (bits(2, 40), 80)]


def test_a_child_is_one_subscription_with_the_or_of_its_own() -> None:
    """Two items on a leaf share 20 bits: to its parent it needs 40, not 30 + 30."""
    items = [
        Item(bits(0, 30), 30, (0,)),
        Item(bits(0, 30, 10), 30, (1,)),
        Item(bits(1, 50), 50, (2,)),
    ]
    scheme = Scheme({"L0": (0, 1), "L1": (2,)}, 0)
    layout = build_overlay(scheme, items, bins([60, 60], {"R": 90}), TRAFFIC, bin_packing, NONE)
    assert layout.parents == {"R": None, "L0": "R", "L1": "R"}
    assert predict_loads(layout, items, TRAFFIC)["R"].output == 90


SAME = [(bits(0, 40), 80)] * 4
"""Four leaves that want the same: together they are no larger a stream than one of them."""


def test_layers_until_one_broker_is_left_where_the_publishers_are() -> None:
    layout = build(SAME, [80] * 4, {"A": 80, "B": 80, "C": 80}, NONE)
    assert layout.parents == {
        **{"C": None, "A": "C", "B": "C"},
        **{"L0": "A", "L1": "A", "L2": "B", "L3": "B"},
    }
    assert layout.root == "C" and set(layout.publishers.values()) == {"C"}


def test_optimisation_1_drops_a_broker_that_only_forwards() -> None:
    """A forwards to two of the three, so B would have the third alone."""
    free = {"A": 80, "B": 80, "C": 80}
    kept = build(SAME[:3], [80] * 3, free, NONE)
    assert kept.parents == {"C": None, "A": "C", "B": "C", "L0": "A", "L1": "A", "L2": "B"}
    assert _only_forwarding(kept) == ["B"]
    gone = build(SAME[:3], [80] * 3, free, ONLY_1)
    assert gone.parents == {"B": None, "A": "B", "L2": "B", "L0": "A", "L1": "A"}
    assert _only_forwarding(gone) == []


def _only_forwarding(layout: Layout) -> list[str]:
    children: dict[str, int] = {}
    for parent in layout.parents.values():
        if parent is not None:
            children[parent] = children.get(parent, 0) + 1
    return [b for b, count in children.items() if count == 1 and not layout.subscriptions[b]]


def test_optimisation_2_takes_over_the_least_utilised_child_first() -> None:
    """R forwards 40 + 40 + 40 of its 200. It can do L2's work (60 instead of 40), then L1's (80), not L0's."""
    loads = [(bits(0, 40), 160), (bits(1, 40), 80), (bits(2, 40), 60)]
    scheme, items = leaves(*loads)
    all_bins = bins([160] * 3, {"R": 200})
    plain = build_overlay(scheme, items, all_bins, TRAFFIC, bin_packing, NONE)
    assert set(plain.parents) == {"R", "L0", "L1", "L2"}
    layout = build_overlay(scheme, items, all_bins, TRAFFIC, bin_packing, ONLY_2)
    assert layout.parents == {"R": None, "L0": "R"}
    assert layout.subscriptions == {"R": (1, 2), "L0": (0,)}
    assert predict_loads(layout, items, TRAFFIC)["R"].output == 40 + 80 + 60


def test_optimisation_3_takes_the_smallest_broker_that_can_do_the_work() -> None:
    """R forwards 120, so the broker with 130 is enough; and for L1 with 90 the one with 95."""
    loads = [(bits(0, 40), 300), (bits(1, 40), 90), (bits(2, 40), 300)]
    free = {"R": 500, "S": 130, "T": 95, "U": 20}
    layout = build(loads, [300] * 3, free, ONLY_3)
    assert layout.root == "S"
    assert set(layout.parents) == {"S", "L0", "L2", "T"} and layout.subscriptions["T"] == (1,)


def test_where_a_layer_does_not_shrink_brokers_hang_below_each_other() -> None:
    """No free broker forwards two streams of 40; L0 has 80 of output to spare."""
    layout = build(THREE, [160, 80, 80], {"A": 45, "B": 45, "C": 45}, OverlayOptions())
    assert layout.parents == {"L0": None, "L1": "L0", "L2": "L0"}


def test_without_any_free_broker_too() -> None:
    layout = build(THREE, [160, 80, 80], {}, OverlayOptions())
    assert layout.parents == {"L0": None, "L1": "L0", "L2": "L0"}


def test_where_no_output_is_left_publishers_at_their_subscribers_may_save_it() -> None:
    """Nobody can forward anything; but the three want nothing of each other's publishers."""
    scheme, items = leaves(*THREE)
    all_bins = bins([80, 80, 80], {"A": 45, "B": 45, "C": 45})
    named = {one.name: one for one in all_bins}
    layout = build_overlay(scheme, items, all_bins, TRAFFIC, bin_packing)
    assert set(layout.parents) == {"L0", "L1", "L2"}
    assert overloaded_brokers(predict_loads(layout, items, TRAFFIC), named), (
        "with all publishers at the root"
    )
    placed = place_publishers(layout, items, TRAFFIC, named)
    assert overloaded_brokers(predict_loads(placed, items, TRAFFIC), named) == []


def test_where_nothing_helps_an_error_says_so() -> None:
    """Both want all of one publisher, and neither can send it on."""
    want = {0: (1 << SPAN) - 1}
    network = Network(
        tuple(Capacity(name, 150.5) for name in "AB"),
        (PublisherProfile("P", 100.0, 100.0, 99),),
        ("s", "t"),
        (want, want),
        (SPAN,),
    )
    with pytest.raises(InputError, match="no overlay carries the traffic"):
        make_plan(network)


def test_grape_takes_publishers_to_their_subscribers() -> None:
    loads = [(bits(0, 40), 80), (bits(1, 40), 80), (bits(2, 40), 80)]
    scheme, items = leaves(*loads)
    all_bins = bins([80] * 3, {"R": 125})
    layout = build_overlay(scheme, items, all_bins, TRAFFIC, bin_packing, NONE)
    named = {one.name: one for one in all_bins}
    placed = place_publishers(layout, items, TRAFFIC, named)
    assert placed.publishers == {0: "L0", 1: "L1", 2: "L2", 3: "R"}, "nobody wants the fourth"
    before, after = predict_loads(layout, items, TRAFFIC), predict_loads(placed, items, TRAFFIC)
    assert sum(load.input for load in after.values()) < sum(load.input for load in before.values())
    assert after["R"].output == 0


def test_a_publisher_stays_where_its_move_would_overload_a_broker() -> None:
    """All of P0 is wanted at L0 and half of it at L1: L0 is best, but it is full and could not send it on."""
    loads = [(bits(0, 40), 80), (bits(0, 20), 20)]
    scheme, items = leaves(*loads)
    for room, home in ((100, "L0"), (80, "R")):
        all_bins = bins([room, 30], {"R": 125})
        layout = build_overlay(scheme, items, all_bins, TRAFFIC, bin_packing, NONE)
        named = {one.name: one for one in all_bins}
        placed = place_publishers(layout, items, TRAFFIC, named)
        assert placed.publishers[0] == home
        assert overloaded_brokers(predict_loads(placed, items, TRAFFIC), named) == []


def test_a_broker_through_which_nothing_flows_any_more_is_dropped() -> None:
    """The root forwarded to all three until their publishers left it; now the three are joined without it."""
    loads = [(bits(n, 40), 80) for n in range(3)]
    scheme, items = leaves(*loads)
    all_bins = bins([80, 90, 80], {"R": 125})
    named = {one.name: one for one in all_bins}
    traffic = Traffic(TRAFFIC.publishers[:3], TRAFFIC.spans[:3])
    layout = build_overlay(scheme, items, all_bins, traffic, bin_packing, NONE)
    assert drop_idle_brokers(layout, items, traffic, named) == layout, "the publishers are there"
    placed = drop_idle_brokers(
        place_publishers(layout, items, traffic, named), items, traffic, named
    )
    assert placed.parents == {"L1": None, "L0": "L1", "L2": "L1"}
    assert overloaded_brokers(predict_loads(placed, items, traffic), named) == []
