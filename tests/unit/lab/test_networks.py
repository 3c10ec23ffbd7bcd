"""Networks drawn: everybody has a place of its own, and the same network gives the same bytes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from matplotlib.image import imread

from runnel.errors import InputError
from runnel.lab.networks import Drawing, draw_networks, positions, shade
from runnel.planning.documents.plan import BrokerLoad

TREE = {"A": None, "B": "A", "C": "A", "D": "B"}
LOADS = {name: BrokerLoad(1.0, 1.0, n, 0.0, n / 2) for n, name in enumerate(TREE)}


@pytest.mark.parametrize("seed", range(5))
def test_nobody_is_drawn_over_somebody_else(seed: int) -> None:
    random = Random(seed)
    names = [f"B{n}" for n in range(40)]
    parents = {name: random.choice(names[:n]) if n else None for n, name in enumerate(names)}
    random.shuffle(names)
    places = positions({name: parents[name] for name in names})
    assert len(set(places.values())) == 40
    for name, parent in parents.items():
        if parent is not None:
            assert places[name][1] == places[parent][1] - 1, "one step below"


def test_a_deep_tree_has_its_places_too() -> None:
    chain: dict[str, str | None] = {"0": None}
    chain |= {str(b): str(a) for a, b in pairwise(range(5_000))}
    assert positions(chain)["4999"] == (0.0, -4999.0)


def test_the_same_network_gives_the_same_bytes(tmp_path: Path) -> None:
    drawings = [Drawing("now", TREE, LOADS), Drawing("then", {"A": None})]
    one, two = (draw_networks("net", drawings, tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
    width = imread(one[1]).shape[1]
    alone = draw_networks("alone", drawings[:1], tmp_path)
    assert imread(alone[1]).shape[1] == width // 2
    for colour in (shade(LOADS["B"].output_ratio), shade(LOADS["D"].output_ratio)):
        told = "#" + "".join(f"{round(255 * part):02x}" for part in colour)
        assert told in one[0].read_text(encoding="utf-8"), "the colour says the load"


def test_nothing_is_not_drawn(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'net' has no brokers to draw"):
        draw_networks("net", [Drawing("none", {})], tmp_path)
