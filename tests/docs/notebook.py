"""The notebook in examples/: it is made from the page in docs/examples, with its text, its code and its output."""

from __future__ import annotations

import doctest
import json
import re
from collections.abc import Iterator
from os.path import relpath
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "examples" / "traces_with_spark.md"
NOTEBOOK = ROOT / "examples" / "traces_with_spark.ipynb"

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)\)")


def make_notebook(page: str) -> str:
    """The page as a notebook (the format is JSON, nbformat 4)."""
    cells: list[dict[str, Any]] = []
    for place, part in enumerate(_BLOCK.split(page)):
        if place % 2:
            cells += code_cells(part)
        elif part.strip():
            cells.append({"cell_type": "markdown", "metadata": {}, "source": _lines(relink(part))})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    notebook = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 4}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def code_cells(block: str) -> Iterator[dict[str, Any]]:
    """The cells of a block of doctests. A cell ends where there is output: a notebook shows only the last value."""
    source = ""
    for example in doctest.DocTestParser().get_examples(block):
        source += example.source
        if example.want:
            yield _code_cell(source, example.want)
            source = ""
    if source:
        yield _code_cell(source, "")


def _code_cell(source: str, output: str) -> dict[str, Any]:
    shown = {"name": "stdout", "output_type": "stream", "text": _lines(output)}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [shown] if output else [],
        "source": _lines(source),
    }


def relink(text: str) -> str:
    """The text with its relative links changed from the directory of the page to that of the notebook."""
    return _LINK.sub(lambda link: f"]({relpath(PAGE.parent / link[1], NOTEBOOK.parent)})", text)


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


def write_notebook() -> None:
    """Renew the notebook."""
    NOTEBOOK.write_text(make_notebook(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
