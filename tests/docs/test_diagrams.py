"""The diagrams in the documents are those that the code says; `make diagrams` renews them."""

import re
from pathlib import Path

from runnel.client.migration import diagram

ROOT = Path(__file__).parents[2]
DIAGRAMS = {"migration": (ROOT / "docs" / "placement.md", diagram)}
BETWEEN = r"(<!-- diagram: {} -->\n).*?(<!-- end of diagram -->)"


def renewed(name: str) -> str:
    """The document of a diagram, with the diagram as it should be."""
    path, draw = DIAGRAMS[name]
    text, count = re.subn(
        BETWEEN.format(name),
        lambda found: f"{found[1]}```mermaid\n{draw()}\n```\n{found[2]}",
        path.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    assert count == 1, f"{path.name} has no place for the diagram {name}"
    return text


def test_the_diagrams_are_what_the_code_says() -> None:
    for name, (path, _) in DIAGRAMS.items():
        is_current = path.read_text(encoding="utf-8") == renewed(name)
        assert is_current, f"{path.name} is out of date: make diagrams"


if __name__ == "__main__":
    for one, (document, _) in DIAGRAMS.items():
        document.write_text(renewed(one), encoding="utf-8")
