"""Gauges: what only its driver can know of a broker, read by modules through `Context.gauges`.

The driver of a node asks the system (node/gauges.py), the simulator its model (sim/world.py, `Host.gauges`). What the
broker counts itself is in its meter (how long it matched included), and what waits on its links is in the links.

Rules:
- Times and counts are since the broker started, so whoever wants a rate compares two readings.
- None means that this driver does not measure it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gauges:
    """One reading.

    >>> Gauges(memory_bytes=1 << 20).cpu_ns is None
    True
    """

    cpu_ns: int | None = None  # time that processors worked for it
    memory_bytes: int | None = None  # that it uses
    memory_bytes_max: int | None = None  # that it could use
    output_busy_ns: int | None = None  # time spent sending, where bandwidth is limited
    waiting_publications: int | None = None  # arrived, but the matcher is busy with earlier ones
    waiting_bytes: int | None = None  # of these, and of what must stay in order with them


ReadGauges = Callable[[], Gauges]
