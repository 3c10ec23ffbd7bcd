"""Metrics as Prometheus reads them: its text format, version 0.0.4.

    # HELP runnel_received_bytes_total Bytes that came over all connections.
    # TYPE runnel_received_bytes_total counter
    runnel_received_bytes_total{generation="1"} 4711

All samples of one metric stand together, below its two lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Sample:
    """A number, and the labels that tell it from others of its metric."""

    value: float
    labels: Mapping[str, str]


def write_metric(name: str, kind: Kind, purpose: str, samples: Iterable[Sample]) -> str:
    """The lines of one metric; nothing if there are no samples.

    >>> print(write_metric("up", "gauge", "Whether it is.", [Sample(1, {"at": 'a "b"'})]), end="")
    # HELP up Whether it is.
    # TYPE up gauge
    up{at="a \\"b\\""} 1
    """
    lines = [f"{name}{_labels(sample.labels)} {_number(sample.value)}" for sample in samples]
    if not lines:
        return ""
    escaped = purpose.replace("\\", r"\\").replace("\n", r"\n")
    return "\n".join([f"# HELP {name} {escaped}", f"# TYPE {name} {kind}", *lines, ""])


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(text)}"' for name, text in labels.items()) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    """Whole numbers as such, so that large counts lose nothing.

    >>> _number(True), _number(2**60), _number(0.25), _number(3.0)
    ('1', '1152921504606846976', '0.25', '3.0')
    """
    return str(int(value)) if isinstance(value, int) else repr(value)
