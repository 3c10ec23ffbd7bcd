"""Kinds of peers: what sets an operator apart, and a kind that is added by a row."""

from __future__ import annotations

import pytest

from runnel.broker.events import Connected, Disconnected
from runnel.broker.kinds import KINDS, PeerKind
from runnel.quantities import SECOND
from runnel.wire import (
    PROTOCOL,
    Advertise,
    Bye,
    Hello,
    Message,
    Subscribe,
    Unsubscribe,
    Way,
    make_publication,
)
from support.door import ALL, Door


@pytest.fixture
def door() -> Door:
    """A broker with a subscriber to everything on 1."""
    door = Door()
    door.connect(1, "sub")
    door.arrive(1, Subscribe(20, ALL, 9))
    return door


@pytest.mark.parametrize("message", [Subscribe(21, ALL, 9), Advertise(8, ALL, "x", 9)])
def test_an_operator_has_no_part_in_routing(door: Door, message: Message) -> None:
    door.connect(2, "op", "operator")
    door.arrive(2, message)
    assert f"may not send a {type(message).__name__}" in door.closed[2]
    assert not door.broker.tables.srt and list(door.broker.tables.prt) == [20]


def test_an_operator_is_told_nothing_of_routes(door: Door) -> None:
    door.connect(3, "pub")
    door.arrive(3, Advertise(8, ALL, "pub", 9))
    door.connect(2, "op", "operator")
    assert door.received(2) == []


def test_an_operator_that_goes_without_a_word_is_forgotten_and_a_client_is_not(door: Door) -> None:
    door.connect(2, "op", "operator")
    for conn in (1, 2):
        door.event(Disconnected(conn))
    door.pass_time(SECOND // 2)
    assert list(door.broker.links) == ["sub"]


def test_an_operator_says_farewell_like_everybody(door: Door) -> None:
    door.connect(2, "op", "operator")
    door.arrive(2, Bye("asked enough"))
    assert "op" not in door.broker.links
    assert "peer-error" not in [trace.kind for trace in door.traces]


def test_a_kind_that_is_not_known_is_refused(door: Door) -> None:
    door.event(Connected(2))
    door.arrive(2, Hello(PROTOCOL, "robot", "r2", 5, 0, 0, 0, 0))
    assert "there is no kind of peer 'robot'" in door.closed[2]
    assert "r2" not in door.broker.links


@pytest.fixture
def with_gateways(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind that this release does not have: a neighbour that is not kept when its connection breaks."""
    gateway = PeerKind(
        "gateway",
        "client_link",
        Way.BETWEEN_BROKERS,
        Way.BETWEEN_BROKERS,
        is_neighbour=True,
        resumes=False,
    )
    monkeypatch.setitem(KINDS, gateway.name, gateway)


@pytest.mark.usefixtures("with_gateways")
def test_a_kind_is_added_by_a_row(door: Door) -> None:
    door.connect(3, "pub")
    door.arrive(3, Advertise(8, ALL, "pub", 9))
    door.connect(2, "G", "gateway")
    link = door.broker.links["G"]
    assert link.config == door.broker.config.client_link
    assert [type(frame) for frame in door.received(2)] == [Advertise], "routes lie behind it"
    door.arrive(2, Subscribe(21, ALL, 9))
    door.arrive(3, make_publication(8, 1, {"a": 1}))
    (forwarded,) = door.received(2)
    assert forwarded.ttl < make_publication(8, 1, {"a": 1}).ttl, "and not the edge of the network"  # type: ignore[union-attr]
    door.arrive(2, Unsubscribe(21), Subscribe(22, ALL, 9))
    door.event(Disconnected(2))
    door.pass_time(SECOND // 2)
    assert "G" not in door.broker.links and 22 not in door.broker.tables.prt
