"""The examples in the documents run, and say what really happens."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("[A-Z]*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "examples" / "README.md"]
)
_PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"# \w+\.py\n")
_LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")


def named(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_the_python_examples_of_a_document_run(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    for block in _PYTHON_BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        if _PROGRAM.match(block.group(1)):
            continue  # a whole program: tests/process/test_example_programs.py runs those
        example = parser.get_doctest(block.group(1), names, document.name, str(document), line)
        assert example.examples, f"{document.name}:{line}: a python block without >>> is never run"
        report: list[str] = []
        failed = runner.run(example, out=report.append, clear_globs=False).failed
        assert not failed, "".join(report)
        # Examples of one document build on each other, as a reader does.
        names = example.globs


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    for link, _ in _LINK.findall(document.read_text(encoding="utf-8")):
        if not link.startswith(("http://", "https://")):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"


def test_the_readme_has_examples() -> None:
    assert _PYTHON_BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))
