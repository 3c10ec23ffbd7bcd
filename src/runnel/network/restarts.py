"""Restarts: brokers of a network that have ended are started again, with pauses that grow.

A broker that was up for `HEALTHY_S` is started again at once. One that ends soon after it was started waits, twice as
long each time, up to `PAUSE_MAX_S`. Nothing blocks here: whoever supervises the network calls `look` now and then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from runnel.network.processes import Processes, how_it_ended

HEALTHY_S = 30.0
PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 60.0


@dataclass(slots=True)
class _Life:
    """The latest life of one broker."""

    started_at: float
    failures: int = 0  # in a row
    due_at: float | None = None  # when it is started again, if it has ended
    is_up: bool = True


class Restarts:
    """See the top of the file."""

    def __init__(self, processes: Processes, clock: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._clock = clock
        self._lives = {name: _Life(clock()) for name in processes.brokers}

    def look(self) -> list[str]:
        """See who has ended, and start who is due; what happened, in a line each."""
        lines = []
        for name, life in self._lives.items():
            if life.due_at is None and self._processes.has_ended(name):
                lines.append(self._note_end(name, life))
            if life.due_at is not None:
                if self._clock() >= life.due_at:
                    life.started_at, life.due_at = self._clock(), None
                    self._processes.start_again(name)
            elif not life.is_up and self._processes.has_become_ready(name):
                life.is_up = True
                lines.append(f"broker {name} is up again")
        return lines

    def _note_end(self, name: str, life: _Life) -> str:
        broker, now = self._processes.brokers[name], self._clock()
        lived_s = now - life.started_at
        if lived_s >= HEALTHY_S:
            life.failures = 0
        pause_s = pause_after(life.failures)
        life.failures += 1
        life.is_up, life.due_at = False, now + pause_s
        ended = how_it_ended(broker.process.poll())
        when = f"in {pause_s:g} s" if pause_s else "now"
        return f"broker {name} {ended}, and is started again {when}: {broker.log} may tell why"


def pause_after(failures: int) -> float:
    """How long to wait before a broker is started again that has ended too soon so often in a row.

    >>> [pause_after(failures) for failures in (0, 1, 2, 3, 20)]
    [0.0, 1.0, 2.0, 4.0, 60.0]
    """
    return min(PAUSE_MAX_S, PAUSE_MIN_S * 2.0 ** (failures - 1)) if failures else 0.0
