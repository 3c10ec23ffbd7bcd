"""The notebook from a trace to a plan: every cell runs, prints what is stored as its output, and draws its figures."""

from __future__ import annotations

import ast
import json
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from matplotlib.image import imread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTEBOOK = Path(__file__).parents[2] / "examples" / "traces_with_spark.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> str:
    """Run a cell as a notebook does, which shows the value of its last line; the output, with single spaces."""
    *statements, last = ast.parse(source).body
    with redirect_stdout(StringIO()) as output:
        exec(compile(ast.Module(statements, []), NOTEBOOK.name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)
            print("" if value is None else repr(value))
        else:
            exec(compile(ast.Module([last], []), NOTEBOOK.name, "exec"), names)
    return " ".join(output.getvalue().split())  # Spark pads the lines of its tables


def test_every_cell_runs_and_prints_what_is_stored(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    printed = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            stored = [line for output in cell["outputs"] for line in output["text"]]
            assert run_cell("".join(cell["source"]), names) == " ".join("".join(stored).split())
            printed += bool(stored)
    assert printed == 5, "two tables, two results and the names of the figures"
    drawn = names["here"] / "figures" / "before_and_after"
    assert tmp_path in drawn.parents
    assert drawn.with_suffix(".svg").read_text(encoding="utf-8").count("<path") > 20
    pixels = imread(drawn.with_suffix(".png"))
    assert pixels.shape[1] > 1_000 and pixels.min() < 0.2 and pixels.max() == 1.0
