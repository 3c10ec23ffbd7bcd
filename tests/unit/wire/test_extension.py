"""Extensions: what only some publications carry, behind the payload and found from the frame's end."""

import itertools
import struct

import pytest

from runnel.errors import BugError, InvalidValue, PeerError
from runnel.wire import (
    FRAME_BYTES_MAX,
    ID_MAX,
    Decoder,
    Extension,
    Publication,
    make_publication,
    with_stamp,
)

NUMBERED = Extension(sequence=1_000)
PLAIN = make_publication(7, 3, {"a": 1}, b"xy", publisher="pub", ttl=9)
MADE = make_publication(7, 3, {"a": 1}, b"xy", publisher="pub", ttl=9, extension=NUMBERED)


def through_the_wire(frame: bytes) -> Publication:
    (publication,) = Decoder().feed(frame)
    assert isinstance(publication, Publication)
    return publication


def with_end(end: bytes) -> bytes:
    """A plain publication that says that it has an extension, with what is to be one."""
    frame = bytearray(PLAIN.frame()) + end
    frame[:4] = (len(frame) - 4).to_bytes(4, "big")
    frame[5] |= 1
    return bytes(frame)


def test_an_extension_arrives_and_nothing_else_is_different() -> None:
    came = through_the_wire(MADE.frame())
    assert came.extension == NUMBERED and came.frame() == MADE.frame()
    assert (came.attributes, came.payload, came.publisher) == ({"a": 1}, b"xy", "pub")
    assert (came.ttl, came.flags, came.identity) == (9, 0, (7, 3))


def test_the_extension_is_laid_out_as_documented() -> None:
    extension = Extension(sequence=2**40, storage=2**50, epoch=2**60, rest=b"later")
    frame = make_publication(7, 3, {"a": 1}, b"xy", publisher="pub", extension=extension).frame()
    assert frame[5] == 1 and frame[40:49] == b"\x81\xa1a\x01pubxy"
    assert frame[49:] == struct.pack(">QQQ5sH", 2**40, 2**50, 2**60, b"later", 31)
    assert with_end(frame[49:]) == frame[:6] + b"\x09" + frame[7:]


def test_a_plain_publication_grows_by_at_most_four_bytes() -> None:
    before = struct.calcsize(">IBBBHqqqBI")  # in version 1
    assert len(make_publication(7, 1, {}).frame()) - 1 <= before + 4


def test_brokers_hand_an_extension_on_with_what_a_later_version_adds() -> None:
    later = Extension(5, 0, 0, b"what nobody here knows")
    made = make_publication(7, 3, {}, b"xy", ttl=2, extension=later)
    came = through_the_wire(through_the_wire(made.forwarded()).forwarded())
    assert came.extension == later and came.payload == b"xy" and (came.ttl, came.hops) == (0, 2)


def test_a_storage_stamps_the_frame_in_place() -> None:
    made = make_publication(7, 3, {}, b"xy", extension=Extension(1_000, rest=b"later"))
    stamped = with_stamp(made.frame(), storage=3, epoch=9)
    assert through_the_wire(stamped).extension == Extension(1_000, 3, 9, b"later")
    assert with_stamp(stamped, 0, 0) == made.frame()
    assert with_stamp(stamped, ID_MAX, ID_MAX)[:-31] == made.frame()[:-31]


def test_a_stamp_needs_a_place() -> None:
    with pytest.raises(BugError, match="no place for a stamp"):
        with_stamp(PLAIN.frame(), 3, 9)


@pytest.mark.parametrize(
    "extension",
    [
        Extension(sequence=-1),
        Extension(storage=ID_MAX + 1),
        Extension(epoch=-1),
        Extension(rest=bytes(65_510)),
    ],
)
def test_what_cannot_be_written_is_the_publishers_mistake(extension: Extension) -> None:
    with pytest.raises(InvalidValue, match="an extension"):
        make_publication(7, 1, {}, extension=extension)


def test_the_largest_extension_and_the_largest_publication_with_one_pass() -> None:
    longest = Extension(rest=bytes(65_535 - 26))
    assert through_the_wire(make_publication(7, 1, {}, extension=longest).frame()).payload == b""
    room = FRAME_BYTES_MAX - len(make_publication(7, 1, {}, extension=NUMBERED).frame())
    largest = make_publication(7, 1, {}, bytes(room), extension=NUMBERED).frame()
    assert len(largest) == FRAME_BYTES_MAX and len(through_the_wire(largest).payload) == room
    with pytest.raises(InvalidValue, match="split what is large"):
        make_publication(7, 1, {}, bytes(room + 1), extension=NUMBERED)


SOUND = bytes(24)


@pytest.mark.parametrize(
    ("end", "complaint"),
    [
        (b"", "an extension of"),
        (b"\x00\x1a", "an extension of 26 bytes: it takes 26 at least, and there are 4"),
        (SOUND, "an extension of 0 bytes"),
        (SOUND + b"\x00\x00", "an extension of 0 bytes: it takes 26 at least, and there are 28"),
        (SOUND + b"\x00\x19", "an extension of 25 bytes"),
        (SOUND + b"\x00\x1d", "an extension of 29 bytes"),
        (SOUND + b"\xff\xff", "an extension of 65,535 bytes"),
        (b"\x80" + bytes(23) + b"\x00\x1a", "its numbers fit 63 bits"),
        (bytes(8) + b"\xff" * 8 + bytes(8) + b"\x00\x1a", r"\(0, -1, 0\): its numbers fit 63"),
        (bytes(16) + b"\xff" * 8 + b"\x00\x1a", r"\(0, 0, -1\): its numbers fit 63 bits"),
    ],
)
def test_a_malformed_extension_is_the_peers_mistake_under_every_split(
    end: bytes, complaint: str
) -> None:
    frame = with_end(end)
    bytewise = [frame[i : i + 1] for i in range(len(frame))]
    halves = [[frame[:place], frame[place:]] for place in range(len(frame))]
    for pieces in ([frame], [MADE.frame() + frame], [frame + MADE.frame()], bytewise, *halves):
        decoder = Decoder()
        with pytest.raises(PeerError, match=complaint if len(end) > 2 else "an extension of"):
            _ = [decoder.feed(piece) for piece in pieces]
        assert decoder.waiting_bytes == 0


def test_no_room_for_an_extension_is_noticed_with_the_header() -> None:
    with pytest.raises(PeerError, match="an extension of 26 bytes"):
        Decoder().feed(with_end(b"")[:40])


@pytest.mark.parametrize(("size", "payload"), [(b"\x00\x1a", b"xy"), (b"\x00\x1c", b"")])
def test_the_helper_above_makes_sound_extensions_otherwise(size: bytes, payload: bytes) -> None:
    came = through_the_wire(with_end(SOUND + size))
    assert came.extension is not None and came.publisher == "pub" and came.payload == payload


def test_publications_with_and_without_extension_come_in_order() -> None:
    stream = [PLAIN.frame(), MADE.frame(), PLAIN.frame(), MADE.frame(), MADE.frame()]
    for size in (1, 7, 49, 1_000):
        whole, decoder = b"".join(stream), Decoder()
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        came = list(itertools.chain.from_iterable(map(decoder.feed, pieces)))
        assert [p.frame() for p in came if isinstance(p, Publication)] == stream
