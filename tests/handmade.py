"""Traces made by hand, row by row, for tests that know by arithmetic what must come out."""

from __future__ import annotations

from pathlib import Path

from runnel.language import parse
from runnel.trace.reader import Trace, open_trace
from runnel.trace.recorder import Recorder, RecorderConfig
from runnel.trace.schemas import SCHEMAS
from runnel.trace.writer import Writer, WriterConfig
from runnel.wire import make_publication
from runnel.wire.selections import encode_selection
from taping import after_hops, enter, leave

SECOND = 1_000_000_000
ADVERTISEMENT = 7


class HandMade:
    """A trace that a test fills; times are in seconds."""

    def __init__(self, directory: Path, sample: int = 1) -> None:
        self.directory = directory
        self._recorder = Recorder(RecorderConfig(sample=sample))
        config = WriterConfig(directory, "hand", "virtual", sync=False)
        self._writer = Writer(config, self._recorder, lambda: 0)

    def interval(self, broker: str, end_s: float, window_s: float = 10, **known: object) -> None:
        """A row of `intervals`; what is not said is 0."""
        row: dict[str, object] = dict.fromkeys(SCHEMAS["intervals"].names[2:], 0)
        counts = (known.get("publications_in", 0), known.get("control_in", 0))
        row |= {
            "window_ns": round(window_s * SECOND),
            "output_ratio": None,
            "memory_bytes": None,
            "messages_in": list(zip(("Publication", "control"), counts, strict=True)),
        }
        row |= known
        self._recorder.add("intervals", broker, round(end_s * SECOND), tuple(row.values()))

    def publish(self, counter: int, at_s: float, broker: str = "B0", **attributes: int) -> None:
        """A publication enters."""
        time_ns = round(at_s * SECOND)
        made = make_publication(ADVERTISEMENT, counter, attributes, time_ns=time_ns)
        enter(self._recorder, broker, time_ns, made)

    def deliver(
        self,
        counter: int,
        subscription: int,
        published_s: float,
        delay_s: float,
        broker: str = "B0",
        hops: int = 0,
    ) -> None:
        """A publication leaves for one subscription."""
        made = make_publication(ADVERTISEMENT, counter, {}, time_ns=round(published_s * SECOND))
        time_ns = round((published_s + delay_s) * SECOND)
        wanted = (subscription, f"c{subscription}")
        leave(self._recorder, broker, time_ns, after_hops(made, hops), wanted)

    def event(self, broker: str, event: str, at_s: float) -> None:
        """A broker starts or stops."""
        self._recorder.add("brokers", broker, round(at_s * SECOND), (event, "{}"))

    def subscribe(
        self, id: int, filter: str, at_s: float, broker: str = "B0", event: str = "made"
    ) -> None:
        """A subscription is made, or withdrawn."""
        row = (f"c{id}", event, id, filter, encode_selection(parse(filter)))
        self._recorder.add("subscriptions", broker, round(at_s * SECOND), row)

    def open(self) -> Trace:
        """The trace, written to its end."""
        self._writer.close()
        return open_trace(self.directory)
