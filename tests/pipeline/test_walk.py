"""The walk from a trace to a plan in docs/examples does what it says: every block is run, and its figures are drawn."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from matplotlib.image import imread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "examples" / "traces_with_spark.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)\)")


def test_the_walk_comes_out_as_it_is_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    whole = "\n".join(_BLOCK.findall(text))
    example = doctest.DocTestParser().get_doctest(whole, {}, PAGE.name, str(PAGE), 0)
    assert len(example.examples) > 15
    report: list[str] = []
    # Spark pads the lines of its tables, which nobody sees.
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    failed = runner.run(example, out=report.append, clear_globs=False).failed
    assert not failed, "".join(report)
    drawn = tmp_path / "figures" / "before_and_after"
    assert drawn.with_suffix(".svg").read_text(encoding="utf-8").count("<path") > 20
    pixels = imread(drawn.with_suffix(".png"))
    assert pixels.shape[1] > 1_000 and pixels.min() < 0.2 and pixels.max() == 1.0


def test_what_the_walk_links_to_is_there() -> None:
    links = _LINK.findall(PAGE.read_text(encoding="utf-8"))
    assert "before_and_after.svg" in links
    assert [link for link in links if not (PAGE.parent / link).exists()] == []
