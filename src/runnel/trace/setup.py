"""Puts the parts of a trace together, for a broker in a process of its own or for a whole simulated world.

    NodeTrace    wall clock, a writer's thread
    WorldTrace   virtual time, one recorder for all brokers, written inline: one history gives one set of files

This is the only file of the room that reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import Any

from runnel.broker.module import Context
from runnel.quantities import SECOND
from runnel.trace.module import TraceConfig, Tracing
from runnel.trace.recorder import Recorder, RecorderConfig
from runnel.trace.writer import Writer, WriterConfig, WriterThread

NODE_FLUSH_NS = 5 * SECOND
WORLD_FLUSH_NS = 60 * SECOND


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What a user may choose."""

    directory: Path
    sample: int = 1  # record every n-th publication
    interval_ns: int = 10 * SECOND  # between two rows about a broker's load
    flush_interval_ns: int | None = None  # None: the default of a node or of a world
    rows_max: int = 1_000_000  # queued for the writer; beyond that, rows are dropped and counted
    bytes_max: int = 256 << 20
    publications: bool = True
    deliveries: bool = True

    def recorder(self, flush_ns: int) -> Recorder:
        """A recorder with these limits; a tape may wait for a tenth of the flush interval."""
        return Recorder(
            RecorderConfig(
                rows_max=self.rows_max,
                bytes_max=self.bytes_max,
                tape_ns=max(1, flush_ns // 10),
                sample=self.sample,
                publications=self.publications,
                deliveries=self.deliveries,
            )
        )

    def tracing(self) -> TraceConfig:
        """The settings of the module."""
        return TraceConfig(self.interval_ns)


class NodeTrace:
    """The trace of one broker process. Hand `module` to the broker; `start` before it, `stop` after it."""

    def __init__(
        self,
        settings: TraceOptions,
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
        self.module = Tracing(recorder, settings.tracing(), _wall_offset, about)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def record_note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Record what the broker asked for (the effect `WriteTrace`)."""
        self.module.record_note(kind, data, monotonic_ns())

    def stop(self, broker: Context, within_s: float = 10.0) -> bool:
        """Record the end of the broker, write what is left and close; False if that took too long."""
        self.module.record_stop(broker, monotonic_ns())
        return self._thread.stop(within_s)


class WorldTrace:
    """The trace of a simulated world. Each broker, at each of its starts, gets a module of its own."""

    def __init__(self, settings: TraceOptions, now: Callable[[], int], name: str = "sim") -> None:
        self._settings = settings
        flush_ns = settings.flush_interval_ns or WORLD_FLUSH_NS
        self.recorder = settings.recorder(flush_ns)
        # A simulated run can be repeated, so it need not wait for the disk.
        config = WriterConfig(settings.directory, name, "virtual", flush_ns, sync=False)
        self.writer = Writer(config, self.recorder, now)
        self.writer.flush_when_due()

    def module(self, about: Mapping[str, Any] | None = None) -> Tracing:
        """A module for one broker."""
        return Tracing(self.recorder, self._settings.tracing(), about=about)

    def close(self) -> None:
        """Write what is left and close."""
        self.recorder.seal()
        self.writer.close()


def _wall_offset() -> int:
    """The offset from the monotonic clock of a node's broker to the time since 1970."""
    return time_ns() - monotonic_ns()
