"""The parts of documents that are made from the code are what the code says; `make diagrams` renews them."""

import re

import pytest

from docs.generated import DOCS, PARTS, renewed


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_what_the_code_says(part: str) -> None:
    document, _ = PARTS[part]
    is_current = (DOCS / document).read_text(encoding="utf-8") == renewed(part)
    assert is_current, f"{document} is out of date ({part}): make diagrams"


def test_every_part_is_renewed() -> None:
    found = [
        part
        for page in DOCS.rglob("*.md")
        for part in re.findall(r"<!-- (\w+: \w+) -->", page.read_text(encoding="utf-8"))
    ]
    assert sorted(found) == sorted(PARTS)
