"""The places in the code that documents and docstrings name, and whether they exist.

A place is written `FILE.py::NAME`: a file below `src/runnel`, or below the root as `tests/…` is, and a class, function,
method or variable of the module in it.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "runnel"
PLACE = re.compile(r"`([\w./]+\.py)::([\w.]+)`")
FILE = re.compile(r"`([\w/]+\.py)`")


@cache
def names_in(path: Path) -> set[str]:
    """Classes, functions, methods and module variables, with dots between."""
    found: set[str] = set()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, (*functions, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [n.name for n in node.body if isinstance(n, functions)]
            found.update(f"{node.name}.{method}" for method in methods)
        if isinstance(node, ast.Assign):
            found.update(target.id for target in node.targets if isinstance(target, ast.Name))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def what_is_wrong(file: str, name: str, *folders: Path) -> str:
    """Why a place cannot be found, looked for in each of the folders; empty if it exists."""
    for folder in (*folders, SOURCES, ROOT):
        if (folder / file).exists():
            return "" if name in names_in(folder / file) else f"{file} has no {name}"
    return f"there is no {file}"
