"""The page on placement names every parameter with its default, and every outcome that there is."""

import re
from pathlib import Path

import msgspec

from runnel.modules.placement.config import PlacementConfig

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "placement.md").read_text(encoding="utf-8")


def test_every_parameter_is_there_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\| `([^`]+)` \|", PAGE, re.MULTILINE))
    defaults = msgspec.to_builtins(PlacementConfig())
    del defaults["publishers"]
    assert {key: msgspec.json.decode(text) for key, text in rows.items()} == defaults


def test_every_outcome_is_there() -> None:
    sources = [
        ROOT / "src" / "runnel" / "modules" / "placement" / f"{name}.py"
        for name in ("placing", "grape_module")
    ]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    outcomes = {
        *re.findall(r'return "([a-z ]+)"', text),
        *re.findall(r'(?:why_not|UNANSWERED) = "([a-z ]+)"', text),
    }
    assert len(outcomes) >= 8
    assert [one for one in sorted(outcomes) if f"| `{one}` |" not in PAGE] == []
