"""The page on planning names every parameter with its default, every algorithm, and every key of a plan."""

import re
from pathlib import Path

import msgspec

from runnel.modules.profiles.config import ProfilesConfig
from runnel.planning.documents.plan import Plan
from runnel.planning.planner import ALGORITHMS

PAGE = (Path(__file__).parents[2] / "docs" / "planning.md").read_text(encoding="utf-8")


def test_every_parameter_is_there_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\| `([^`]+)` \|$", PAGE, re.MULTILINE))
    defaults = msgspec.to_builtins(ProfilesConfig())
    assert {key: msgspec.json.decode(text) for key, text in rows.items()} == defaults


def test_every_algorithm_is_there() -> None:
    names = [name.lower().replace(" ", "-") for name in ALGORITHMS]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_every_key_of_a_plan_is_there() -> None:
    section = PAGE.partition("## The document")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    told = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert told == set(Plan.__struct_fields__)
