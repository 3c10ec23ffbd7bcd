"""Who may send what: every registered message, from every kind of peer, before and after its Hello."""

from __future__ import annotations

import pytest

from runnel.broker.events import Connected, FramesArrived
from runnel.broker.kinds import KINDS
from runnel.broker.questions import Command
from runnel.client.effects import BrokerErred
from runnel.errors import BugError
from runnel.wire import (
    REGISTRY,
    Advertise,
    Barrier,
    Fence,
    Hello,
    Lane,
    Loss,
    Message,
    MissingLinks,
    Refused,
    Registry,
    Subscribe,
    Unsubscribe,
    Way,
    make_publication,
)
from runnel.wire.bounds import fields_without_bounds
from runnel.wire.header import FIRST_FRAMES_BYTES_MAX
from support.door import ALL, Door, busy_door
from support.fuzzing import Maker
from support.harness import StepNetwork

MESSAGES = REGISTRY.messages
OF_TESTS = [message for message in MESSAGES if not message.__module__.startswith("runnel.")]
REFUSAL = "may not send a"


class NobodysMessage(Message, frozen=True):
    """For a registry of its own."""


class BoundlessMessage(Message, frozen=True):
    """Of any size."""

    rows: list[dict[str, float]]


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_has_senders_and_bounds(message: type[Message]) -> None:
    assert REGISTRY.ways(message)
    assert fields_without_bounds(message) == []


def test_a_message_without_senders_or_bounds_is_not_registered() -> None:
    with pytest.raises(BugError, match="nobody may send a NobodysMessage"):
        Registry().register(40, NobodysMessage, Lane.DATA, Way(0))
    with pytest.raises(
        BugError, match=r"BoundlessMessage\.rows, .*rows\[\], .*rows\[\]\[\]: a peer"
    ):
        Registry().register(40, BoundlessMessage, Lane.DATA, Way.ALL)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("message", MESSAGES)
def test_a_peer_sends_what_is_for_it_to_send_and_nothing_else(
    message: type[Message], kind: str
) -> None:
    maker = Maker(1)
    for n in range(5):
        door = Door()
        door.connect(1, "victim")
        door.connect(2, "peer", kind)
        door.arrive(2, maker.frame(message))
        reason = door.closed.get(2, "")
        if REGISTRY.may_go(message, KINDS[kind].says):
            assert REFUSAL not in reason, n
        else:
            assert f"{REFUSAL} {message.__name__}" in reason
            assert list(door.broker.links) == ["victim"]
        assert 1 not in door.closed


@pytest.mark.parametrize("message", [m for m in MESSAGES if m is not Hello])
def test_nothing_comes_before_the_hello(message: type[Message]) -> None:
    door = Door()
    door.event(Connected(1))
    maker = Maker(1)
    frame = next(f for _ in range(50) if len(f := maker.frame(message)) <= FIRST_FRAMES_BYTES_MAX)
    door.arrive(1, frame)
    assert "must be Hello" in door.closed[1]


def test_who_has_not_been_let_in_fills_no_memory() -> None:
    door = Door()
    door.event(Connected(1))
    door.arrive(1, (FIRST_FRAMES_BYTES_MAX + 1).to_bytes(4, "big"))
    assert "a frame of" in door.closed[1]
    door.connect(2, "alice")
    door.arrive(2, (FIRST_FRAMES_BYTES_MAX + 1).to_bytes(4, "big"))
    assert 2 not in door.closed


def test_an_operator_publishes_nothing() -> None:
    door = Door()
    door.connect(1, "operator", "operator")
    door.arrive(1, make_publication(1, 1, {}))
    assert "may not publish" in door.closed[1]


def test_commands_are_for_operators() -> None:
    assert [kind.name for kind in KINDS.values() if kind.gives_commands] == ["operator"]
    assert Command.__subclasses__()


@pytest.mark.parametrize("message", [m for m in MESSAGES if m not in (Hello, *OF_TESTS)])
def test_a_client_takes_what_is_for_clients(message: type[Message]) -> None:
    network = StepNetwork()
    network.broker("B")
    session = network.session("alice", "B")
    assert session.home is not None
    conn = session.home.conn
    network.event("alice", FramesArrived(conn, Maker(1).frame(message)))
    refused = network.effects("alice", BrokerErred)
    assert bool(refused) == (not REGISTRY.may_go(message, Way.TO_CLIENT))
    if refused:
        assert refused[0].reason == f"B sent a {message.__name__} to a client"
        assert session.home is None, "it does not come back for more"


# -- names ---------------------------------------------------------------------------------------------


def test_only_brokers_that_are_named_become_neighbours() -> None:
    door = Door("dialled", accepts=("accepted",), accepts_any=False)
    for conn, name in enumerate(("dialled", "accepted"), 1):
        door.connect(conn, name, "broker")
    assert not door.closed
    door.connect(3, "B9", "broker")
    assert door.closed == {
        3: "broker B9 is no neighbour of B: if it is to be one, add it to `accept` in the configuration of B"
    }
    assert sorted(door.broker.links) == ["accepted", "dialled"]


@pytest.mark.parametrize("kind", ["client", "operator"])
@pytest.mark.parametrize("name", ["dialled", "accepted"])
def test_nobody_takes_the_name_of_a_neighbour_that_is_away(kind: str, name: str) -> None:
    door = Door("dialled", accepts=("accepted",))
    door.connect(1, name, kind)
    assert door.closed[1] == f"a {kind} called {name}, which is a broker's name here"
    door.connect(2, name, "broker")
    assert door.broker.links[name].is_neighbour


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J"])
def test_a_name_can_be_printed(name: str) -> None:
    door = Door()
    door.connect(1, name)
    assert "a name has printable characters" in door.closed[1]


# -- ids -----------------------------------------------------------------------------------------------

CONFLICTS: dict[str, Message] = {
    "subscribes": Subscribe(20, ALL, 9),
    "advertises": Advertise(7, ALL, "x", 9),
    "withdraws": Unsubscribe(20),
}


@pytest.mark.parametrize("what", CONFLICTS)
def test_a_broker_is_not_blamed_for_an_id_that_some_client_made_up(what: str) -> None:
    """The link between two brokers is everybody's: no two clients that agree on an id may take it down."""
    door = busy_door()
    door.arrive(3, CONFLICTS[what])
    assert not door.closed
    assert [trace.kind for trace in door.traces] == ["id-conflict"]
    assert (door.broker.tables.prt[20].link.name, door.broker.tables.srt[7].link.name) == (
        "sub",
        "pub",
    )
    door.connect(4, "other")
    door.arrive(4, CONFLICTS[what])
    if what == "withdraws":
        assert list(door.closed) == [4]
    else:  # somebody else may have guessed the id that it was to have
        (refused,) = door.received(4)
        assert isinstance(refused, Refused) and "is in use" in refused.reason and not door.closed


# -- fences --------------------------------------------------------------------------------------------


def test_a_client_does_not_end_a_loss_with_a_fence_that_others_owe() -> None:
    """Tokens of brokers can be guessed, and what is lost until the true fence comes would be lost in silence."""
    door = busy_door()
    door.now = 5
    door.arrive(3, MissingLinks(("N–X",)), Loss("N–X", 1, 0, "lost", advertisements=(8,)))
    door.received(3)
    door.arrive(3, MissingLinks(()))
    (barrier,) = (one for one in door.received(3) if isinstance(one, Barrier))
    door.received(2)
    door.arrive(1, Fence(barrier.token))
    assert door.broker.losses.open and not door.received(2)
    door.arrive(3, Fence(barrier.token))
    (over,) = door.received(2)
    assert isinstance(over, Loss) and over.until_ns and not door.broker.losses.open
