"""Shapes: trees all of them, of the size and degree that they promise."""

from __future__ import annotations

from collections import Counter

import pytest

from runnel.errors import InputError
from runnel.lab.inventory import INVENTORIES, make_inventory
from runnel.lab.shapes import SHAPES, Shape, make_shape
from runnel.sim.resources import Resources


def degrees(shape: Shape) -> Counter[str]:
    return Counter(name for link in shape.links for name in link)


def reached(shape: Shape) -> set[str]:
    """The brokers that the first can get to."""
    found, frontier = {shape.brokers[0]}, [shape.brokers[0]]
    while frontier:
        here = frontier.pop()
        for link in shape.links:
            if here in link:
                other = link[0] if link[1] == here else link[1]
                if other not in found:
                    found.add(other)
                    frontier.append(other)
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_is_a_tree(name: str) -> None:
    shape = make_shape(name)
    assert len(set(shape.brokers)) == len(shape.brokers)
    assert len(shape.links) == len(shape.brokers) - 1
    assert reached(shape) == set(shape.brokers)


@pytest.mark.parametrize(
    ("name", "brokers"),
    [
        *(("balance-local", 5), ("balance-global", 12), ("placement", 63), ("green", 80)),
        *(("mesh-c1", 120), ("mesh-c2", 250), ("mesh-c3", 500), ("mesh-cpl", 21)),
    ],
)
def test_the_papers_sizes(name: str, brokers: int) -> None:
    assert len(make_shape(name).brokers) == brokers


@pytest.mark.parametrize("fan_out", [2, 4])
def test_a_balanced_tree_has_its_fan_out_everywhere_but_in_the_last_rows(fan_out: int) -> None:
    shape = make_shape("placement", {"fan_out": fan_out})
    children = Counter(parent for _, parent in shape.links)
    assert set(children.values()) <= {fan_out, (63 - 1) % fan_out or fan_out}
    assert children["B0"] == fan_out
    depth = {"B0": 0}
    for child, parent in shape.links:
        depth[child] = depth[parent] + 1
    leaves = {depth[name] for name in shape.brokers if name not in children}
    assert max(leaves) - min(leaves) <= 1


def test_fig_11() -> None:
    local = make_shape("balance-local")
    assert local.brokers == ("B0", "B1", "B2", "B3", "B4")
    assert {parent for _, parent in local.links} == {"B0"}
    wide = make_shape("balance-global")
    heads = [link for link in wide.links if link[0].endswith("0")]
    assert heads == [("B20", "B10"), ("B30", "B20"), ("B40", "B30")]
    assert wide.brokers[:3] == ("B10", "B11", "B12")
    edges = {one: other for one, other in wide.links if not one.endswith("0")}
    assert edges == {f"B{n}{edge}": f"B{n}0" for n in range(1, 5) for edge in (1, 2)}


def test_a_random_tree_keeps_its_degree_and_hangs_on_the_seed() -> None:
    shapes = [make_shape("random", {"brokers": 200, "degree_max": 3}, seed) for seed in (1, 1, 2)]
    assert shapes[0] == shapes[1] != shapes[2]
    assert max(degrees(shapes[0]).values()) == 3


def test_a_line_and_a_star() -> None:
    assert max(degrees(make_shape("line", {"brokers": 9})).values()) == 2
    assert degrees(make_shape("star", {"brokers": 9}))["B0"] == 8


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("ring", {}, "shape: there is no 'ring'"),
        ("tree", {"brokers": 0}, "brokers: must be at least 1"),
        ("tree", {"fan": 2}, "fan: there is no such parameter"),
        ("placement", {"fan_out": 3}, "fan_out: must be one of 2, 4"),
        ("mesh-c1", {"brokers": 3}, "brokers: there is no such parameter"),
    ],
)
def test_mistakes_name_the_key(name: str, parameters: dict[str, int], says: str) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        make_shape(name, parameters)


def test_tables_iv_and_vi() -> None:
    local = make_inventory("balance-local", {}, make_shape("balance-local").brokers)
    assert local["B0"] == Resources(5_000 * 1, 50_000, 1_250_000, 32_000_000)
    # Twice the CPU halves the delay; 0.5 Mbps are 62,500 bytes per second.
    assert local["B1"].match_ns_each == 2 * local["B2"].match_ns_each == 100_000
    assert local["B1"].output_bytes_per_second == 62_500
    wide = make_inventory("balance-global", {}, make_shape("balance-global").brokers)
    assert wide["B10"] == local["B0"]
    assert wide["B32"].output_bytes_per_second == 250_000 and wide["B32"].memory_bytes == 64_000_000
    fastest = min(wide, key=lambda name: (wide[name].match_ns_each, name[-1] == "0"))
    assert fastest[-1] == "0" and wide["B32"].match_ns_each < wide["B22"].match_ns_each


def test_capacities_of_green() -> None:
    brokers = make_shape("green").brokers
    same = make_inventory("green", {"message_bytes": 100}, brokers)
    assert {has.output_bytes_per_second for has in same.values()} == {25_200}
    mixed = make_inventory("green", {"scenario": "heterogeneous", "message_bytes": 100}, brokers)
    found = Counter(has.output_bytes_per_second for has in mixed.values())
    assert found == {25_200: 15, 12_600: 25, 6_300: 40}
    assert mixed["B0"].output_bytes_per_second == 25_200  # the strongest are at the top of the tree


def test_an_inventory_needs_its_own_brokers() -> None:
    assert set(INVENTORIES) == {"balance-local", "balance-global", "green"}
    with pytest.raises(InputError, match="has no broker B5"):
        make_inventory("balance-local", {}, ["B0", "B5"])
    with pytest.raises(InputError, match="there is no 'rich'"):
        make_inventory("rich", {}, ["B0"])
