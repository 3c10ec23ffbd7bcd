"""What brokers record, joined to others in memory: every row against what was really sent and delivered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runnel.broker.gauges import Gauges, ReadGauges
from runnel.broker.module import Module
from runnel.errors import InputError
from runnel.language import Selection, parse
from runnel.modules.placement.migration import Migration
from runnel.quantities import SECOND
from runnel.trace.module import TraceConfig, Tracing
from runnel.trace.reader import Trace, attributes_of, open_trace
from runnel.trace.recorder import Recorder, RecorderConfig
from runnel.trace.writer import Writer, WriterConfig
from runnel.wire import Advertise, Publication, Subscribe, Unsubscribe, decode_selection
from support.harness import StepNetwork

OFFSET = 7_000 * SECOND  # of the trace's clock from the brokers'


class TracedChain:
    """A chain of three brokers that share a recorder, as in the simulator."""

    def __init__(
        self,
        directory: Path,
        limits: RecorderConfig | None = None,
        also: Callable[[], tuple[Module, ...]] = tuple,
        gauges: ReadGauges = Gauges,
    ) -> None:
        self.network = StepNetwork()
        self.directory = directory
        self.recorder = Recorder(limits)
        settings = WriterConfig(directory, "sim", "virtual", sync=False)
        self.writer = Writer(settings, self.recorder, lambda: self.network.now + OFFSET)
        self.modules = {
            name: Tracing(self.recorder, None, lambda: OFFSET) for name in ("B1", "B2", "B3")
        }
        for name, dials in (("B1", ["B2"]), ("B2", ["B3"]), ("B3", [])):
            self.network.broker(name, *dials, modules=(self.modules[name], *also()), gauges=gauges)
        self.network.advance(2 * SECOND)

    def publish(self, session: Any, id: int, *values: int) -> None:
        for value in values:
            session.publish(id, {"a": value}, b"payload", time_ns=self.network.now + OFFSET)
        self.network.settle()

    def trace(self) -> Trace:
        self.recorder.seal()
        self.writer.close()
        return open_trace(self.directory)

    def received(self, *names: str) -> list[tuple[str, int, int, int]]:
        """What clients got, by what went over their links: who, for which subscription, which publication."""
        asked: dict[str, dict[int, Selection]] = {name: {} for name in names}
        found = []
        for source, target, frame in self.network.sent:
            if source in asked and isinstance(frame, Subscribe):
                asked[source][frame.id] = decode_selection(frame.selection)
            elif source in asked and isinstance(frame, Unsubscribe):
                del asked[source][frame.id]
            elif target in asked and isinstance(frame, Publication):
                for id, selection in asked[target].items():
                    if selection.matches(frame.attributes):
                        found.append((target, id, *frame.identity))
        return found

    def ids(self, name: str, home: str, kind: type[Subscribe] | type[Advertise]) -> list[int]:
        """The ids that a client made, as the network knows them."""
        return [frame.id for frame in self.network.of_kind(name, home, kind)]


def columns(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_publications_where_they_enter_and_deliveries_where_they_leave(tmp_path: Path) -> None:
    traced = TracedChain(tmp_path)
    network = traced.network
    quotes, advert = network.publisher("quotes", "B1", "a >= 0")
    network.subscriber("near", "B1", "a >= 2")
    far, _ = network.subscriber("far", "B3", "a >= 1")
    far.subscribe(parse("a >= 3"))  # so for some publications both of its subscriptions count
    network.subscriber("beside", "B3", "a >= 3")
    network.settle()
    network.advance(SECOND)
    traced.publish(quotes, advert, 0, 1, 2, 3)
    at = network.now + OFFSET
    trace = traced.trace()
    rows = trace.read("publications").to_pylist()
    assert [attributes_of(row["attributes"]) for row in rows] == [{"a": n} for n in range(4)]
    assert {(row["broker"], row["publisher"], row["time_ns"]) for row in rows} == {
        ("B1", "quotes", at)
    }
    sent = network.of_kind("quotes", "B1", Publication)
    assert [(row["advertisement"], row["counter"]) for row in rows] == [p.identity for p in sent]
    assert [row["size_bytes"] for row in rows] == [len(p.raw) for p in sent]
    delivered = trace.read("deliveries")
    assert sorted(columns(delivered, "client", "subscription", "advertisement", "counter")) == (
        sorted(traced.received("near", "far", "beside"))
    )
    assert delivered.num_rows == 2 + 3 + 1 + 1
    assert set(columns(delivered, "client", "broker", "hops")) == {
        ("near", "B1", 0),
        ("far", "B3", 2),
        ("beside", "B3", 2),
    }
    assert set(columns(delivered, "time_ns", "published_ns")) == {(at, at)}


def test_a_sample_is_the_same_at_every_broker(tmp_path: Path) -> None:
    traced = TracedChain(tmp_path, RecorderConfig(sample=3))
    network = traced.network
    quotes, advert = network.publisher("quotes", "B1", "a >= 0")
    network.subscriber("near", "B1", "a >= 0")
    network.subscriber("far", "B3", "a >= 0")
    for value in range(4):  # in runs of one, and then of many
        traced.publish(quotes, advert, value)
    traced.publish(quotes, advert, *range(4, 10))
    trace = traced.trace()
    assert trace.read("publications")["counter"].to_pylist() == [3, 6, 9]
    assert sorted(columns(trace.read("deliveries"), "client", "counter")) == sorted(
        (client, counter) for counter in (3, 6, 9) for client in ("near", "far")
    )
    (statement,) = trace.folder.statements()
    assert statement.sample == 3


def test_subscriptions_and_advertisements_of_clients_once_at_their_broker(tmp_path: Path) -> None:
    traced = TracedChain(tmp_path)
    network = traced.network
    quotes, advert = network.publisher("quotes", "B1", "a >= 0")
    far, _ = network.subscriber("far", "B3", "a > 5")
    second = far.subscribe(parse("a < 5"))
    network.settle()
    far.unsubscribe(second)
    quotes.unadvertise(advert)
    network.settle()
    network.crash("far")
    network.advance(60 * SECOND)
    trace = traced.trace()
    kept, withdrawn = traced.ids("far", "B3", Subscribe)
    (made_advert,) = traced.ids("quotes", "B1", Advertise)
    made = trace.read("subscriptions")
    assert columns(made, "broker", "client", "event", "subscription", "filter") == [
        ("B3", "far", "made", kept, "a > 5"),
        ("B3", "far", "made", withdrawn, "a < 5"),
        ("B3", "far", "withdrawn", withdrawn, "a < 5"),
        ("B3", "far", "withdrawn", kept, "a > 5"),
    ]
    assert decode_selection(made["selection"][0].as_py()) == parse("a > 5")
    assert columns(
        trace.read("advertisements"), "broker", "client", "publisher", "event", "advertisement"
    ) == [
        ("B1", "quotes", "quotes", "made", made_advert),
        ("B1", "quotes", "quotes", "withdrawn", made_advert),
    ]


def test_a_publisher_that_migrates_is_withdrawn_here_and_made_there(tmp_path: Path) -> None:
    traced = TracedChain(tmp_path, also=lambda: (Migration(),))
    network = traced.network
    quotes, advert = network.publisher("quotes", "B1", "a >= 0")
    target = network.session("quotes/2", "B3")
    quotes.advertiser.pause(advert)
    target.advertiser.adopt(advert, quotes.advertiser)
    network.settle()
    (made,) = traced.ids("quotes", "B1", Advertise)
    rows = traced.trace().read("advertisements")
    assert columns(rows, "broker", "client", "event", "advertisement") == [
        ("B1", "quotes", "made", made),
        ("B3", "quotes/2", "made", made),
        ("B1", "quotes", "withdrawn", made),
    ]


def test_an_interval_says_what_happened_in_it(tmp_path: Path) -> None:
    busy = {"ns": 0}
    traced = TracedChain(
        tmp_path,
        gauges=lambda: Gauges(memory_bytes=1 << 20, output_busy_ns=busy["ns"]),
    )
    network = traced.network
    quotes, advert = network.publisher("quotes", "B1", "a >= 0")
    network.subscriber("near", "B1", "a >= 0")
    network.subscriber("far", "B2", "a >= 0")
    network.advance(8 * SECOND)
    traced.publish(quotes, advert, *range(20))
    busy["ns"] = 5 * SECOND
    network.advance(10 * SECOND)
    rows = [row for row in traced.trace().rows("intervals") if row["broker"] == "B1"]
    assert [row["window_ns"] for row in rows] == [10 * SECOND] * 2
    assert [row["time_ns"] for row in rows] == [OFFSET + 10 * SECOND, OFFSET + 20 * SECOND]
    first, second = rows
    assert (first["publications_in"], second["publications_in"]) == (0, 20)
    assert second["publications_out"] == 40
    assert (second["input_rate"], second["output_rate"]) == (2.0, 4.0)
    assert second["messages_in"] == {"Publication": 20}
    about_routes = {"Advertise": 1, "Subscribe": 2, "MissingLinks": 2, "ClientHere": 1}
    assert first["messages_in"] == {"Publication": 0, **about_routes}
    assert (second["output_ratio"], second["memory_bytes"]) == (0.5, 1 << 20)
    assert (second["clients"], second["subscriptions"], second["advertisements"]) == (2, 2, 1)
    # The control traffic of the set-up: far's subscription, and those of B1's own clients.
    assert first["control_in"] > 0 and first["bytes_in"] > 0


def test_links_come_go_and_are_counted(tmp_path: Path) -> None:
    traced = TracedChain(tmp_path)
    network = traced.network
    quotes, advert = network.publisher("quotes", "B1", "a >= 0")
    network.subscriber("far", "B2", "a >= 0")
    traced.publish(quotes, advert, 1, 2, 3)
    network.advance(9 * SECOND)
    network.crash("far")
    network.advance(60 * SECOND)
    traced.modules["B1"].record_stop(network.nodes["B1"], network.now)
    trace = traced.trace()
    rows = columns(
        trace.read("links"),
        *("broker", "peer", "kind", "event", "publications_in", "publications_out"),
    )
    assert ("B1", "B2", "broker", "up", 0, 0) in rows
    assert ("B1", "B2", "broker", "counted", 0, 3) in rows
    assert ("B2", "B1", "broker", "counted", 3, 0) in rows
    assert ("B2", "far", "client", "lost", 0, 3) in rows
    assert ("B1", "quotes", "client", "counted", 3, 0) in rows
    told = columns(trace.read("brokers"), "broker", "event")
    assert told == [("B1", "started"), ("B2", "started"), ("B3", "started"), ("B1", "stopped")]


def test_the_shortcut_for_one_subscription_stays_true(tmp_path: Path) -> None:
    """A client goes from one subscription to two, back to one, to none; another takes its place at the broker."""
    traced = TracedChain(tmp_path)
    network = traced.network
    quotes, advert = network.publisher("quotes", "B1", "a >= 0")
    far, first = network.subscriber("far", "B3", "a >= 0")
    traced.publish(quotes, advert, 1)
    second = far.subscribe(parse("a >= 5"))
    network.settle()
    traced.publish(quotes, advert, 1, 6)
    far.unsubscribe(first)
    network.settle()
    traced.publish(quotes, advert, 1, 6)
    far.unsubscribe(second)
    network.settle()
    traced.publish(quotes, advert, 1, 6)
    network.crash("far")
    network.advance(60 * SECOND)
    network.subscriber("other", "B3", "a >= 5")
    traced.publish(quotes, advert, 1, 6)
    delivered = columns(
        traced.trace().read("deliveries"), "client", "subscription", "advertisement", "counter"
    )
    assert sorted(delivered) == sorted(traced.received("far", "other"))
    assert len(delivered) == 6


def test_notes_of_the_broker_become_control_rows(tmp_path: Path) -> None:
    traced = TracedChain(tmp_path)
    for name, effect in traced.network.traces:
        traced.modules[name].record_note(effect.kind, effect.data, traced.network.now)
    rows = traced.trace().read("control").to_pylist()
    assert ("B1", "link-up", "B2") in {(r["broker"], r["kind"], r["entity"]) for r in rows}
    assert all(json.loads(row["detail"])["peer"] == row["entity"] for row in rows)


def test_what_is_switched_off_is_not_recorded(tmp_path: Path) -> None:
    traced = TracedChain(tmp_path, RecorderConfig(publications=False))
    network = traced.network
    quotes, advert = network.publisher("quotes", "B1", "a >= 0")
    network.subscriber("near", "B1", "a >= 0")
    traced.publish(quotes, advert, 1)
    trace = traced.trace()
    assert trace.read("publications").num_rows == 0
    assert trace.read("deliveries").num_rows == 1
    with pytest.raises(InputError, match="interval_ns must be at least 1"):
        TraceConfig(interval_ns=0)
