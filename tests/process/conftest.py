"""What process tests share: a starter of processes that leaves nothing behind, and checks that it did not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from process.processes import RunningPrograms, marked


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[RunningPrograms]:
    mark = uuid.uuid4().hex
    started = RunningPrograms(tmp_path, mark)
    try:
        yield started
    finally:
        started.end_all()
    assert marked(mark) == [], "a process was left behind"
