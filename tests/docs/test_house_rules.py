"""The house rules that a machine can check: the length of functions, what each file says first, names of classes, and
that nothing but `routing/` and `compose.py` asks which strategy a broker has."""

import ast
from pathlib import Path

import pytest

from runnel.compose import STRATEGIES

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("src", "tests", "bench", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
LINES_PER_FUNCTION = 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_keeps_the_house_rules(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    assert ast.get_docstring(tree), "say at the top what the file is for"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= LINES_PER_FUNCTION, f"line {node.lineno}: {node.name} is too long"


def test_a_class_name_stands_for_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    shared = {name: where for name, where in places.items() if len(where) > 1}
    assert not shared, f"give one of each pair another name: {shared}"


# -- strategies -------------------------------------------------------------------------------------------

ASKING = [
    path for path in FILES if path.is_relative_to(ROOT / "src") or path.parent.name == "bench"
]
MAY_ASK = ("src/runnel/routing", "src/runnel/compose.py")


def strategy_words() -> set[str]:
    """What names a strategy in code: the classes below `routing/`, the kinds, their names, an attribute `strategy`."""
    classes = {
        node.name
        for path in (ROOT / "src/runnel/routing").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    return {*classes, *(name.upper() for name in STRATEGIES), "strategy", "strategy_kind"}


def find_questions(source: str, words: set[str]) -> list[int]:
    """The lines that ask which strategy there is: by isinstance, by a comparison, or by a match."""
    found = []
    for node in ast.walk(ast.parse(source)):
        asked: list[ast.AST] = []
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
                asked = [kinds]
            case ast.Compare(comparators=[ast.Constant(value=None)]):
                pass
            case ast.Compare():
                asked = [node]
            case ast.Match():
                asked = [node.subject]
            case ast.MatchClass():
                asked = [node.cls]
        for part in (part for each in asked for part in ast.walk(each)):
            if getattr(part, "id", getattr(part, "attr", "")) in words:
                found.append(node.lineno)  # type: ignore[attr-defined]
                break
    return found


def test_nothing_outside_of_routing_asks_which_strategy_a_broker_has() -> None:
    words = strategy_words()
    places = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in ASKING
        if not str(path.relative_to(ROOT)).startswith(MAY_ASK)
        for line in find_questions(path.read_text(encoding="utf-8"), words)
    ]
    assert not places, f"let the strategy bring what differs (routing/strategy.py): {places}"


@pytest.mark.parametrize(
    "source",
    [
        "if isinstance(broker.strategy, TreeRouting): ...",
        "if isinstance(one, (int, tree.TreeRouting)): ...",
        "if type(one) is TreeRouting: ...",
        "if settings.strategy == 'tree': ...",
        "if 'flood' in (spec.strategy, other): ...",
        "if kind is not TREE: ...",
        "if kind.name == TREE.name: ...",
        "match spec.strategy:\n    case 'tree': ...",
        "match one:\n    case TreeRouting(): ...",
    ],
)
def test_such_a_question_is_found(source: str) -> None:
    assert find_questions(source, strategy_words()) == [1 + source.startswith("match one")]


@pytest.mark.parametrize(
    "source",
    [
        "if isinstance(spec.strategy, str): ...",
        "if spec.strategy is None: ...",
        "hops = broker.strategy.next_hops(link, publication)",
    ],
)
def test_what_is_no_such_question_is_not_found(source: str) -> None:
    assert find_questions(source, strategy_words()) == []
