"""How long messages take: queues from counts, links from pings."""

from __future__ import annotations

import pytest

from runnel.broker.gauges import Gauges
from runnel.modules.placement.config import PlacementConfig
from runnel.modules.placement.delays import WINDOW_NS, Delays, Reading, wait_ns
from runnel.modules.placement.grape_module import Grape
from runnel.modules.placement.messages import Ping, Pong
from runnel.quantities import SECOND
from runnel.sim.resources import Resources
from support.door import Door
from support.placed import PlacementWorld


@pytest.mark.parametrize(
    ("busy_ns", "served", "wait"),
    [(0, 10, 0), (500, 0, 0), (500, 5, 50), (800, 8, 200), (10**6, 10, 4_950_000)],
)
def test_the_wait_grows_with_how_busy_a_server_is(busy_ns: int, served: int, wait: int) -> None:
    assert wait_ns(busy_ns, served, 1_000) == pytest.approx(wait)


def test_a_reading_is_of_the_time_since_the_last_and_holds_for_a_while() -> None:
    busy_ns = 0
    door = Door(gauges=lambda: Gauges(output_busy_ns=busy_ns))
    delays = Delays()
    delays.start(door.broker, 0)
    meter = door.broker.meter
    meter.publications_in, meter.frames_out, meter.bytes_out = 10, 20, 5_000
    meter.matching_ns, busy_ns = SECOND // 2, SECOND // 5
    first = delays.read(door.broker, SECOND)
    assert first.matching_ns == SECOND // 20
    assert first.input_ns == SECOND // 40  # half busy: half of a service
    assert first.output_ns == round(SECOND / 100 * (1 + 0.2 / 1.6))
    assert first.output_to(1_000) == first.output_ns + SECOND // 5
    meter.matching_ns = 9 * SECOND
    assert delays.read(door.broker, SECOND + WINDOW_NS - 1) is first
    assert delays.read(door.broker, SECOND + WINDOW_NS) == Reading(window_ns=WINDOW_NS)


def test_without_gauges_matching_counts_and_sending_does_not() -> None:
    door = Door()
    delays = Delays()
    delays.start(door.broker, 0)
    door.broker.meter.publications_in, door.broker.meter.matching_ns = 4, 4_000
    reading = delays.read(door.broker, SECOND)
    assert (reading.matching_ns, reading.output_ns) == (1_000, 0)


def test_what_waits_with_nothing_leaving_takes_no_more_than_a_window() -> None:
    assert Reading(output_ns=5, bytes_out=0).output_to(1) == 5 + WINDOW_NS
    assert Reading(output_ns=5, bytes_out=1, window_ns=10**18).output_to(9) == 5 + WINDOW_NS


def test_a_ping_is_answered_and_an_answer_to_nothing_is_ignored() -> None:
    door = Door(modules=(Grape(),))
    door.connect(1, "B2", "broker")
    door.arrive(1, Ping(77), Pong(77), Pong(0))
    assert door.received(1) == [Pong(77)]


def test_links_are_measured_where_sessions_pass_and_not_too_often() -> None:
    links = (("A", "B"), ("B", "C"))
    config = PlacementConfig("grape", g_threshold=2, ping_every_s=30)
    placed = PlacementWorld(links, config, latencies_ms={("A", "B"): 7.0, ("B", "C"): 0.5})
    placed.subscribers("C", 1)
    placed.publisher("P", "A")
    placed.publish("P", range(6))
    assert len(placed.decisions("grape")) == 3
    assert placed.messages_in("Pong") == {"A": 5, "B": 5}, "once for three sessions"
    assert placed.decisions("grape")[-1]["delay_s"] == pytest.approx(0.0075)
    placed.run(30)
    placed.publish("P", range(2))
    assert placed.messages_in("Pong") == {"A": 10, "B": 10}


def test_the_delay_counts_matching_and_sending() -> None:
    """1 ms each to match and 100 bytes/ms to send, at a rate that leaves the brokers idle nearly all the time."""
    resources = Resources(match_ns_base=1_000_000, output_bytes_per_second=100_000)
    placed = PlacementWorld(
        (("A", "B"),), PlacementConfig("grape", g_threshold=50), resources=resources
    )
    placed.subscribers("B", 1)
    placed.publisher("P", "A")
    placed.publish("P", range(50), every_s=1)
    (decided,) = placed.decisions("grape")
    sending_s = {
        name: placed.world.hosts[name].sending_ns / placed.broker(name).meter.frames_out / SECOND
        for name in ("A", "B")
    }
    assert decided["delay_there_s"] == pytest.approx(0.001 + sending_s["B"], rel=0.05)
    link_s = 0.001 + 14 / 100_000  # a ping is sent, too
    assert decided["delay_s"] - decided["delay_there_s"] == pytest.approx(
        0.001 + sending_s["A"] + link_s, rel=0.05
    )
