"""The file of brokers and constraints: its values are used for plans, and errors name its mistakes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runnel.cli.main import main
from runnel.errors import InputError
from runnel.net.addresses import parse_address
from runnel.pipeline.inventory import (
    Inventory,
    ObservedBroker,
    inventory_text,
    make_inventory,
    read_inventory,
)
from runnel.planning.load import Capacity, Delay

FILE = """
[plan]
algorithm = "Bin-Packing"
seed = 7

[constraints]
head_room_percent = 20
max_moves = 5
excluded = ["W2"]
pinned = { alice = "B1" }

[defaults]
output_bytes_per_s = 1000

[brokers.B1]
address = "10.0.0.1:7001"
output_bytes_per_s = "unlimited"
matching_base_us = 20.5

[brokers.B2]
output_bytes_per_s = "measured"

[brokers."W1..W2"]
address = "{name}.example:70{number}"

[brokers.W3]
address = "elsewhere:7001"
"""
TRACED = [
    ObservedBroker("B1", "127.0.0.1:1", 99.0, 5_000, 100),
    ObservedBroker("B2", "127.0.0.1:2", 77.0),
    ObservedBroker("W2", "127.0.0.1:3", 55.0),
]


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    path = tmp_path / "brokers.toml"
    path.write_text(FILE, encoding="utf-8")
    return read_inventory(path)


def test_what_the_file_says_wins_over_what_was_traced(inventory: Inventory) -> None:
    fleet = inventory.make_fleet(TRACED)
    assert fleet.capacities == (
        Capacity("B1", None, Delay(20_500, 100)),
        Capacity("B2", 77.0),
        Capacity("W1", 1_000.0),
        Capacity("W2", 1_000.0),
        Capacity("W3", 1_000.0),
    )
    assert fleet.unknown == 0, "B1 was said to be unlimited"
    assert fleet.addresses == {
        "B1": "10.0.0.1:7001",
        "B2": "127.0.0.1:2",
        "W1": "W1.example:701",
        "W2": "W2.example:702",
        "W3": "elsewhere:7001",
    }
    assert (inventory.options.algorithm, inventory.options.seed) == ("BIN PACKING", 7)
    constraints = inventory.constraints
    assert (constraints.headroom_percent, constraints.max_moves) == (20.0, 5)
    assert (constraints.excluded, constraints.pinned) == (("W2",), {"alice": "B1"})


def test_without_brokers_they_are_those_that_were_traced() -> None:
    fleet = Inventory().make_fleet(TRACED)
    assert [one.output for one in fleet.capacities] == [99.0, 77.0, 55.0]
    assert fleet.capacities[0].delay == Delay(5_000, 100)
    assert Inventory().make_fleet([ObservedBroker("B1")]).unknown == 1
    assert Inventory().unlisted_brokers(TRACED) == []
    with pytest.raises(InputError, match="there is no broker"):
        Inventory().make_fleet([])


def test_brokers_that_the_file_does_not_have_are_named() -> None:
    inventory = make_inventory({"brokers": {"B1": {}}, "constraints": {"excluded": ["B2"]}})
    assert inventory.unlisted_brokers(TRACED) == ["W2"]
    assert [one.name for one in inventory.make_fleet(TRACED).capacities] == ["B1", "B2"]


def test_a_broker_that_nobody_can_find_is_a_mistake() -> None:
    new = make_inventory({"brokers": {"B1": {}, "B9": {}}}, "brokers.toml")
    with pytest.raises(InputError, match=r"brokers\.toml: brokers\.B9\.address: is missing"):
        new.make_fleet(TRACED)
    # Of a simulated network nobody says where brokers listen, and nobody need.
    assert new.make_fleet([ObservedBroker("B1")]).addresses == {}


def test_who_is_excluded_must_be_there() -> None:
    gone = make_inventory({"constraints": {"excluded": ["B9"]}}, "brokers.toml")
    with pytest.raises(InputError, match=r"brokers\.toml: B9 is excluded, but there is no such"):
        gone.make_fleet(TRACED)
    there = gone.override(excluded=["B1"])
    assert [
        one.name for one in there.make_fleet([*TRACED, ObservedBroker("B9", "h:9")]).capacities
    ][2] == "B9"


def test_two_brokers_at_one_address_are_a_mistake_also_if_a_trace_has_one_of_them() -> None:
    new = make_inventory({"brokers": {"B1": {}, "B9": {"address": "127.0.0.1:1"}}}, "brokers.toml")
    with pytest.raises(
        InputError, match=r"brokers\.toml: brokers\.B9\.address: .* where B1 listens"
    ):
        new.make_fleet(TRACED)


@pytest.mark.parametrize(
    "text", ["10.0.0.1:7001", "a-b.example:1", "[::1]:65535", "runnel://h:7001"]
)
def test_an_address_is_one_for_whoever_dials_it(text: str) -> None:
    read = make_inventory({"brokers": {"B1": {"address": text}}}).brokers["B1"].address
    assert read == text.removeprefix("runnel://") == parse_address(text).short


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"broker": {}}, r"broker: there is no such key; did you mean brokers\?"),
        ({"brokers": {"B1": {"adress": "x"}}}, r"brokers\.B1\.adress: .* did you mean address\?"),
        ({"brokers": {"B1": {"output_bytes_per_s": "lots"}}}, r'must be a number or "measured"'),
        ({"brokers": {"B1": {"output_bytes_per_s": -1}}}, r"brokers\.B1\.output_bytes_per_s: must"),
        ({"brokers": {"B1": {"output_bytes_per_s": 0}}}, "nothing can be sent with 0"),
        ({"brokers": {"B1": {"matching_base_us": "unlimited"}}}, r'a number or "measured", got'),
        ({"brokers": {"B5..B1": {}}}, "write B1..B20"),
        ({"brokers": {"B1..C5": {}}}, "write B1..B20"),
        ({"brokers": {"B1..B3": {"address": "x:1"}}}, "is the same for all of them"),
        ({"brokers": {"B1..B3": {}, "B2..B4": {}}}, r"brokers\.B2\.\.B4: B2 is there twice"),
        ({"brokers": {"B1..B3": {}, "B2": {}}}, r"brokers\.B2: B2 is there twice: name it once"),
        ({"brokers": {"B2": {}, "B1..B3": {}}}, r"brokers\.B1\.\.B3: B2 is there twice"),
        ({"brokers": {"B1": {"address": "nonsense1"}}}, r"brokers\.B1\.address: must be HOST:PORT"),
        ({"brokers": {"B1": {"address": ""}}}, r"brokers\.B1\.address: must be HOST:PORT"),
        ({"brokers": {"B1": {"address": "a b:7001"}}}, r"brokers\.B1\.address: must be HOST:PORT"),
        ({"brokers": {"B1": {"address": "h:70000"}}}, r"brokers\.B1\.address: a port is 1–65535"),
        ({"brokers": {"B1": {"address": "h:0"}}}, r"brokers\.B1\.address: a port is 1–65535"),
        ({"brokers": {"B1..B3": {"address": "h{number}"}}}, r"brokers\.B1\.address: must be HOST"),
        (
            {"brokers": {"B1": {"address": "h:1"}, "B2": {"address": "H:1"}}},
            r"brokers\.B2\.address: H:1 is where B1 listens: each needs one of its own",
        ),
        ({"constraints": {"excluded": "B3"}}, "constraints.excluded: must be a list, .*got 'B3'"),
        (
            {"constraints": {"excluded": [1]}},
            "excluded: must be a list, each item a text in quotes",
        ),
        ({"defaults": {"address": "x:1"}}, "defaults.address: give it to each broker"),
        ({"constraints": {"head_room_percent": 100}}, "constraints.head_room_percent: must be at"),
        ({"constraints": {"max_moves": -1}}, "constraints.max_moves: must be at least 0"),
        ({"constraints": {"pinned": {"a": 1}}}, "constraints.pinned.a: must be a text"),
        (
            {"brokers": {"B1": {}}, "constraints": {"pinned": {"a": "B2"}}},
            r"constraints\.pinned\.a: there is no \[brokers\.B2\]",
        ),
        ({"plan": {"algorithm": "best"}}, "plan.algorithm: there is no 'best'; there are fbf"),
        (
            {"constraints": {"excluded": ["B1"], "pinned": {"a": "B1"}}},
            "a is pinned to B1, which is excluded",
        ),
    ],
)
def test_a_mistake_is_named_with_its_key(tables: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_inventory(tables)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "brokers.toml"
    with pytest.raises(InputError, match=r"cannot be opened: No such file.*runnel pipeline init"):
        read_inventory(path)
    path.write_text("[brokers\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"brokers\.toml: this is not TOML: .*line 1"):
        read_inventory(path)
    path.write_text("[brokers.B1]\nport = 1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"brokers\.toml: brokers\.B1\.port: there is no such key"):
        read_inventory(path)


def test_what_is_written_to_begin_with_says_what_was_traced() -> None:
    names = [*TRACED, ObservedBroker('odd "name"', "[::1]:7001", 12.5, 1_500, 20)]
    text = inventory_text("brokers.toml", names)
    read = make_inventory(tomllib.loads(text))
    assert read.make_fleet(names) == Inventory().make_fleet(names)
    # Whoever takes the signs off the lines says the same as was measured.
    said = "\n".join(
        line.removeprefix("# ")
        if line.startswith("# ") and " = " in line and "{" not in line
        else line
        for line in text.partition("# The brokers.")[2].splitlines()
        if "not measured" not in line
    )
    again = make_inventory(tomllib.loads(said.partition("\n\n")[2]))
    assert again.make_fleet(()).capacities[0].output == 99.0
    assert again.brokers['odd "name"'].matching_base_us == 1.5
    assert "was not measured" in text


def test_every_key_is_in_the_file_to_begin_with() -> None:
    text = inventory_text("x.toml")
    keys = (
        *("algorithm", "seed", "head_room_percent", "max_moves", "excluded", "pinned"),
        *("address", "output_bytes_per_s", "matching_base_us", "matching_each_us"),
    )
    assert [key for key in keys if f"{key} = " not in text] == []
    assert make_inventory(tomllib.loads(text)) == make_inventory(
        {"defaults": tomllib.loads(text)["defaults"]}
    )


def test_init_writes_and_does_not_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    told = CliRunner().invoke(main, ["pipeline", "init", str(path)])
    assert told.exit_code == 0 and f"written to {path}" in told.output
    before = path.read_text(encoding="utf-8")
    told = CliRunner().invoke(main, ["pipeline", "init", str(path)])
    assert told.exit_code == 2 and "say --force" in told.output
    path.write_text("", encoding="utf-8")
    assert CliRunner().invoke(main, ["pipeline", "init", str(path), "--force"]).exit_code == 0
    assert path.read_text(encoding="utf-8") == before
