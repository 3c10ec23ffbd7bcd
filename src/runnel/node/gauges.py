"""The gauges of a node: measurements from the system, the output limiter and a slowed matcher.

Generations in one process share its processor, memory and output: each gets the values of the whole process.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import process_time_ns

from runnel.broker.gauges import Gauges
from runnel.node.limiter import Limiter
from runnel.node.slow import SlowBroker

_STATM = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MEMORY_BYTES = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES


class NodeGauges:
    """Reads the gauges of one broker; `slow` is set once the broker is there."""

    def __init__(self, limiter: Limiter | None) -> None:
        self._limiter = limiter
        self.slow: SlowBroker | None = None

    def __call__(self) -> Gauges:
        """Read all gauges. The added delay of a slowed matcher counts as time of the processor."""
        slow = self.slow
        return Gauges(
            cpu_ns=process_time_ns() + (slow.delayed_ns if slow else 0),
            memory_bytes=memory_used(),
            memory_bytes_max=_MEMORY_BYTES,
            output_busy_ns=self._limiter.busy_ns if self._limiter else None,
            waiting_publications=slow.inbox.publications if slow else None,
            waiting_bytes=slow.inbox.waiting_bytes if slow else None,
        )


def memory_used() -> int | None:
    """The memory used by this process; None if the system does not report it."""
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return None
