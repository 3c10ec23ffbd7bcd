"""A trace of a node and a trace of a world, with real brokers in them."""

from __future__ import annotations

from pathlib import Path
from time import monotonic_ns, time_ns
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.node.gauges import NodeGauges
from runnel.trace.reader import open_trace
from runnel.trace.setup import NodeTrace, TraceOptions, WorldTrace
from runnel.trace.summary import summarise
from runnel.wire import Advertise, Subscribe, make_publication
from support.door import ALL, Door
from support.harness import StepNetwork


def test_a_node_records_in_wall_time_and_takes_its_leave(tmp_path: Path) -> None:
    before = time_ns()
    trace = NodeTrace(TraceOptions(tmp_path), "B", 17, pytest.fail, about={"cores": 2})
    trace.start()
    door = Door(modules=(trace.module,), gauges=NodeGauges(None))
    door.now = monotonic_ns()
    door.connect(1, "pub")
    door.arrive(1, make_publication(7, 1, {"a": 1}, publisher="pub", time_ns=time_ns()))
    trace.record_note("peer-error", {"peer": "pub", "error": "spoke out of turn"})
    assert trace.stop(door.broker)
    found = open_trace(tmp_path)
    summary = summarise(found)
    assert (summary.clock, summary.complaints) == ("wall", [])
    assert [(writer.name, writer.state) for writer in summary.writers] == [("B-17", "ended")]
    (row,) = found.rows("publications")
    assert before <= row["published_ns"] and before <= row["time_ns"] <= time_ns()
    (interval,) = found.rows("intervals")
    assert interval["memory_bytes"] > 1 << 20 and interval["publications_in"] == 1
    (note,) = found.rows("control")
    assert (note["kind"], note["entity"]) == ("peer-error", "pub")
    assert [row["event"] for row in found.rows("brokers")] == ["started", "stopped"]


def world(directory: Path, **settings: Any) -> Path:
    """Two brokers and a minute and a half of publications, traced."""
    network = StepNetwork()
    trace = WorldTrace(TraceOptions(directory, **settings), lambda: network.now)
    network.broker("B1", modules=(trace.module(),))
    network.broker("B2", "B1", modules=(trace.module(),))
    network.advance(2_000_000_000)
    quotes, advert = network.publisher("quotes", "B1", "a >= 0")
    network.subscriber("far", "B2", "a > 20")
    for value in range(90):
        quotes.publish(advert, {"a": value}, time_ns=network.now)
        network.settle()
        network.advance(1_000_000_000)
    trace.close()
    return directory


def test_one_history_gives_one_trace(tmp_path: Path) -> None:
    one, other = world(tmp_path / "one"), world(tmp_path / "other")
    files = [path.relative_to(one) for path in sorted(one.rglob("*")) if path.is_file()]
    assert files == [p.relative_to(other) for p in sorted(other.rglob("*")) if p.is_file()]
    for file in files:
        assert (one / file).read_bytes() == (other / file).read_bytes(), file
    trace = open_trace(one)
    assert trace.read("publications").num_rows == 90
    assert trace.read("deliveries").num_rows == 69
    assert summarise(trace).tables["publications"].files == 2, "one a minute"


def test_settings_reach_their_place(tmp_path: Path) -> None:
    directory = world(tmp_path / "a", sample=10, deliveries=False, interval_ns=30_000_000_000)
    trace = open_trace(directory)
    assert trace.read("publications")["counter"].to_pylist() == list(range(10, 91, 10))
    assert trace.read("deliveries").num_rows == 0
    assert trace.read("intervals", brokers=["B1"]).num_rows == 3
    with pytest.raises(InputError, match="sample must be at least 1"):
        WorldTrace(TraceOptions(tmp_path / "b", sample=0), lambda: 0)


def test_a_broker_routes_the_same_with_a_trace_and_without(tmp_path: Path) -> None:
    trace = WorldTrace(TraceOptions(tmp_path), lambda: 0)
    plain, traced = Door(), Door(modules=(trace.module(),))
    for door in (plain, traced):
        door.connect(1, "pub")
        door.connect(2, "sub")
        door.connect(3, "N", "broker")
        door.arrive(1, Advertise(7, ALL, "near", 9))
        door.arrive(2, Subscribe(20, ALL, 9))
        door.arrive(3, Subscribe(30, ALL, 9))
        door.arrive(1, *(make_publication(7, n, {"a": n}) for n in range(1, 50)))
    for conn in (1, 2, 3):
        one, other = ([getattr(f, "raw", f) for f in d.received(conn)] for d in (plain, traced))
        assert one == other
        assert len(one) >= (0 if conn == 1 else 49)
    trace.close()
    assert open_trace(tmp_path).read("deliveries").num_rows == 49
