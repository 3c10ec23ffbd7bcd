"""What the tests of traces share: a writer of a trace in virtual time, and publications as frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runnel.quantities import SECOND
from runnel.trace.recorder import Recorder, RecorderConfig
from runnel.trace.writer import Writer, WriterConfig
from runnel.wire import make_publication
from support.taping import enter


class Lab:
    """A recorder and a writer with a clock that the test moves."""

    def __init__(self, directory: Path, name: str = "sim", interval_s: int = 60) -> None:
        self.directory = directory
        self.now = 0
        self.recorder = Recorder(RecorderConfig())
        config = WriterConfig(directory, name, "virtual", interval_s * SECOND, sync=False)
        self.writer = Writer(config, self.recorder, lambda: self.now)

    def publish(self, counter: int, broker: str = "B1", at_s: float = 0, **attributes: int) -> None:
        made = make_publication(
            7, counter, attributes or {"a": counter}, publisher="quotes", time_ns=counter
        )
        enter(self.recorder, broker, round(at_s * SECOND), made)

    def die(self) -> None:
        """What the end of a process does to its writer."""
        self.writer._lock.close()


@pytest.fixture
def make_lab(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    labs: list[Lab] = []

    def make(folder: str = "trace", name: str = "sim", interval_s: int = 60) -> Lab:
        labs.append(Lab(tmp_path / folder, name, interval_s))
        return labs[-1]

    yield make
    for lab in labs:
        lab.die()


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    return make_lab()
