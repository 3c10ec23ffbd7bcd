"""A broker that is asked to stop hands on what it has first; a client that does not keep up holds it back."""

from __future__ import annotations

import pytest

from runnel.broker.effects import Exit
from runnel.broker.events import Connected, StopAsked
from runnel.broker.links import LinkConfig
from runnel.client.effects import Confirmed, HomeDown, HomeUp, MissedSome, Unconfirmed
from runnel.language import parse
from runnel.quantities import SECOND
from runnel.wire import PROTOCOL, Bye, Hello, Subscribe
from support.door import ALL, Door
from support.harness import StepNetwork


@pytest.fixture
def net() -> StepNetwork:
    net = StepNetwork()
    net.broker("B2")
    net.broker("B1", "B2")
    net.settle()
    return net


def test_a_broker_stops_when_everything_it_has_was_taken(net: StepNetwork) -> None:
    net.session("sub", "B2").subscribe(parse("a > 0"))
    publisher = net.session("pub", "B1")
    id = publisher.advertise("pub", parse("a > 0"))
    net.settle()
    for value in range(1, 6):
        publisher.publish(id, {"a": value})
    net.flush()
    while not net.effects("pub", Confirmed):  # B1 has them, B2 has not said so
        net.step()
    net.event("B1", StopAsked())
    assert not net.effects("B1", Exit), "B2 has not confirmed what B1 handed on"
    net.settle()
    net.advance(SECOND)  # the acknowledgements of fewer than a batch come with the tick
    assert len(net.effects("B1", Exit)) == 1
    assert net.delivered("sub") == [1, 2, 3, 4, 5]
    assert not net.effects("pub", Unconfirmed)
    assert len(net.effects("pub", HomeDown)) == 1
    assert not net.nodes["B1"].links and "B1" not in net.nodes["B2"].links
    assert not net.nodes["B2"].tables.srt, "what came from B1 is gone with it"


def test_publishers_have_no_credit_at_a_broker_that_stops(net: StepNetwork) -> None:
    publisher = net.session("pub", "B1")
    publisher.advertise("pub", parse("a > 0"))
    slow = net.session("slow", "B1")
    slow.subscribe(parse("a > 0"))
    net.settle()
    slow.hold(True)
    net.flush()
    id = next(iter(publisher.publishers))
    publisher.publish(id, {"a": 1})
    net.settle()
    net.event("B1", StopAsked())
    net.settle()
    assert publisher.credit == 0
    assert not net.effects("B1", Exit), "a subscriber has not taken what is for it"
    slow.hold(False)
    net.settle()
    net.advance(SECOND)
    assert net.effects("B1", Exit) and net.delivered("slow") == [1]


def test_nobody_waits_for_what_is_owed_to_the_dead(net: StepNetwork) -> None:
    net.session("sub", "B2").subscribe(parse("a > 0"))
    publisher, id = net.publisher("pub", "B1", "a > 0")
    net.unreachable["B2"] = None
    net.cut("B1", "B2")
    publisher.publish(id, {"a": 1})
    net.settle()
    net.event("B1", StopAsked())
    assert not net.effects("B1", Exit), "B2 may come back"
    net.advance(3 * SECOND)
    assert net.effects("B1", Exit)


def test_of_two_clients_of_one_name_the_last_stays_and_the_first_is_told() -> None:
    door = Door()
    door.connect(1, "alice")
    door.arrive(1, Subscribe(20, ALL, 9))
    door.received(1)
    door.connect(2, "alice")
    (bye,) = [frame for frame in door.received(1) if isinstance(frame, Bye)]
    assert bye.is_final and "another client called alice" in bye.reason
    assert "client-displaced" in [trace.kind for trace in door.traces]
    assert list(door.closed) == [1]
    assert not door.broker.tables.prt, "what the first had set up went with it"


def test_a_client_comes_back_fresh_after_a_farewell(net: StepNetwork) -> None:
    session = net.session("sub", "B1")
    session.subscribe(parse("a > 0"))
    net.settle()
    net.event("B1", StopAsked())
    net.advance(SECOND)  # B2 acknowledges what it has
    net.crash("B1")
    net.broker("B1", "B2")
    net.advance(2 * SECOND)
    assert [up.fresh for up in net.effects("sub", HomeUp)] == [True, True]
    assert len(net.nodes["B1"].tables.prt) == 1


def test_a_client_that_holds_is_sent_a_window_and_no_more() -> None:
    net = StepNetwork()
    limits = LinkConfig(window_bytes=1_000, queue_bytes_max=3_000, ack_every=1)
    net.broker("B1", client_link=limits)
    net.settle()
    slow, publisher = net.session("slow", "B1"), net.session("pub", "B1")
    slow.subscribe(parse("a > 0"))
    id = publisher.advertise("pub", parse("a > 0"))
    net.settle()
    slow.hold(True)
    net.settle()
    for value in range(1, 101):
        publisher.publish(id, {"a": value}, b"x" * 100)
        net.settle()
    taken = len(net.delivered("slow"))
    assert 1_000 <= taken * 150 < 1_200
    for _ in range(10):
        net.advance(SECOND)
    assert not net.effects("slow", HomeDown), "its heartbeats go on"
    assert len(net.delivered("slow")) == taken
    slow.hold(False)
    net.settle()
    net.advance(SECOND)
    missed = sum(some.count for some in net.effects("slow", MissedSome))
    delivered = net.delivered("slow")
    assert missed > 0 and len(delivered) + missed == 100
    assert delivered == sorted(delivered) and delivered[-1] == 100


def test_a_hello_that_was_under_way_for_long_disturbs_nobody() -> None:
    door = Door()
    hello = Hello(PROTOCOL, "client", "alice", 5, 0, 0, 0, 0)
    for conn in (1, 2):
        door.event(Connected(conn))
    door.arrive(2, hello)
    door.arrive(2, Subscribe(20, ALL, 9))
    door.received(2)
    door.arrive(1, hello)  # by a connection that alice gave up, for want of an answer
    assert list(door.closed) == [1]
    assert not door.received(2)
    assert len(door.broker.tables.prt) == 1


def test_a_client_that_never_got_our_hello_is_not_taken_for_another() -> None:
    door = Door()
    for conn in (1, 2):
        door.event(Connected(conn))
        door.arrive(conn, Hello(PROTOCOL, "client", "alice", 5, 0, 0, 0, 0))
    assert list(door.closed) == [1]
    assert not door.received(1), "no farewell for ever"
    door.arrive(2, Subscribe(20, ALL, 9))
    assert len(door.broker.tables.prt) == 1


def test_what_a_peer_that_lost_its_memory_had_not_got_is_counted(net: StepNetwork) -> None:
    net.session("sub", "B2").subscribe(parse("a > 0"))
    publisher, id = net.publisher("pub", "B1", "a > 0")
    net.crash("B2")
    for value in range(1, 4):
        publisher.publish(id, {"a": value})
    net.settle()
    net.broker("B2")
    net.advance(SECOND)
    told = [trace.data for name, trace in net.traces if (name, trace.kind) == ("B1", "discarded")]
    assert told == [{"peer": "B2", "count": 3, "in_doubt": 0}]
    assert net.nodes["B1"].meter.discarded == 3 and net.nodes["B1"].meter.dropped == 0
