"""What process tests share: a starter of processes that leaves nothing behind, and checks that it did not."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from processes import Processes, marked


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    mark = uuid.uuid4().hex
    started = Processes(tmp_path, mark)
    try:
        yield started
    finally:
        started.end_all()
    assert marked(mark) == [], "a process was left behind"
