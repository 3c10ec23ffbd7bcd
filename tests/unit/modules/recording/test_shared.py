"""One recording for a trace and for profiles: both are what they are when each is alone, and the broker pays once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from runnel.broker.events import TimerFired
from runnel.broker.module import Module
from runnel.errors import BugError
from runnel.language import parse
from runnel.modules.profiles.config import ProfilesConfig
from runnel.modules.profiles.messages import Bia, Bir
from runnel.modules.profiles.module import Cbc
from runnel.modules.recording.module import Recording
from runnel.modules.recording.tape import Tape
from runnel.quantities import SECOND
from runnel.trace.module import Tracing
from runnel.trace.reader import open_trace
from runnel.trace.recorder import Recorder, RecorderConfig
from runnel.trace.schemas import TABLES
from runnel.trace.writer import Writer, WriterConfig
from runnel.wire import (
    Advertise,
    Bye,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    make_publication,
    raw_selection,
)
from support.door import ALL, Door

PUB, NEIGHBOUR, ASKER, FIRST = 1, 2, 3, 4
CLIENTS = 6
ON = ProfilesConfig(enabled=True, bits=64)


class BrokerLife:
    """A broker that lives through what a seed says: clients that come and go, runs of all lengths."""

    def __init__(self, seed: int, *modules: Module) -> None:
        self.door = Door(modules=modules)
        self._random = Random(seed)
        self._counters = {7: 0, 8: 0}
        self._wanted: dict[int, list[int]] = {}
        self._ids = iter(range(100, 10_000))
        self.door.connect(PUB, "pub")
        self.door.connect(NEIGHBOUR, "N", "broker")
        self.door.arrive(PUB, Advertise(7, ALL, "p", 9))
        self.door.arrive(NEIGHBOUR, Advertise(8, ALL, "q", 9), Subscribe(99, ALL, 9))
        for conn in range(FIRST, FIRST + CLIENTS):
            self.door.connect(conn, f"c{conn}")
            self._wanted[conn] = []

    def live(self, steps: int) -> None:
        for step in range(steps):
            self.door.now += SECOND // 10
            if step % 40 == 39 and "cbc:period" in self.door.timers:
                self.door.event(TimerFired("cbc:period"))
            what, conn = self._random.random(), self._random.choice(list(self._wanted))
            mine = self._wanted[conn]
            if what < 0.15:
                self._subscribe(conn, mine)
            elif what < 0.2 and mine:
                self.door.arrive(conn, Unsubscribe(mine.pop()))
            elif what < 0.22 and mine:
                self.door.arrive(conn, Bye("gone"))
                self.door.connect(conn + 1_000, f"c{conn}")
                del self._wanted[conn]
                self._wanted[conn + 1_000] = []
            elif what < 0.23:
                self.door.arrive(NEIGHBOUR, Unadvertise(8), Advertise(8, ALL, "q", 9))
            else:
                self._publish()

    def _subscribe(self, conn: int, mine: list[int]) -> None:
        mine.append(next(self._ids))
        wanted = raw_selection(parse(f"a >= {self._random.randrange(10)}"))
        self.door.arrive(conn, Subscribe(mine[-1], wanted, 9))

    def _publish(self) -> None:
        advertisement = self._random.choice([7, 8])
        first = self._counters[advertisement] + 1
        self._counters[advertisement] += self._random.choice([1, 1, 5, 40])
        run = [
            make_publication(advertisement, n, {"a": self._random.randrange(12)}, publisher="p")
            for n in range(first, self._counters[advertisement] + 1)
        ]
        self.door.arrive(PUB if advertisement == 7 else NEIGHBOUR, *run)

    def profiles(self) -> list[bytes]:
        """What CBC answers, piece by piece."""
        self.door.connect(ASKER, "croc", "operator")
        self.door.arrive(ASKER, Bir(5, SECOND))
        self.door.arrive(NEIGHBOUR, Bye("answers nothing"))
        return [frame.body for frame in self.door.received(ASKER) if isinstance(frame, Bia)]


class Written:
    """A trace in a directory, and what it says in the end."""

    def __init__(self, directory: Path, limits: RecorderConfig) -> None:
        self.directory = directory
        self.recorder = Recorder(limits)
        config = WriterConfig(directory, "sim", "virtual", sync=False)
        self._writer = Writer(config, self.recorder, lambda: 0)
        self.module = Tracing(self.recorder)

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every table, in the order in which they were recorded."""
        self.recorder.seal()
        self._writer.close()
        trace = open_trace(self.directory)
        return {table: trace.read(table).to_pylist() for table in TABLES}


LIMITS: dict[str, Callable[[], RecorderConfig]] = {
    "all": RecorderConfig,
    "a sample": lambda: RecorderConfig(sample=3),
    "no publications": lambda: RecorderConfig(publications=False),
    "no deliveries": lambda: RecorderConfig(deliveries=False),
    "neither": lambda: RecorderConfig(publications=False, deliveries=False),
}


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("seed", range(3))
def test_trace_and_profiles_are_the_same_together_as_alone(
    seed: int, limits: str, tmp_path: Path
) -> None:
    traced = Written(tmp_path / "alone", LIMITS[limits]())
    BrokerLife(seed, traced.module).live(400)
    profiled = BrokerLife(seed, Cbc(ON))
    profiled.live(400)
    both = Written(tmp_path / "both", LIMITS[limits]())
    together = BrokerLife(seed, both.module, Cbc(ON, recording=both.module.recording))
    together.live(400)
    rows = traced.tables()
    assert both.tables() == rows and len(rows["subscriptions"]) > 50
    assert bool(rows["publications"]) == traced.recorder.config.publications
    assert bool(rows["deliveries"]) == traced.recorder.config.deliveries
    answers = profiled.profiles()
    assert together.profiles() == answers and sum(map(len, answers)) > 500


def test_with_both_one_module_watches_publications() -> None:
    tracing = Tracing(Recorder())
    door = Door(modules=(tracing, Cbc(ON, recording=tracing.recording)))
    assert door.broker.watchers.of_all == (tracing.recording,)


def test_a_broker_that_records_nothing_of_publications_has_them_watched_by_nobody() -> None:
    neither = RecorderConfig(publications=False, deliveries=False)
    door = Door(modules=(Tracing(Recorder(neither)), Cbc()))
    assert door.broker.watchers.of_all == ()


def test_two_recordings_in_one_broker_are_refused() -> None:
    with pytest.raises(BugError, match="two modules 'recording'"):
        Door(modules=(Tracing(Recorder()), Cbc(ON, recording=Recording(Tape()))))
