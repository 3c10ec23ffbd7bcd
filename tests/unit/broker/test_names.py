"""Names: of two clients of one name one stays, wherever they are; a second broker of one name is refused."""

from __future__ import annotations

import pytest

from runnel.broker.broker import Broker
from runnel.broker.events import Connected, Disconnected
from runnel.client.effects import Dismissed
from runnel.quantities import SECOND
from runnel.wire import PROTOCOL, Ack, Bye, ClientHere, Hello, Listens
from support.door import Door
from support.harness import StepNetwork


def chain() -> StepNetwork:
    net = StepNetwork()
    for name, dials in (("B1", ()), ("B2", ("B1",)), ("B3", ("B2",))):
        net.broker(name, *dials)
    net.settle()
    return net


def homes(net: StepNetwork, client: str) -> list[str]:
    brokers = {name: node for name, node in net.nodes.items() if isinstance(node, Broker)}
    return [name for name, broker in brokers.items() if client in broker.links]


def test_of_two_clients_at_different_brokers_the_later_one_stays() -> None:
    net = chain()
    net.session("first", "B1", client="alice")
    net.session("second", "B3", client="alice")
    assert homes(net, "alice") == ["B3"]
    assert not net.effects("second", Dismissed)
    (dismissed,) = net.effects("first", Dismissed)
    assert dismissed.reason == "another client called alice has connected at B3"


def test_of_two_clients_that_come_at_once_the_later_one_stays() -> None:
    net = chain()
    for name, home in (("first", "B1"), ("second", "B3")):
        net.session(name, client="alice").connect(home, net.now)
    net.settle()
    assert homes(net, "alice") == ["B3"]
    assert [len(net.effects(name, Dismissed)) for name in ("first", "second")] == [1, 0]


def test_a_client_that_moves_is_not_its_own_namesake() -> None:
    net = chain()
    session = net.session("alice", "B1")
    session.move_to("B3", net.now)
    net.settle()
    assert homes(net, "alice") == ["B3"]
    assert not net.effects("alice", Dismissed)


@pytest.mark.parametrize("token", [1 << 40, (1 << 40) + 5])
def test_a_client_that_comes_back_by_another_broker_is_the_same(token: int) -> None:
    door = Door()
    door.connect(1, "N", "broker")
    door._token = 1 << 40
    door.connect(2, "alice")
    door.arrive(1, ClientHere("alice", token, "B9", 3))
    assert "alice" in door.broker.links


def test_who_tells_of_an_earlier_client_is_told_of_the_later_one() -> None:
    door = Door()
    door.connect(1, "N", "broker")
    door._token = 5 << 40
    door.connect(2, "alice")
    door.received(1)
    door.arrive(1, ClientHere("alice", 4 << 40, "B9", 3))
    assert "alice" in door.broker.links
    (here,) = door.received(1)
    assert isinstance(here, ClientHere) and (here.token, here.broker) == ((5 << 40) + 1, "B")


def test_what_is_told_of_clients_ends_somewhere_even_in_a_loop() -> None:
    door = Door()
    for conn, name in ((1, "N1"), (2, "N2")):
        door.connect(conn, name, "broker")
    door.arrive(1, ClientHere("alice", 7, "B9", 1))
    assert [frame.ttl for frame in door.received(2) if isinstance(frame, ClientHere)] == [0]
    door.arrive(1, ClientHere("alice", 7, "B9", 0))
    assert not [frame for frame in door.received(2) if isinstance(frame, ClientHere)]


# -- brokers ----------------------------------------------------------------------------------------------


HERE, THERE = "runnel://10.0.0.1:7001", "runnel://10.0.0.2:7001"


def connect(door: Door, conn: int, process: int, address: str) -> None:
    """A broker N says Hello; each process has tokens of its own."""
    door.event(Connected(conn))
    door.arrive(conn, Hello(PROTOCOL, "broker", "N", (process << 20) + 1, 0, 0, 0, 0))
    door.arrive(conn, Listens(address))


def pass_beats(door: Door, beats: int, *alive: int) -> None:
    for _ in range(2 * beats):
        for conn in alive:
            door.arrive(conn, Ack(0, 0, 0, False))
        door.pass_time(SECOND // 2)


def test_a_second_broker_of_one_name_is_refused_if_the_first_lives() -> None:
    door = Door()
    connect(door, 1, 7, HERE)
    connect(door, 2, 8, THERE)
    pass_beats(door, 3, 1)
    assert list(door.closed) == [2] and door.broker.links["N"].conn == 1
    (bye,) = [frame for frame in door.got[2] if isinstance(frame, Bye)]
    assert bye.is_final and HERE in bye.reason and THERE in bye.reason
    assert [one.address for one in door.broker.refusals.list_given(door.now)] == [THERE]
    pass_beats(door, 20, 1)
    assert not door.broker.refusals.list_given(door.now), "it has not come back"


def test_a_broker_of_the_own_name_is_refused() -> None:
    door = Door(address=HERE)
    door.event(Connected(1))
    door.arrive(1, Hello(PROTOCOL, "broker", "B", 5, 0, 0, 0, 0))
    (bye,) = door.got[1]
    assert (
        isinstance(bye, Bye)
        and f"the name B is taken: the broker that was dialled, at {HERE}" in bye.reason
    )


def test_it_takes_the_place_of_one_that_says_nothing_any_more() -> None:
    door = Door()
    connect(door, 1, 7, HERE)
    connect(door, 2, 8, THERE)
    pass_beats(door, 3)
    assert list(door.closed) == [1] and door.broker.links["N"].conn == 2


def test_a_process_that_comes_again_is_taken_at_once() -> None:
    door = Door()
    connect(door, 1, 7, HERE)
    connect(door, 2, 7, HERE)
    assert list(door.closed) == [1] and door.broker.links["N"].conn == 2


def test_a_broker_that_starts_again_is_taken_when_its_old_connection_is_gone() -> None:
    door = Door()
    connect(door, 1, 7, HERE)
    connect(door, 2, 8, HERE)
    assert not door.closed
    door.event(Disconnected(1))
    assert not door.closed and door.broker.links["N"].conn == 2


def test_the_address_of_a_broker_that_lives_takes_nobody_its_place() -> None:
    """Anybody can say it."""
    door = Door()
    connect(door, 1, 7, HERE)
    connect(door, 2, 8, HERE)
    pass_beats(door, 3, 1)
    assert list(door.closed) == [2] and door.broker.links["N"].conn == 1


def test_who_is_refused_says_so_once_and_tries_again() -> None:
    door = Door("N", address=HERE)
    for conn in (1, 2):
        door.event(Connected(conn, "N"))
        door.arrive(conn, Bye("the name B is taken", is_final=True))
        assert conn in door.closed
        door.pass_time(SECOND // 2)
    assert [trace.data for trace in door.traces if trace.kind == "refused-by"] == [
        {"peer": "N", "reason": "the name B is taken"}
    ]
    assert door.dialled.count("N") >= 3
    assert [one.name for one in door.broker.refusals.list_got(door.now)] == ["N"]
    connect_answer(door, 3)
    assert not door.broker.refusals.list_got(door.now)


def connect_answer(door: Door, conn: int) -> None:
    """N answers a dial as it should."""
    door.event(Connected(conn, "N"))
    door.arrive(conn, Hello(PROTOCOL, "broker", "N", 5, 0, 0, 0, 0))
