"""Every place that the journey of a publication names is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "journey-of-a-publication.md").read_text(encoding="utf-8")
PLACES = sorted(set(re.findall(r"`([\w/]+\.py)::([\w.]+)`", TEXT)))
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", TEXT)))


def names_in(path: Path) -> set[str]:
    """Classes, functions, methods and module variables, with dots between."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [n.name for n in node.body if isinstance(n, ast.FunctionDef)]
            found.update(f"{node.name}.{method}" for method in methods)
        if isinstance(node, ast.Assign):
            found.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return found


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_a_place_that_is_named_exists(file: str, name: str) -> None:
    path = ROOT / "src" / "runnel" / file
    assert path.exists(), f"there is no {file}"
    assert name in names_in(path), f"{file} has no {name}"


@pytest.mark.parametrize("file", TESTS)
def test_a_test_that_is_named_exists(file: str) -> None:
    assert (ROOT / file).exists()


def test_the_journey_names_its_places() -> None:
    assert len(PLACES) > 30
    assert "::" not in re.sub(r"`[\w/]+\.py::[\w.]+`", "", TEXT), "a name that is not checked"
