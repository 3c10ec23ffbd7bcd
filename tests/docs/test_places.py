"""Every place in the code that a document or a docstring names exists, so that whoever looks for it finds it."""

import re
from pathlib import Path

import pytest

from docs.places import PLACE, ROOT, SOURCES, what_is_wrong

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FILES = sorted(path for path in SOURCES.rglob("*.py") if ".py::" in path.read_text("utf-8"))
INDEX = (
    (ROOT / "docs" / "architecture.md")
    .read_text(encoding="utf-8")
    .partition("## Where to find it, where to add it")[2]
    .partition("\n## ")[0]
)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_places_that_a_page_names_exist(page: Path) -> None:
    places = PLACE.findall(page.read_text(encoding="utf-8"))
    assert [wrong for place in places if (wrong := what_is_wrong(*place))] == []


@pytest.mark.parametrize("path", FILES, ids=named)
def test_the_places_that_a_file_names_exist(path: Path) -> None:
    places = PLACE.findall(path.read_text(encoding="utf-8"))
    assert [wrong for place in places if (wrong := what_is_wrong(*place, path.parent))] == []


def test_every_row_of_the_index_names_a_place() -> None:
    rows = [row for row in re.findall(r"^\|(.*)\|$", INDEX, re.MULTILINE) if "---" not in row]
    places = [row for row in rows if not row.startswith((" to read", " to add"))]
    assert len(places) > 20
    assert [row for row in places if not PLACE.search(row)] == []
    assert PLACE.sub("", INDEX).count("::") == 1, "a place that is not checked"
