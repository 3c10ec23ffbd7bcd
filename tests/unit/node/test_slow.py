"""A slowed broker: its service rate, what does not wait for it, and what its meter says; on a clock that tests move."""

from __future__ import annotations

import pytest

from runnel.broker.events import Disconnected, StopAsked, TimerFired
from runnel.broker.meter import Load, Meter
from runnel.modules.placement.grape_module import Grape
from runnel.modules.placement.messages import Ping, Pong
from runnel.node.gauges import NodeGauges
from runnel.node.limiter import Limiter
from runnel.node.slow import WAKE, SlowBroker
from runnel.quantities import MILLISECOND, SECOND
from runnel.wire import Ack, Bye, Publication, Subscribe, make_publication
from support.door import ALL, Door, busy_door


def slowed(door: Door, factor: float = 1.0, delay_ns: int = 5 * MILLISECOND) -> SlowBroker:
    slow = door.machine = SlowBroker(door.broker, factor, delay_ns)
    return slow


def pass_time(door: Door, ns: int) -> None:
    """Let time pass, with the matcher's timer going off when it must."""
    end = door.now + ns
    while WAKE in door.timers and door.timers[WAKE] <= end:
        door.now = max(door.now, door.timers.pop(WAKE))
        door.event(TimerFired(WAKE))
    door.now = end


def publications(first: int, last: int) -> list[Publication]:
    return [make_publication(7, counter, {"a": counter}) for counter in range(first, last)]


def counters(door: Door, conn: int) -> list[int]:
    return [frame.counter for frame in door.received(conn) if isinstance(frame, Publication)]


def test_publications_leave_in_order_at_the_rate_that_is_asked_for() -> None:
    door = busy_door()
    slow = slowed(door)
    door.arrive(1, *publications(1, 401))
    assert counters(door, 2) == []
    pass_time(door, SECOND)
    assert counters(door, 2) == list(range(1, 201))
    assert slow.inbox.publications == 200
    pass_time(door, SECOND)
    assert counters(door, 2) == list(range(201, 401))
    assert not slow.inbox and WAKE not in door.timers


def test_one_alone_takes_its_time_and_a_pause_earns_nothing() -> None:
    door = busy_door()
    slowed(door)
    pass_time(door, 10 * SECOND)
    door.arrive(1, *publications(1, 3))
    pass_time(door, 5 * MILLISECOND - 1)
    assert counters(door, 2) == []
    pass_time(door, 1)
    assert counters(door, 2) == [1]
    pass_time(door, 5 * MILLISECOND)
    assert counters(door, 2) == [2]


def test_a_timer_that_is_late_costs_no_rate() -> None:
    door = busy_door()
    slowed(door)
    door.arrive(1, *publications(1, 401))
    for _ in range(10):
        door.now += 100 * MILLISECOND
        door.event(TimerFired(WAKE))
    assert counters(door, 2) == list(range(1, 201))


def test_the_factor_counts_what_the_broker_itself_takes() -> None:
    # The broker's clock: each look is a millisecond later.
    ticks = iter(range(0, 10**12, MILLISECOND))
    door = Door(clock=lambda: next(ticks))
    door.connect(1, "pub")
    slow = slowed(door, factor=10.0, delay_ns=0)
    door.arrive(1, *publications(1, 101))
    pass_time(door, SECOND)
    meter = door.broker.meter
    assert meter.publications_in == 101 - 1
    assert meter.matching_ns == pytest.approx(100 * 10 * MILLISECOND, rel=0.02)
    assert slow.delayed_ns == pytest.approx(100 * 9 * MILLISECOND, rel=0.02)


def test_input_beyond_the_rate_is_an_input_ratio_beyond_one() -> None:
    door = busy_door()
    slow, gauges = slowed(door), NodeGauges(None)
    gauges.slow = slow
    before = door.broker.meter.copy()
    for step in range(100):
        door.arrive(1, *publications(1 + 4 * step, 5 + 4 * step))  # 400 in a second
        pass_time(door, 10 * MILLISECOND)
    waiting = gauges().waiting_publications
    assert waiting == 200
    load = Load.between(before, door.broker.meter, SECOND, waiting)
    assert load.input_ratio == pytest.approx(2.0)
    assert load.matching_delay_s == pytest.approx(0.005)
    assert load.input_rate == 200.0


def test_monitoring_and_heartbeats_do_not_wait() -> None:
    door = Door(modules=(Grape(),))
    door.connect(1, "pub")
    door.connect(2, "N", "broker")
    slowed(door)
    door.got.clear()
    door.arrive(1, *publications(1, 2_001))  # ten seconds' worth
    door.arrive(2, *publications(1, 11), Ping(77), Ack(0, 0, 0, False))
    assert door.received(2) == [Pong(77)]
    for _ in range(20):  # neither peer is taken for dead, and both hear from the broker
        pass_time(door, SECOND // 2)
        door.pass_time(0)
        door.arrive(1, Ack(0, 0, 0, False))
        door.arrive(2, Ack(0, 0, 0, False))
    assert door.closed == {}
    assert all(any(isinstance(frame, Ack) for frame in door.got[conn]) for conn in (1, 2))


def test_a_peer_that_only_sends_data_is_not_taken_for_dead() -> None:
    door = busy_door()
    slowed(door)
    door.arrive(1, *publications(1, 2_001))
    for step in range(20):
        pass_time(door, SECOND // 2)
        door.arrive(3, make_publication(8, step + 1, {"a": step}))
        door.pass_time(0)
        door.arrive(1, Ack(0, 0, 0, False))
        door.arrive(2, Ack(0, 0, 0, False))
    assert door.closed == {}


def test_what_changes_routes_stays_in_order_with_publications() -> None:
    door = busy_door()
    door.connect(4, "late")
    slowed(door)
    door.got.clear()
    door.arrive(1, *publications(1, 3))
    door.arrive(4, Subscribe(40, ALL, 9))
    door.arrive(1, *publications(3, 5))
    pass_time(door, SECOND)
    assert counters(door, 2) == [1, 2, 3, 4]
    assert counters(door, 4) == [3, 4]


def test_a_client_that_leaves_has_everything_handed_on_and_one_that_was_closed_nothing() -> None:
    door = busy_door()
    slow = slowed(door)
    door.arrive(1, *publications(1, 11), Bye("enough"))
    door.event(Disconnected(1))
    pass_time(door, SECOND)
    assert counters(door, 2) == list(range(1, 11))
    assert "pub" not in door.broker.links
    door.connect(5, "other")
    door.arrive(5, *publications(11, 1_000))
    door.connect(6, "other")  # another client of that name
    assert 5 in door.closed and not slow.inbox
    pass_time(door, SECOND)
    assert counters(door, 2) == []


def test_a_drain_takes_in_what_has_arrived() -> None:
    door = busy_door()
    slowed(door)
    door.arrive(1, *publications(1, 11))
    door.event(StopAsked())
    pass_time(door, SECOND)
    assert counters(door, 2) == list(range(1, 11))


def test_the_gauges_tell_of_the_system_the_limiter_and_the_matcher() -> None:
    plain = NodeGauges(None)()
    assert plain.memory_bytes is not None and plain.memory_bytes_max is not None
    assert 1 << 20 < plain.memory_bytes < plain.memory_bytes_max
    assert plain.cpu_ns is not None and plain.cpu_ns > 0
    assert (plain.output_busy_ns, plain.waiting_publications) == (None, None)
    door = busy_door()
    gauges = NodeGauges(Limiter(1_000, lambda: 0.0, lambda after: None))
    gauges.slow = slowed(door, delay_ns=SECOND)
    door.arrive(1, *publications(1, 1_001))
    pass_time(door, 500 * SECOND)
    told = gauges()
    assert (told.output_busy_ns, told.waiting_publications) == (0, 500)
    assert told.waiting_bytes == sum(len(one.raw) for one in publications(501, 1_001))
    assert told.cpu_ns is not None and told.cpu_ns >= 500 * SECOND
    assert Load.between(Meter(), door.broker.meter, 500 * SECOND).input_ratio == 1.0
