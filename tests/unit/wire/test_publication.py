"""Publications: made by a publisher, read by everybody, handed on without being rewritten."""

import math
import struct
from enum import IntEnum, StrEnum
from typing import Any

import pytest

from runnel.errors import BugError, InputError, InvalidValue, PeerError
from runnel.wire import (
    ATTRIBUTES_BYTES_MAX,
    FRAME_BYTES_MAX,
    ID_MAX,
    Decoder,
    Lane,
    Publication,
    make_publication,
    with_scope,
)
from runnel.wire.header import FLAGS_AT, PUBLICATION, PUBLICATION_REST, PUBLICATION_TAG, SCOPE_AT

QUOTE: dict[str, Any] = {
    "class": "STOCK",
    "close": 18.37,
    "volume": 2**62 + 1,
    "up": True,
    "née": "Größe\0",
}


def through_the_wire(frame: bytes) -> Publication:
    (publication,) = Decoder().feed(frame)
    assert isinstance(publication, Publication)
    return publication


def with_attributes(raw: bytes) -> Publication:
    header = PUBLICATION.pack(
        PUBLICATION_REST + len(raw), PUBLICATION_TAG, 0, 1, 0, 0, 0, 7, 1, 0, 0, len(raw)
    )
    return through_the_wire(header + raw)


def test_a_publication_arrives_as_it_was_made() -> None:
    made = make_publication(7, 3, QUOTE, b"chart", publisher="née", time_ns=17, ttl=9, flags=5)
    came = through_the_wire(made.frame())
    assert (came.advertisement, came.counter, came.identity) == (7, 3, (7, 3))
    assert (came.ttl, came.hops, came.flags) == (9, 0, 5)
    assert came.scope == 0 and came.extension is None
    assert came.attributes == QUOTE and came.payload == b"chart"
    assert (came.publisher, came.time_ns) == ("née", 17)
    assert [type(value) for value in came.attributes.values()] == [str, float, int, bool, str]
    assert came.body == made.body and came.frame() == made.frame()
    assert came.lane is Lane.DATA


def test_the_header_is_laid_out_as_documented() -> None:
    made = make_publication(
        2**40,
        2**50,
        {"a": 1},
        b"xy",
        publisher="pub",
        time_ns=2**60,
        ttl=8,
        flags=0x0102,
        scope=9,
    )
    frame = made.frame()
    fields = struct.unpack_from(">IBBBBBHQQQBI", frame)
    assert fields == (len(frame) - 4, 1, 0, 8, 0, 9, 0x0102, 2**40, 2**50, 2**60, 3, 4)
    assert frame[40:] == b"\x81\xa1a\x01pubxy"


def test_a_copy_with_another_scope_differs_in_nothing_else() -> None:
    made = make_publication(7, 3, QUOTE, b"chart", flags=0xFFFF, scope=255)
    copy = with_scope(made.frame(), 0)
    assert (through_the_wire(made.frame()).scope, through_the_wire(copy).scope) == (255, 0)
    assert with_scope(copy, 255) == made.frame() and len(copy) == len(made.frame())
    assert copy[:SCOPE_AT] + copy[FLAGS_AT:] == made.frame()[:SCOPE_AT] + made.frame()[FLAGS_AT:]
    assert with_scope(made.forwarded(), 3) == through_the_wire(with_scope(made.raw, 3)).forwarded()


@pytest.mark.parametrize("option", [0x02, 0x04, 0x80, 0xFE])
def test_options_that_nobody_knows_yet_are_handed_on(option: int) -> None:
    frame = bytearray(make_publication(7, 3, QUOTE, b"chart", ttl=2).frame())
    frame[5] = option
    came = through_the_wire(bytes(frame))
    assert came.frame() == frame and came.forwarded()[5] == option
    assert came.attributes == QUOTE and came.payload == b"chart" and came.extension is None
    came.mark(0xABCD)
    assert came.raw[5] == option


def test_forwarding_changes_ttl_and_hops_and_nothing_else() -> None:
    made = make_publication(7, 3, QUOTE, b"chart", ttl=2)
    once = through_the_wire(made.forwarded())
    twice = through_the_wire(once.forwarded())
    assert [(p.ttl, p.hops) for p in (made, once, twice)] == [(2, 0), (1, 1), (0, 2)]
    assert made.frame()[:6] == once.frame()[:6] == twice.frame()[:6]
    assert made.frame()[8:] == once.frame()[8:] == twice.frame()[8:]
    with pytest.raises(BugError, match="no hop left"):
        twice.forwarded()


def test_hops_stop_counting_where_their_byte_ends() -> None:
    publication = make_publication(7, 3, {})
    publication.hops = 255
    assert through_the_wire(publication.forwarded()).hops == 255


def test_what_is_absent_is_left_out() -> None:
    attributes = {"a": None, "b": math.nan, "c": 0, "d": "", "e": math.inf, "f": False}
    publication = make_publication(7, 1, attributes)
    present = {"c": 0, "d": "", "e": math.inf, "f": False}
    assert publication.attributes == present
    assert through_the_wire(publication.frame()).attributes == present


def test_enums_and_other_subclasses_are_sent_as_what_they_stand_for() -> None:
    class Shade(StrEnum):
        RED = "red"

    class Rank(IntEnum):
        BIG = 3

    class Celsius(float):
        pass

    given = {Shade.RED: Shade.RED, "size": Rank.BIG, "t": Celsius(1.5)}
    made = make_publication(7, 1, given)  # type: ignore[arg-type]
    came = through_the_wire(made.frame())
    assert made.attributes == came.attributes == {"red": "red", "size": 3, "t": 1.5}
    assert [type(value) for value in made.attributes.values()] == [str, int, float]


def test_attributes_are_decoded_once() -> None:
    came = through_the_wire(make_publication(7, 1, QUOTE).frame())
    assert came.attributes is came.attributes


def test_the_largest_publication_passes_and_one_byte_more_does_not() -> None:
    room = FRAME_BYTES_MAX - len(make_publication(7, 1, {}).frame())
    largest = make_publication(7, 1, {}, bytes(room)).frame()
    assert len(largest) == FRAME_BYTES_MAX
    assert len(through_the_wire(largest).payload) == room
    with pytest.raises(InvalidValue, match="split what is large"):
        make_publication(7, 1, {}, bytes(room + 1))


def test_attributes_that_are_too_large_are_the_publishers_mistake() -> None:
    with pytest.raises(InvalidValue, match="into the payload"):
        make_publication(7, 1, {"a": "x" * ATTRIBUTES_BYTES_MAX})


@pytest.mark.parametrize(
    ("advertisement", "counter", "options"),
    [
        (-1, 1, {}),
        (ID_MAX + 1, 1, {}),
        (7, 0, {}),
        (7, ID_MAX + 1, {}),
        (7, 1, {"ttl": 256}),
        (7, 1, {"ttl": -1}),
        (7, 1, {"flags": 65_536}),
        (7, 1, {"scope": 256}),
        (7, 1, {"scope": -1}),
    ],
)
def test_what_does_not_fit_the_header_is_refused(
    advertisement: Any, counter: int, options: Any
) -> None:
    with pytest.raises(InputError, match="of a publication is"):
        make_publication(advertisement, counter, {}, **options)


@pytest.mark.parametrize(
    "attributes", [{"": 1}, {"a": 2**63}, {"a": "\ud800"}, {"a": b"x"}, {"a": [1]}, {5: 1}]
)
def test_what_is_no_attribute_is_refused(attributes: Any) -> None:
    with pytest.raises(InvalidValue):
        make_publication(7, 1, attributes)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x80\x80",
        b"\x90",
        b"\x81\xa1a",
        b"\x81\xa1a\xc0",
        b"\x81\xa1a\x90",
        b"\x81\xa1a\x80",
        b"\x81\xa1a\xc4\x00",
        b"\x81\x01\x01",
        b"\x81\xa0\x01",
        b"\x81\xa1\xff\x01",
        b"\x81\xa1a\xa1\xff",
        b"\x81\xa1a\xcf\x80\x00\x00\x00\x00\x00\x00\x00",
        b"\x81\xa1a\xd6\xff\x00\x00\x00\x00",
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa1a\xdb\xff\xff\xff\xff",
        b"\x81\xa1a" * 20_000,
        b"\xc1",
    ],
)
def test_attributes_that_make_no_sense_are_the_peers_mistake(raw: Any) -> None:
    publication = with_attributes(raw)
    for _ in range(2):
        with pytest.raises(PeerError, match=r"attributes of publication \(7, 1\)"):
            _ = publication.attributes
    assert through_the_wire(publication.frame()).body == raw
