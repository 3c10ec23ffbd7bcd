"""Traces made by hand, row by row, for tests that know by arithmetic what must come out."""

from __future__ import annotations

from pathlib import Path

from runnel.language import parse
from runnel.quantities import SECOND
from runnel.trace.reader import Trace, open_trace
from runnel.trace.recorder import Recorder, RecorderConfig
from runnel.trace.schemas import BrokersRow, SubscriptionsRow
from runnel.trace.writer import Writer, WriterConfig
from runnel.wire import make_publication
from runnel.wire.selections import encode_selection
from support.taping import after_hops, enter, interval_row, leave

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
        counts = (known.get("publications_in", 0), known.get("control_in", 0))
        usual = {
            "window_ns": round(window_s * SECOND),
            "messages_in": list(zip(("Publication", "control"), counts, strict=True)),
        }
        self._recorder.add(interval_row(broker, round(end_s * SECOND), **usual | known))

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
        time_ns = round(at_s * SECOND)
        self._recorder.add(BrokersRow(time_ns=time_ns, broker=broker, event=event, detail="{}"))

    def subscribe(
        self, id: int, filter: str, at_s: float, broker: str = "B0", event: str = "made"
    ) -> None:
        """A subscription is made, or withdrawn."""
        self._recorder.add(
            SubscriptionsRow(
                time_ns=round(at_s * SECOND),
                broker=broker,
                client=f"c{id}",
                event=event,
                subscription=id,
                filter=filter,
                selection=encode_selection(parse(filter)),
            )
        )

    def open(self) -> Trace:
        """The trace, written to its end."""
        self._writer.close()
        return open_trace(self.directory)
