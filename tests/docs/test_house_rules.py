"""The house rules that a machine can check: size of files and functions, and what each file says first."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for folder in ("src", "tests", "bench") for path in (ROOT / folder).rglob("*.py")
)
LINES_PER_FILE = 500
LINES_PER_FUNCTION = 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_keeps_the_house_rules(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert source.count("\n") <= LINES_PER_FILE, "split the file"
    assert ast.get_docstring(tree), "say at the top what the file is for"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LINES_PER_FUNCTION, f"line {node.lineno}: {node.name} is too long"
