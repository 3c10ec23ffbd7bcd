"""What a broker does to a tape, for tests that have no broker: publications that enter, and those that leave."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from runnel.trace.recorder import Recorder
from runnel.trace.schemas import IntervalsRow
from runnel.wire import Publication
from runnel.wire.header import TTL_AT

Wanted = tuple[int, str]
"""Who wants a publication: a subscription and its client."""


def enter(recorder: Recorder, broker: str, time_ns: int, *publications: Publication) -> None:
    """A client published these in one go."""
    _record(recorder, broker, time_ns, list(publications), [[] for _ in publications], True)


def leave(
    recorder: Recorder, broker: str, time_ns: int, publication: Publication, *wanted: Wanted
) -> None:
    """A publication from elsewhere went to these."""
    places = [~recorder.tape.audiences.subscribers.add(*who) for who in wanted]
    _record(recorder, broker, time_ns, [publication], [places], False)


def after_hops(publication: Publication, hops: int) -> Publication:
    """The same, as it is after so many hops."""
    raw = publication.raw
    return replace(publication, raw=raw[: TTL_AT + 1] + bytes([hops]) + raw[TTL_AT + 2 :])


def interval_row(broker: str, time_ns: int, **known: Any) -> IntervalsRow:
    """A broker's load; what is not said is 0, or was not measured."""
    row: dict[str, Any] = dict.fromkeys(IntervalsRow.__struct_fields__, 0)
    unmeasured: dict[str, Any] = {"output_ratio": None, "memory_bytes": None, "messages_in": []}
    return IntervalsRow(**row | unmeasured | known | {"broker": broker, "time_ns": time_ns})


def _record(
    recorder: Recorder,
    broker: str,
    time_ns: int,
    run: list[Publication],
    hops: list[list[int]],
    from_client: bool,
) -> None:
    audiences = recorder.tape.audiences
    if broker not in audiences.brokers:
        audiences.join(broker).link_up(0)
    number = audiences.brokers.index(broker)
    recorder.tape.add(number, run, hops, time_ns, from_client)
    recorder.seal()
