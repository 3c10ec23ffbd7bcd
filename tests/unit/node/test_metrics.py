"""Metrics are read from a broker without changing it, in Prometheus' format, and counters never go back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from runnel.broker.gauges import Gauges
from runnel.node.exposition import Sample, write_metric
from runnel.node.metrics import METRICS, MetricsSource, write_metrics
from runnel.wire import ID_MAX, Advertise, Bye, Subscribe, make_publication
from support.door import ALL, Door, busy_door
from support.scraping import ScrapedMetric, read_metrics, value_of

UNITS = ("_bytes", "_seconds", "_publications", "_info", "_routes", "_links", "_up")


def scrape(door: Door, events: Counter[str] | None = None) -> dict[str, ScrapedMetric]:
    return read_metrics(write_metrics([MetricsSource(door.broker, events or Counter(), 5.0)]))


def publish(door: Door, conn: int, count: int, advertisement: int = 7) -> None:
    for n in range(count):
        door.arrive(conn, make_publication(advertisement, n + 1, {"n": n}))


def test_received_delivered_and_forwarded_are_told_apart() -> None:
    door = busy_door()
    publish(door, 1, 5)
    publish(door, 3, 2, advertisement=8)
    found = scrape(door)
    received = "runnel_publications_received_total"
    assert value_of(found, received, peer="client") == 5
    assert value_of(found, received, peer="broker") == 2
    assert value_of(found, "runnel_publications_delivered_total") == 7
    assert value_of(found, "runnel_publications_forwarded_total") == 5
    assert value_of(found, "runnel_matches_total") == 7
    assert value_of(found, "runnel_routes", table="subscriptions") == 2
    assert value_of(found, "runnel_routes", table="advertisements") == 2
    assert value_of(found, "runnel_links", peer="client", state="up") == 2
    assert value_of(found, "runnel_neighbour_up", neighbour="N") == 1
    assert value_of(found, "runnel_in_flight_bytes", peer="broker") > 0
    assert value_of(found, "runnel_start_time_seconds") == 5.0


def test_what_a_peer_had_stays_counted_when_it_has_left() -> None:
    door = busy_door()
    publish(door, 1, 5)
    before = scrape(door)
    door.arrive(1, Bye("enough"))
    door.arrive(2, Bye("enough"))
    after = scrape(door)
    for name, metric in before.items():
        if metric.kind == "counter":
            for labels, value in metric.samples.items():
                assert after[name].samples[labels] >= value, (name, labels)
    meter = door.broker.meter
    assert value_of(after, "runnel_publications_received_total") == meter.publications_in == 5
    sent = [f"runnel_publications_{how}_total" for how in ("delivered", "forwarded")]
    assert sum(value_of(after, name) for name in sent) == meter.publications_out == 10
    assert value_of(after, "runnel_links", peer="client") == 0


def test_drops_and_what_is_lost_with_a_peer_are_counted() -> None:
    door = Door()
    door.connect(1, "pub")
    door.connect(2, "sub")
    door.arrive(1, Advertise(7, ALL, "pub", 9))
    door.arrive(2, Subscribe(20, ALL, 9))
    payload = b"x" * 500_000
    for n in range(40):
        door.arrive(1, make_publication(7, n + 1, {"n": n}, payload))
    found = scrape(door)
    dropped = value_of(found, "runnel_publications_dropped_total", reason="queue")
    assert dropped == door.broker.meter.dropped > 0
    assert value_of(found, "runnel_queue_bytes", peer="client") > 8_000_000
    door.arrive(2, Bye("enough"))
    found = scrape(door)
    gone = ("runnel_publications_discarded_total", "runnel_publications_in_doubt_total")
    discarded, in_doubt = (value_of(found, name) for name in gone)
    assert discarded + in_doubt == 40 - dropped and discarded > 0 and in_doubt > 0


def test_any_name_of_a_neighbour_can_be_read_back() -> None:
    odd = 'N "1\\2{},='
    door = Door()
    door.connect(1, odd, "broker")
    assert value_of(scrape(door), "runnel_neighbour_up", neighbour=odd) == 1


def test_any_label_can_be_read_back() -> None:
    odd = 'a "\\" in\ntwo lines, \\n'
    text = write_metric("odd", "gauge", odd, [Sample(0.1, {"said": odd, "empty": ""})])
    (metric,) = read_metrics(text).values()
    assert metric.samples == {(("empty", ""), ("said", odd)): 0.1}


def test_generations_are_told_apart_and_the_process_is_there_once() -> None:
    gauges = Gauges(cpu_ns=1_500_000_000, memory_bytes=1 << 20, output_busy_ns=0)
    doors = [Door(generation=generation, gauges=lambda: gauges) for generation in (3, 4)]
    doors[1].connect(1, "alice")
    sources = [MetricsSource(door.broker, Counter(), 5.0) for door in doors]
    found = read_metrics(write_metrics(sources))
    alive: dict[str, Any] = {"peer": "client", "state": "up"}
    assert value_of(found, "runnel_links", generation="3", **alive) == 0
    assert value_of(found, "runnel_links", generation="4", **alive) == 1
    assert found["process_cpu_seconds_total"].samples == {(): 1.5}
    assert found["process_resident_memory_bytes"].samples == {(): 1 << 20}
    assert found["runnel_output_busy_seconds_total"].samples == {(): 0.0}


def test_what_this_driver_does_not_measure_is_left_out() -> None:
    found = scrape(Door())
    for name in ("process_cpu_seconds_total", "runnel_matching_queue_publications"):
        assert name not in found


def test_large_counts_lose_nothing() -> None:
    door = Door()
    door.broker.meter.bytes_in = ID_MAX
    text = write_metrics([MetricsSource(door.broker, Counter(), 5.0)])
    assert f'runnel_received_bytes_total{{generation="1"}} {ID_MAX}\n' in text


def test_events_and_migrations_are_counted() -> None:
    found = scrape(Door(), Counter({"link-up": 3, "migration-ends": 2}))
    assert value_of(found, "runnel_events_total", event="link-up") == 3
    assert value_of(found, "runnel_migrations_total", stage="ends") == 2
    assert value_of(found, "runnel_migrations_total", stage="begins") == 0


def test_reading_changes_nothing() -> None:
    door = busy_door()
    publish(door, 1, 3)
    source = MetricsSource(door.broker, Counter(), 5.0)
    assert write_metrics([source]) == write_metrics([source])


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_end_in_their_unit(metric: Any) -> None:
    name = metric.name.removesuffix("_total")
    assert metric.kind == "counter" or name.endswith(UNITS), name
    assert metric.name.startswith(("runnel_", "process_"))
    assert metric.purpose.endswith(".")
