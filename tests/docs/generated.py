"""The parts of documents that are made from the code, so that they cannot drift; `make diagrams` renews them all.

Each has one line here, and stands in its document between `<!-- KIND: NAME -->` and `<!-- end of KIND -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docs import journey, tables
from docs.notebook import write_notebook
from runnel.client import crossing, migration, move
from runnel.compose import MODULES, STRATEGIES
from runnel.states import Transitions

DOCS = Path(__file__).parents[2] / "docs"


def mermaid(transitions: Transitions[Any, Any]) -> str:
    """A state machine as a diagram that GitHub draws."""
    return f"```mermaid\n{transitions.diagram()}\n```"


def modules() -> str:
    """The table of Runnel's own modules: tests register others."""
    own = {n: k for n, k in MODULES.items() if k.make.__module__.startswith("runnel.")}
    return tables.modules_table(own)


def strategies() -> str:
    """The table of Runnel's own strategies."""
    own = {n: k for n, k in STRATEGIES.items() if k.make.__module__.startswith("runnel.")}
    return tables.strategies_table(own)


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "diagram: move": ("moving.md", lambda: mermaid(move.TRANSITIONS)),
    "diagram: crossing": ("generations.md", lambda: mermaid(crossing.TRANSITIONS)),
    "diagram: migration": ("placement.md", lambda: mermaid(migration.TRANSITIONS)),
    "table: modules": ("extending.md", modules),
    "table: strategies": ("extending.md", strategies),
    "table: messages": ("extending.md", tables.messages_table),
    "table: metrics": ("operating.md", tables.metrics_table),
    "table: words": ("reproducing.md", tables.words_table),
    "calls: files": ("journey-of-a-publication.md", lambda: journey.files_at("B1")),
    "calls: publisher": ("journey-of-a-publication.md", lambda: journey.calls_at("P", slice(1))),
    "calls: B1": ("journey-of-a-publication.md", lambda: journey.calls_at("B1")),
    "calls: B2": ("journey-of-a-publication.md", lambda: journey.difference("B2", "B1")),
    "calls: subscriber": ("journey-of-a-publication.md", lambda: journey.calls_at("S")),
    "calls: confirmation": (
        "journey-of-a-publication.md",
        lambda: journey.calls_at("P", slice(1, None)),
    ),
}
"""Each part, with the document that it stands in and how it is drawn."""


def between(part: str) -> re.Pattern[str]:
    """Where a part stands."""
    kind = part.partition(":")[0]
    return re.compile(rf"(<!-- {part} -->\n).*?(<!-- end of {kind} -->)", re.DOTALL)


def renewed(part: str) -> str:
    """The document of a part, with the part as it should be."""
    document, draw = PARTS[part]
    text = (DOCS / document).read_text(encoding="utf-8")
    drawn = draw()
    text, count = between(part).subn(lambda found: f"{found[1]}\n{drawn}\n\n{found[2]}", text)
    assert count == 1, f"{document} has no place for {part!r}, or more than one"
    return text


if __name__ == "__main__":
    for one, (page, _) in PARTS.items():
        (DOCS / page).write_text(renewed(one), encoding="utf-8")
    write_notebook()
