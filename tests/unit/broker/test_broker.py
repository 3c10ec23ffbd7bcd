"""The door: peers that break the rules, connections that come and go, the order of what goes out."""

from __future__ import annotations

import msgspec
import pytest

from runnel.broker.effects import SendMany
from runnel.broker.events import Connected, Disconnected, FramesArrived
from runnel.broker.links import Link, LinkConfig
from runnel.broker.module import Context, Module
from runnel.quantities import SECOND
from runnel.wire import (
    PROTOCOL,
    Ack,
    Advertise,
    Barrier,
    Fence,
    Hello,
    Lane,
    Message,
    Missed,
    Publication,
    Refused,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Way,
    make_publication,
    register,
)
from runnel.wire.messages import Id
from support.door import ALL, Door, busy_door
from support.harness import MonitorProbe

BEAT = SECOND


@pytest.fixture
def door() -> Door:
    return busy_door()


class StrictMessage(Message, frozen=True):
    """A module's message that must not be passed over."""

    token: Id


register(252, StrictMessage, Lane.DATA, Way.ALL)


# -- peers that break the rules ------------------------------------------------------------------------

BROKEN: dict[str, list[Message | Publication | bytes]] = {
    "garbage": [b"\xff" * 64],
    "unknown tag": [b"\x00\x00\x00\x02\xc8\xc0"],
    "second Hello": [Hello(PROTOCOL, "client", "pub", 1, 0, 0, 0, 0)],
    "Missed, which is for clients": [Missed(1)],
    "a module's message without the module": [StrictMessage(1)],
    "withdraws what is another's": [Unsubscribe(20)],
    "subscribes twice under one id": [Subscribe(60, ALL, 9), Subscribe(60, ALL, 9)],
    "bad attributes": [make_publication(7, 1, {}).frame()[:-1] + b"\xc1"],
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_peer_that_breaks_the_rules_is_closed_and_nobody_else(door: Door, what: str) -> None:
    door.arrive(1, *BROKEN[what])
    assert list(door.closed) == [1]
    assert [trace.kind for trace in door.traces] == ["peer-error", "link-lost"]
    assert "pub" not in door.broker.links, "nothing that it set up is trusted"
    assert 7 not in door.broker.tables.srt
    assert Unadvertise(7) in door.received(3)
    # The others notice nothing else: what comes for them still arrives.
    quote = make_publication(8, 1, {"a": 1})
    door.arrive(3, quote)
    assert [frame.identity for frame in door.received(2)] == [(8, 1)]  # type: ignore[union-attr]
    assert list(door.closed) == [1]


TOO_LARGE = msgspec.Raw(msgspec.msgpack.encode([[(f"a{n}", ">", n) for n in range(2_000)]]))


def test_what_is_refused_hurts_only_itself(door: Door) -> None:
    door.arrive(
        1,
        Subscribe(50, TOO_LARGE, 9),
        Advertise(51, TOO_LARGE, "x", 9),
        Barrier(52, TOO_LARGE, "subscription"),
        Unsubscribe(50),
        Unadvertise(51),
    )
    assert not door.closed
    reason = "it has more than 1,000 predicates"
    assert door.received(1)[-3:] == [Refused(50, reason), Refused(51, reason), Fence(52)]
    assert 50 not in door.broker.tables.prt and 51 not in door.broker.tables.srt
    assert not door.received(3)


def test_a_broker_that_hands_on_what_is_refused_breaks_the_rules(door: Door) -> None:
    door.arrive(3, Subscribe(50, TOO_LARGE, 9))
    assert "more than 1,000 predicates" in door.closed[3]


def test_monitoring_that_nobody_here_takes_part_in_is_ignored(door: Door) -> None:
    door.arrive(3, MonitorProbe(1))
    door.arrive(1, make_publication(7, 1, {"a": 1}))
    assert not door.closed
    assert [frame.identity for frame in door.received(2)] == [(7, 1)]  # type: ignore[union-attr]


@pytest.mark.parametrize("what", ["garbage", "subscribes twice under one id"])
def test_what_still_comes_from_a_closed_connection_counts_for_nothing(
    door: Door, what: str
) -> None:
    door.arrive(1, *BROKEN[what])
    door.arrive(1, Subscribe(50, ALL, 9), make_publication(7, 1, {}))
    door.event(Disconnected(1))
    assert 50 not in door.broker.tables.prt
    assert door.received(2) == []


@pytest.mark.parametrize(
    "first", [Ack(0, 0, 0, False), Subscribe(50, ALL, 9), make_publication(7, 1, {})]
)
def test_a_connection_begins_with_hello(door: Door, first: Message | Publication) -> None:
    door.event(Connected(9))
    door.arrive(9, first)
    assert "Hello" in door.closed[9]
    assert 50 not in door.broker.tables.prt


def test_a_connection_that_says_nothing_is_closed(door: Door) -> None:
    door.event(Connected(9))
    for _ in range(4):
        door.pass_time(BEAT)
        for conn in (1, 2, 3):
            door.acknowledge(conn)
    assert list(door.closed) == [9]
    assert "no Hello" in door.closed[9]


def test_a_client_cannot_take_the_name_of_a_broker(door: Door) -> None:
    door.connect(9, "N", "client")
    assert list(door.closed) == [9]
    assert door.broker.links["N"].conn == 3


def test_a_neighbour_that_answers_under_another_name() -> None:
    door = Door("N")
    assert door.dialled == ["N"]
    door.event(Connected(5, "N"))
    door.arrive(5, Hello(PROTOCOL, "broker", "X", 1, 0, 0, 0, 0))
    assert "dialled N but X answered" in door.closed[5]
    door.pass_time(BEAT)
    assert door.dialled == ["N", "N"]


def test_a_peer_that_opens_another_connection_leaves_the_first(door: Door) -> None:
    door.connect(9, "sub")
    assert list(door.closed) == [2]
    assert door.broker.links["sub"].conn == 9
    assert 20 not in door.broker.tables.prt, "it did not ask to resume"


def test_a_silent_peer_is_closed_and_forgotten_after_a_while(door: Door) -> None:
    for _ in range(4):
        door.pass_time(BEAT)
        for conn in (1, 3):
            door.acknowledge(conn)
    assert list(door.closed) == [2]
    assert 20 in door.broker.tables.prt, "it may come back"
    for _ in range(11):
        door.pass_time(BEAT)
        for conn in (1, 3):
            door.acknowledge(conn)
    assert 20 not in door.broker.tables.prt
    assert "sub" not in door.broker.links


def test_dialling_goes_on_until_somebody_answers() -> None:
    door = Door("N")
    door.pass_time(BEAT)
    assert door.dialled == ["N"], "one attempt at a time"
    door.event(Disconnected(0, "N"))
    door.pass_time(BEAT)
    assert door.dialled == ["N", "N"]
    assert door.timers["tick"] == door.now + BEAT // 2


# -- farewell, barriers, one write per link ------------------------------------------------------------


def test_one_write_per_link_for_a_whole_chunk(door: Door) -> None:
    chunk = b"".join(make_publication(7, n, {}).frame() for n in range(1, 101))
    effects = door.broker.handle(FramesArrived(1, chunk), door.now)
    assert sorted(effect.conn for effect in effects if isinstance(effect, SendMany)) == [1, 2, 3]
    assert len(effects) == 3


def test_control_stays_in_order_with_data(door: Door) -> None:
    door.arrive(
        1,
        make_publication(7, 1, {}),
        Barrier(60, ALL, "advertisement"),
        make_publication(7, 2, {}),
        Unadvertise(7),
    )
    kinds = [type(frame).__name__ for frame in door.received(3)]
    assert kinds == ["Publication", "Barrier", "Publication", "Unadvertise"]
    door.arrive(3, Fence(60))
    assert door.received(1) == [Fence(60)]


def test_monitoring_overtakes_data_in_the_queue_to_a_neighbour() -> None:
    class Alarm(Module):
        name = "alarm"
        messages = (MonitorProbe,)

        def message(self, context: Context, link: Link, message: MonitorProbe, now: int) -> None:
            context.send(context.links["N"], message)

    door = Door(modules=(Alarm(),), link=LinkConfig(window_bytes=100))
    door.connect(1, "pub")
    door.connect(3, "N", "broker")
    door.arrive(3, Subscribe(30, ALL, 9))
    door.arrive(1, *(make_publication(7, n, {}, b"x" * 100) for n in range(1, 10)), MonitorProbe(5))
    first = door.received(3)
    assert first[0] == MonitorProbe(5)
