"""Whatever bytes a peer sends, reading them gives frames or PeerError, and memory stays flat.

Half a million frames are made from sound ones and then damaged: bits flipped, ends cut off, lengths
that lie, frames doubled and spliced, wrong tags, nesting without end, sizes that nobody could
allocate. Every other one gets a length that is right again, so that the damage reaches what is
inside. Seeded, so a failure comes back.
"""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from runnel.errors import PeerError
from runnel.language import EVERYTHING, parse
from runnel.wire import (
    PROTOCOL,
    Ack,
    Advertise,
    Barrier,
    Bye,
    Decoder,
    Extension,
    Fence,
    Frame,
    Goal,
    Handover,
    Hello,
    Mcm,
    Missed,
    Mum,
    Publication,
    Reached,
    Relocate,
    SelectionCache,
    Stage,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    encode,
    make_publication,
    raw_selection,
    with_scope,
    with_stamp,
)
from runnel.wire.header import PUBLICATION
from support.effort import share

SEEDS = 10
FRAMES = 55_000
"""For each seed; all together they make 550,000."""

WARM_UP = 5_000
BLOCKS_GROWTH_MAX = 2_000
"""Objects that may be there after 50,000 frames and were not before: caches of the interpreter."""

CACHE_BYTES = 1 << 13
"""Little, so that the cache is full when the counting begins."""

QUOTE: dict[str, Any] = {
    **{
        "class": "STOCK",
        "symbol": "YHOO",
        "open": 18.37,
        "high": 18.6,
        "low": 18.37,
        "close": 18.37,
    },
    **{"volume": 2**40, "date": "5-Sep-96", "née": "Größe", "up": True, "down": False, "n": -1},
}
STOCKS = raw_selection(parse("class = 'STOCK' AND volume > 1000 AND symbol IN ('IBM', 'YHOO')"))
OTHERS = raw_selection(parse("a > 5 AND a < 9.5 OR b LIKE 'x%y' OR c IS NULL OR d = TRUE"))
NUMBERED = Extension(sequence=2**63 - 1, rest=b"later")
HEADER = PUBLICATION.size
SOUND = (
    make_publication(5 << 20, 17, QUOTE, b"chart" * 10, publisher="née", time_ns=2**60).frame(),
    make_publication(1, 1, {"a": 1}).frame(),
    make_publication(1, 2, {}, b"\xff" * 300, ttl=1, flags=0xFFFF, scope=0xFF).frame(),
    make_publication(3, 1, QUOTE, b"chart", publisher="née", extension=NUMBERED).frame(),
    make_publication(3, 2, {}, extension=Extension(storage=2, epoch=5)).frame(),
    encode(Hello(PROTOCOL, "broker", "b1", 2**62, 3, 4, 5, 6)),
    encode(Ack(10, 2, 4096, True)),
    encode(Advertise(1 << 40, STOCKS, "nyse", 255)),
    encode(Subscribe(7, OTHERS, 9)),
    encode(Subscribe(8, raw_selection(EVERYTHING), 9)),
    encode(Barrier(9, STOCKS, "subscription")),
    encode(Handover(9, "b1", "alice", 1 << 40, 77)),
    *map(encode, (Unadvertise(1), Unsubscribe(2), Fence(2**63 - 1), Missed(3), Bye("home"))),
    *map(encode, (Mum(7, STOCKS, "nyse", 9, 2), Mcm(7, 2, True), Relocate(7, "b2", "b2:7001"))),
    *map(encode, (Goal(2, 7, Stage.NEW, "b2:7001"), Reached(2, Stage.BOTH, 7))),
)
LENGTHS = (
    0,
    1,
    4,
    26,
    35,
    36,
    40,
    41,
    255,
    256,
    2**16,
    2**20 - 5,
    2**20 - 4,
    2**20,
    2**31,
    2**32 - 1,
)
HUGE = (
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"),
    *(b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01", b"\xdc\xff\xff", b"\xde\xff\xff"),
    *(b"\xdd\x00\xff\xff\xff", b"\xda\xff\xff", b"\xc5\xff\xff", b"\xc1", b"\xd6\xff\0\0\0\0"),
)
NESTS = (b"\x91", b"\x81\xa1a", b"\x92\x01", b"\x81", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01")

Damage = Callable[[random.Random, bytes], bytes]


def flip_bits(rng: random.Random, frame: bytes) -> bytes:
    damaged = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def truncate(rng: random.Random, frame: bytes) -> bytes:
    return frame[: rng.randrange(len(frame))]


def lie_about_length(rng: random.Random, frame: bytes) -> bytes:
    lie = rng.choice((*LENGTHS, max(0, len(frame) - 4 + rng.randint(-3, 3))))
    return lie.to_bytes(4, "big") + frame[4:]


def lie_about_attributes(rng: random.Random, frame: bytes) -> bytes:
    lie = rng.choice((*LENGTHS, rng.randrange(300)))
    return frame[: HEADER - 4] + lie.to_bytes(4, "big") + frame[HEADER:]


def lie_about_extension(rng: random.Random, frame: bytes) -> bytes:
    """Say that there is an extension; at times its length makes sense, and is no lie."""
    length = rng.choice((0, 1, 25, 26, 27, 40, max(0, len(frame) - HEADER), rng.randrange(2**16)))
    return frame[:5] + b"\x01" + frame[6:-2] + length.to_bytes(2, "big")


def double(rng: random.Random, frame: bytes) -> bytes:
    start = rng.randrange(len(frame))
    return frame[:start] + frame[rng.randrange(start + 1) :]


def splice(rng: random.Random, frame: bytes) -> bytes:
    other = rng.choice(SOUND)
    return frame[: rng.randrange(len(frame))] + other[rng.randrange(len(other)) :]


def change_tag(rng: random.Random, frame: bytes) -> bytes:
    return frame[:4] + bytes((rng.choice((rng.randrange(13), rng.randrange(256))),)) + frame[5:]


def nest(rng: random.Random, frame: bytes) -> bytes:
    start = rng.randrange(5, len(frame))
    depth = rng.choice((1, 3, 30, 300)) if rng.random() < 0.98 else 30_000
    return frame[:start] + rng.choice(NESTS) * depth + frame[start:]


def announce(rng: random.Random, frame: bytes) -> bytes:
    start = rng.randrange(5, len(frame))
    return frame[:start] + rng.choice(HUGE) + frame[start + rng.randrange(4) :]


def noise(rng: random.Random, frame: bytes) -> bytes:
    return frame[: rng.choice((0, 5, HEADER))] + rng.randbytes(rng.randrange(40))


DAMAGES: tuple[Damage, ...] = (
    *(flip_bits, truncate, lie_about_length, lie_about_attributes, lie_about_extension),
    *(double, splice, change_tag, nest, announce, noise),
)


def with_right_length(frame: bytes) -> bytes:
    return max(0, len(frame) - 4).to_bytes(4, "big") + frame[4:]


def damaged(rng: random.Random) -> tuple[str, bytes]:
    damage = rng.choice(DAMAGES)
    frame = damage(rng, rng.choice(SOUND))
    if rng.random() < 0.5:
        frame = with_right_length(frame)
    return damage.__name__, frame


def use(frame: Frame, cache: SelectionCache) -> None:
    """Ask for all that a broker or a client would ask for."""
    if isinstance(frame, Publication):
        assert isinstance(frame.attributes, dict)
        before_payload = frame.attributes_length + frame.name_length
        extension = frame.extension
        behind = 0 if extension is None else 26 + len(extension.rest)
        assert before_payload + len(frame.payload) + behind == len(frame.body)
        if extension is not None:
            assert min(extension.sequence, extension.storage, extension.epoch) >= 0
            assert len(with_stamp(frame.raw, 3, 9)) == len(frame.raw)
        assert with_scope(frame.raw, frame.scope) == frame.raw
        assert isinstance(frame.publisher, str) and isinstance(frame.time_ns, int)
        assert len(frame.forwarded() if frame.ttl else frame.frame()) == HEADER + len(frame.body)
    else:
        encode(frame)
        if isinstance(frame, (Advertise, Subscribe, Barrier)):
            cache.decode(frame.selection)


def read(pieces: list[bytes], cache: SelectionCache) -> str:
    """Return what became of it: a frame or more, not yet anything, or refused."""
    decoder, used = Decoder(), 0
    try:
        for piece in pieces:
            for frame in decoder.feed(piece):
                use(frame, cache)
                used += 1
    except PeerError:
        return "refused"
    return "read" if used else "waiting"


def fuzz(rng: random.Random, frames: int, cache: SelectionCache) -> Counter[tuple[str, str]]:
    outcomes: Counter[tuple[str, str]] = Counter()
    for _ in range(frames):
        name, frame = damaged(rng)
        # Something sound behind it, as on a real connection, and a cut anywhere.
        stream = frame + rng.choice(SOUND) if rng.random() < 0.3 else frame
        place = rng.randint(0, len(stream))
        try:
            outcomes[name, read([stream[:place], stream[place:]], cache)] += 1
        except Exception as error:
            pytest.fail(f"{name}: {stream[:200]!r} cut at {place} makes it raise {error!r}")
    return outcomes


@pytest.mark.parametrize("seed", range(share(SEEDS)))
def test_any_bytes_give_frames_or_a_peer_error(seed: int) -> None:
    rng, cache = random.Random(seed), SelectionCache(CACHE_BYTES)
    fuzz(rng, WARM_UP, cache)
    gc.collect()
    blocks = sys.getallocatedblocks()
    outcomes = fuzz(rng, FRAMES - WARM_UP, cache)
    gc.collect()
    assert sys.getallocatedblocks() - blocks < BLOCKS_GROWTH_MAX
    for damage in DAMAGES:
        assert outcomes[damage.__name__, "refused"] > 100, f"{damage.__name__} harms nobody"
    for damage in (flip_bits, double, change_tag, lie_about_attributes, lie_about_extension):
        assert outcomes[damage.__name__, "read"] > 50, f"{damage.__name__} is never survived"


def test_no_frame_makes_a_decoder_take_much_more_than_the_frame() -> None:
    rng, cache = random.Random(4711), SelectionCache(CACHE_BYTES)
    fuzz(rng, 1_000, cache)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    fuzz(rng, 10_000, cache)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The largest frame of this fuzz has 150,000 bytes.
    assert peak - before < 4 << 20
