"""Everything that a trace takes, put together: one broker in a process of its own, or a whole simulated world.

    NodeTrace    wall clock, a writer's thread, the memory of the process
    WorldTrace   virtual time, one recorder for all brokers, written inline: one history gives one set of files

This is the only file of the room that reads a clock or asks the system about itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import Any

from runnel.broker.meter import SECOND
from runnel.broker.module import Context
from runnel.trace.module import Gauges, TraceConfig, Tracing
from runnel.trace.recorder import Recorder, RecorderConfig
from runnel.trace.writer import Writer, WriterConfig, WriterThread

NODE_FLUSH_NS = 5 * SECOND
WORLD_FLUSH_NS = 60 * SECOND
_STATM = Path("/proc/self/statm")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user may choose."""

    directory: Path
    sample: int = 1  # one publication of so many
    interval_ns: int = 10 * SECOND  # between two rows about a broker's load
    flush_interval_ns: int | None = None  # None: as suits a node, or a world
    rows_max: int = 1_000_000  # that wait for the writer; beyond that they are dropped, and counted
    bytes_max: int = 256 << 20
    publications: bool = True
    deliveries: bool = True

    def recorder(self, flush_ns: int) -> Recorder:
        """A recorder with these limits; what a broker keeps to itself adds a little to the time between two flushes."""
        return Recorder(
            RecorderConfig(
                rows_max=self.rows_max,
                bytes_max=self.bytes_max,
                tape_ns=max(1, flush_ns // 10),
                sample=self.sample,
            )
        )

    def tracing(self) -> TraceConfig:
        """The part that is the module's."""
        return TraceConfig(self.interval_ns, self.publications, self.deliveries)


class NodeTrace:
    """The trace of one broker process. Hand `module` to the broker; `start` before it, `stop` after it."""

    def __init__(
        self,
        settings: Settings,
        broker: str,
        incarnation: int,
        complain: Callable[[str], None],
        about: Mapping[str, Any] | None = None,
    ) -> None:
        flush_ns = settings.flush_interval_ns or NODE_FLUSH_NS
        recorder = settings.recorder(flush_ns)
        name = f"{broker}-{incarnation}"  # a broker that starts again is another writer
        config = WriterConfig(settings.directory, name, "wall", flush_ns)
        self._thread = WriterThread(Writer(config, recorder, time_ns, complain))
        self.module = Tracing(
            recorder, settings.tracing(), _wall_offset, _process_gauges, about=about
        )

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def told(self, kind: str, data: Mapping[str, Any]) -> None:
        """A note that the broker made (the effect `Trace`)."""
        self.module.told(kind, data, monotonic_ns())

    def stop(self, broker: Context, within_s: float = 10.0) -> bool:
        """Record how the broker ends, write what is left and take leave; whether that was done in time."""
        self.module.stopped(broker, monotonic_ns())
        return self._thread.stop(within_s)


class WorldTrace:
    """The trace of a simulated world. Each broker, at each of its starts, gets a module of its own."""

    def __init__(self, settings: Settings, now: Callable[[], int], name: str = "sim") -> None:
        self._settings = settings
        flush_ns = settings.flush_interval_ns or WORLD_FLUSH_NS
        self.recorder = settings.recorder(flush_ns)
        # A simulated run can be run again: nothing is gained by waiting for the disk.
        config = WriterConfig(settings.directory, name, "virtual", flush_ns, sync=False)
        self.writer = Writer(config, self.recorder, now)
        self.writer.flush_when_due()

    def module(
        self, gauges: Callable[[], Gauges] = Gauges, about: Mapping[str, Any] | None = None
    ) -> Tracing:
        """A module for one broker."""
        return Tracing(self.recorder, self._settings.tracing(), gauges=gauges, about=about)

    def close(self) -> None:
        """Write what is left and take leave."""
        self.recorder.seal()
        self.writer.close()


def _wall_offset() -> int:
    """From the clock of a node's broker, which never jumps, to the time since 1970."""
    return time_ns() - monotonic_ns()


def _process_gauges() -> Gauges:
    """What this process takes; None where the system does not say."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except OSError:
        return Gauges()
    return Gauges(memory_bytes=pages * _PAGE_BYTES)
