"""The decoder: any split of bytes, every size checked, and broken for good once a frame is malformed."""

import tracemalloc
from typing import Any

import pytest

from runnel.errors import PeerError
from runnel.wire import ATTRIBUTES_BYTES_MAX, Decoder, Fence, encode, make_publication

FENCE = encode(Fence(5))
QUOTE = make_publication(7, 1, {"symbol": "YHOO"}, b"chart").frame()


def publication(
    *,
    length: int | None = None,
    advertisement: int = 7,
    counter: int = 1,
    name: int = 0,
    attributes: int = 1,
) -> bytes:
    rest = b"\x01\x00\x05\x00\x00\x00\x00"
    rest += advertisement.to_bytes(8, "big") + counter.to_bytes(8, "big")
    rest += bytes(8) + bytes((name,)) + attributes.to_bytes(4, "big") + b"\x80"
    return (len(rest) if length is None else length).to_bytes(4, "big") + rest


def test_nothing_comes_of_nothing() -> None:
    decoder = Decoder()
    assert decoder.feed(b"") == [] and decoder.waiting_bytes == 0


def test_frames_come_out_in_order_when_they_are_complete() -> None:
    decoder, bytes_ = Decoder(), FENCE + QUOTE + FENCE
    counts = [len(decoder.feed(bytes_[i : i + 1])) for i in range(len(bytes_))]
    ends = [len(FENCE) - 1, len(FENCE + QUOTE) - 1, len(bytes_) - 1]
    assert [i for i, count in enumerate(counts) if count] == ends and sum(counts) == 3
    assert decoder.waiting_bytes == 0


def test_a_decoder_says_how_much_it_is_waiting_with() -> None:
    decoder = Decoder()
    assert len(decoder.feed(QUOTE + FENCE[:-1])) == 1
    assert decoder.waiting_bytes == len(FENCE) - 1


@pytest.mark.parametrize(
    ("bytes_", "complaint"),
    [
        (b"\xff\xff\xff\xff", "announced a frame of 4,294,967,299 bytes"),
        (b"GET / HTTP/1.1", "check that it is a Runnel peer"),
        (b"\x00\x00\x00\x00", "empty frame"),
        (b"\x00\x00\x00\x02\x00\x90", "tag 0"),
        (b"\x00\x00\x00\x02\xc8\x90", "tag 200"),
        (b"\x00\x00\x00\x01\x09", "malformed Fence"),
        (b"\x00\x00\x00\x02\x09\x90", "malformed Fence"),
        (b"\x00\x00\x00\x04\x09\x92\x05\x05", "malformed Fence"),
        (b"\x00\x00\x00\x04\x09\x91\x05\x05", "malformed Fence: .*trailing"),
        (b"\x00\x00\x00\x06\x09\xdd\xff\xff\xff\xff", "malformed Fence"),
        (b"\x00\x00\x00\x02\x01\x00", "its header alone takes 36"),
        (publication(length=35), "its header alone takes 36"),
        (publication(attributes=2), "2 bytes of attributes in a frame of 37"),
        (publication(name=1), "1 bytes of attributes in a frame of 37"),
        (publication(attributes=2**32 - 1), "bytes of attributes"),
        (publication(advertisement=2**63), "ids fit 63 bits"),
        (publication(counter=2**63), "ids fit 63 bits"),
        (publication(counter=0), "counters begin at 1"),
    ],
)
def test_what_is_malformed_is_the_peers_mistake_and_final(bytes_: Any, complaint: str) -> None:
    for pieces in ([bytes_], [QUOTE + bytes_], [bytes_[i : i + 1] for i in range(len(bytes_))]):
        decoder = Decoder()
        with pytest.raises(PeerError, match=complaint):
            _ = [decoder.feed(piece) for piece in pieces]
        with pytest.raises(PeerError, match=complaint):
            decoder.feed(FENCE)
        assert decoder.waiting_bytes == 0


def test_the_helper_above_makes_a_sound_publication_otherwise() -> None:
    assert len(Decoder().feed(publication())) == 1


def test_attributes_beyond_the_limit_are_refused_as_soon_as_the_header_is_there() -> None:
    length = ATTRIBUTES_BYTES_MAX + 100
    header = publication(length=length, attributes=ATTRIBUTES_BYTES_MAX + 1)
    with pytest.raises(PeerError, match="bytes of attributes"):
        Decoder().feed(header)


def test_the_limit_on_frames_is_the_decoders_own() -> None:
    assert len(Decoder(frame_bytes_max=len(QUOTE)).feed(QUOTE)) == 1
    for piece in (QUOTE, QUOTE[:4]):
        with pytest.raises(PeerError, match=f"the limit is {len(QUOTE) - 1}"):
            Decoder(frame_bytes_max=len(QUOTE) - 1).feed(piece)


def test_deep_nesting_is_refused() -> None:
    body = b"\x93\x05" + b"\x91" * 200_000
    frame = (len(body) + 1).to_bytes(4, "big") + b"\x06" + body
    with pytest.raises(PeerError, match="malformed Subscribe"):
        Decoder().feed(frame)


def test_memory_follows_what_has_arrived_not_what_was_announced() -> None:
    announcing = (2**20 - 4).to_bytes(4, "big") + b"\x0b"
    decoders = [Decoder() for _ in range(1_000)]
    tracemalloc.start()
    for decoder in decoders:
        decoder.feed(announcing)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_large_frame_in_small_pieces_takes_linear_time() -> None:
    frame = make_publication(7, 1, {}, bytes(1_000_000)).frame()
    decoder = Decoder()
    # A million bytes in pieces of 16: copying what is there each time would move 31 gigabytes.
    came = [f for i in range(0, len(frame), 16) for f in decoder.feed(frame[i : i + 16])]
    assert [type(f).__name__ for f in came] == ["Publication"]
