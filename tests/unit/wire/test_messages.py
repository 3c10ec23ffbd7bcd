"""The core's messages and the registry that others bring theirs to."""

from typing import Annotated, Any

import msgspec
import pytest

from runnel.errors import BugError, PeerError
from runnel.language import EVERYTHING, parse
from runnel.wire import (
    MODULE_TAG_MIN,
    PROTOCOL,
    REGISTRY,
    Ack,
    Advertise,
    Barrier,
    Bye,
    ClientHere,
    Decoder,
    Fence,
    Goal,
    Handover,
    Hello,
    Lane,
    Listens,
    Mcm,
    Message,
    Missed,
    Mum,
    PingAnswer,
    Pinged,
    PingRequest,
    Reached,
    Registry,
    Relocate,
    Stage,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Way,
    decode_selection,
    encode,
    lane_of,
    raw_selection,
    tag_of,
)

STOCKS = raw_selection(parse("class = 'STOCK' AND volume > 1000"))
HELLO = Hello(PROTOCOL, "broker", "b1", 5, 0, 12, 3, 65_536)
CORE = {
    2: (HELLO, Lane.CONTROL),
    3: (Ack(10, 2, 4096, True), Lane.CONTROL),
    4: (Advertise(1 << 40, STOCKS, "nyse", 255), Lane.DATA),
    5: (Unadvertise(1 << 40), Lane.DATA),
    6: (Subscribe(2**63 - 1, STOCKS, 0), Lane.DATA),
    7: (Unsubscribe(0), Lane.DATA),
    8: (Barrier(9, raw_selection(EVERYTHING), "advertisement"), Lane.DATA),
    9: (Fence(9), Lane.DATA),
    10: (Missed(3), Lane.DATA),
    11: (Bye("going home"), Lane.DATA),
    12: (Mum(1 << 40, STOCKS, "nyse", 255, 3), Lane.DATA),
    13: (Mcm(1 << 40, 3, True), Lane.DATA),
    14: (Relocate(1 << 40, "b2", "runnel://10.0.0.2:7001"), Lane.MONITOR),
    15: (Goal(2, 7, Stage.NEW, "runnel://10.0.0.2:7001"), Lane.DATA),
    16: (Reached(2, Stage.BOTH, 7), Lane.DATA),
    17: (Handover(9, "b1", "alice", 1 << 40, 77), Lane.DATA),
    18: (PingRequest(1 << 40, 3, (Pinged("b2", "10.0.0.2:7001"),), 5), Lane.MONITOR),
    19: (PingAnswer(1 << 40, 3, (0, 250_000)), Lane.MONITOR),
    30: (Listens("runnel://10.0.0.2:7001"), Lane.CONTROL),
    31: (ClientHere("alice", 1 << 40, "b2", 255), Lane.MONITOR),
}


class LoadMessage(Message, frozen=True):
    load: Annotated[float, msgspec.Meta(ge=0, le=1)]


@pytest.mark.parametrize("tag", CORE)
def test_a_core_message_has_its_tag_its_lane_and_a_way_back(tag: int) -> None:
    message, lane = CORE[tag]
    frame = encode(message)
    assert (tag_of(message), lane_of(message), frame[4]) == (tag, lane, tag)
    (back,) = Decoder().feed(frame)
    assert type(back) is type(message) and back == message and encode(back) == frame


def test_the_core_keeps_below_the_tags_of_the_modules() -> None:
    core = [type(message) for message, _ in CORE.values()]
    assert [message for message in REGISTRY.messages if message in core] == core
    assert max(CORE) < MODULE_TAG_MIN


def test_a_selection_is_read_from_the_message_that_brought_it() -> None:
    (subscribe,) = Decoder().feed(encode(Subscribe(1, STOCKS, 5)))
    assert isinstance(subscribe, Subscribe)
    assert decode_selection(subscribe.selection) == parse("class = 'STOCK' AND volume > 1000")


@pytest.mark.parametrize(
    ("protocol", "complaint"),
    [
        (PROTOCOL - 1, "the peer speaks version 4, this side 5: upgrade the older one"),
        (PROTOCOL + 1, "the peer speaks version 6, this side 5: upgrade the older one"),
        (0x48545450, "not a Runnel peer"),
        (-1, "not a Runnel peer"),
    ],
)
def test_another_protocol_or_version_is_noticed_at_once(protocol: int, complaint: str) -> None:
    frame = encode(HELLO).replace(b"\xce" + PROTOCOL.to_bytes(4, "big"), _int32(protocol))
    with pytest.raises(PeerError, match=complaint):
        Decoder().feed(frame)


def _int32(number: int) -> bytes:
    return b"\xd2" + number.to_bytes(4, "big", signed=True)


@pytest.mark.parametrize(
    "message",
    [
        Unsubscribe(-1),
        Unsubscribe(2**63),
        Unsubscribe("5"),  # type: ignore[arg-type]
        Unsubscribe(5.5),  # type: ignore[arg-type]
        Unsubscribe(None),  # type: ignore[arg-type]
        Subscribe(1, STOCKS, 256),
        Subscribe(1, STOCKS, -1),
        Advertise(1, STOCKS, "x" * 256, 5),
        Barrier(1, STOCKS, "weather"),  # type: ignore[arg-type]
        Hello(PROTOCOL, "r" * 256, "b1", 5, 0, 0, 0, 0),
        Hello(PROTOCOL, "client", "b1", 5, 0, -1, 0, 0),
        Ack(1, 1, 1, 1),  # type: ignore[arg-type]
        Bye("x" * 1001),
    ],
)
def test_fields_are_checked_as_they_are_read(message: Any) -> None:
    with pytest.raises(PeerError, match=f"malformed {type(message).__name__}"):
        Decoder().feed(encode(message))


def test_a_module_brings_its_own_messages() -> None:
    registry = Registry()
    registry.register(40, LoadMessage, Lane.MONITOR, Way.BETWEEN_BROKERS)
    assert registry.messages == (LoadMessage,)
    assert registry.lane_of(LoadMessage(0.5)) is Lane.MONITOR
    assert Decoder(registry=registry).feed(encode(LoadMessage(0.5), registry)) == [LoadMessage(0.5)]
    with pytest.raises(PeerError, match="tag 40"):
        Decoder().feed(encode(LoadMessage(0.5), registry))


@pytest.mark.parametrize("tag", [-1, 0, 1, 256])
def test_some_tags_are_nobodys(tag: int) -> None:
    with pytest.raises(BugError, match="cannot have the tag"):
        Registry().register(tag, LoadMessage, Lane.DATA, Way.ALL)


def test_a_tag_or_a_message_is_registered_once() -> None:
    registry = Registry()
    registry.register(40, LoadMessage, Lane.DATA, Way.ALL)
    with pytest.raises(BugError, match="taken"):
        registry.register(41, LoadMessage, Lane.DATA, Way.ALL)
    with pytest.raises(BugError, match="taken"):
        registry.register(40, Fence, Lane.DATA, Way.ALL)


def test_what_is_not_registered_cannot_be_sent() -> None:
    with pytest.raises(BugError, match="has no tag"):
        encode(LoadMessage(0.5))
    with pytest.raises(BugError, match="has no lane"):
        lane_of(LoadMessage(0.5))
