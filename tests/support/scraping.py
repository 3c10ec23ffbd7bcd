"""A strict reader of Prometheus' text format, version 0.0.4: whatever a scraper could stumble over is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|Inf)|NaN")
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Labels = tuple[tuple[str, str], ...]


@dataclass
class ScrapedMetric:
    """One metric as it was read: its type, and its samples by their labels, sorted."""

    kind: str
    purpose: str
    samples: dict[Labels, float] = field(default_factory=dict)


def read_metrics(text: str) -> dict[str, ScrapedMetric]:
    """All metrics of a page; AssertionError where the format is violated."""
    found: dict[str, ScrapedMetric] = {}
    assert text.endswith("\n"), "the last line has no end"
    lines = text.split("\n")[:-1]
    current, purpose = "", {}
    for line in lines:
        if line.startswith("# HELP "):
            name, _, said = line.removeprefix("# HELP ").partition(" ")
            assert re.fullmatch(NAME, name) and name not in purpose, line
            assert said and re.fullmatch(r"(?:[^\\]|\\\\|\\n)*", said), line
            purpose[name] = said
        elif line.startswith("# TYPE "):
            name, _, kind = line.removeprefix("# TYPE ").partition(" ")
            assert name in purpose and name not in found, f"type before help, or twice: {line}"
            assert kind in ("counter", "gauge"), line
            assert kind == "gauge" or name.endswith("_total"), line
            assert kind == "counter" or not name.endswith("_total"), line
            found[name], current = ScrapedMetric(kind, purpose[name]), name
        else:
            name, labels, value = _sample(line)
            assert name == current, f"{name} stands among the samples of {current}"
            assert labels not in found[name].samples, f"the same sample twice: {line}"
            assert value >= 0 or found[name].kind == "gauge", line
            found[name].samples[labels] = value
    assert all(metric.samples for metric in found.values()), "a metric has no samples"
    return found


def _sample(line: str) -> tuple[str, Labels, float]:
    matched = SAMPLE.fullmatch(line)
    assert matched is not None, f"this is no sample: {line!r}"
    name, inside, number = matched.groups()
    assert NUMBER.fullmatch(number), line
    labels, at = [], 0
    while at < len(inside or ""):
        label = LABEL.match(inside, at)
        assert label is not None, f"these are no labels: {inside!r}"
        value = re.sub(r"\\.", lambda escape: ESCAPES[escape[0]], label[2])
        labels.append((label[1], value))
        at = label.end()
    assert len(dict(labels)) == len(labels), f"a label twice: {line}"
    return name, tuple(sorted(labels)), float(number)


def value_of(metrics: dict[str, ScrapedMetric], name: str, **labels: str) -> float:
    """The sum of the samples of a metric that have these labels."""
    wanted = set(labels.items())
    return sum(
        value for labels_of, value in metrics[name].samples.items() if wanted <= set(labels_of)
    )
