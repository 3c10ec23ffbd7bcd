"""The notebook in examples/ is up to date with its page, and its links lead somewhere. tests/pipeline runs it."""

import json
import re

from docs.notebook import NOTEBOOK, PAGE, make_notebook

_LINK = re.compile(r"\]\(([^)#\s]+)\)")


def test_the_notebook_is_that_of_the_page() -> None:
    is_current = NOTEBOOK.read_text(encoding="utf-8") == make_notebook(PAGE.read_text("utf-8"))
    assert is_current, f"{NOTEBOOK.name} is out of date: make diagrams"


def test_links_of_the_page_and_of_the_notebook_lead_somewhere() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    for file, text in ((PAGE, PAGE.read_text(encoding="utf-8")), (NOTEBOOK, "\n".join(texts))):
        links = _LINK.findall(text)
        assert any(link.endswith("before_and_after.svg") for link in links)
        assert [link for link in links if not (file.parent / link).exists()] == []
