"""How bytes are laid out on a connection: the two headers, the limits, the version.

    every frame        length u32 │ tag u8 │ the rest
    a publication      length u32 │ tag u8 = 1 │ ttl u8 │ hops u8 │ flags u16 │ advertisement i64 │ counter i64 │
                       time i64 │ length of name u8 │ length of attributes u32 │ attributes │ name │ payload

Rules:
- Everything is big-endian. The length counts what follows the length itself.
- A publication's fields stand at fixed places, so that a broker reads and rewrites them without
  looking at the body behind them. The rest of any other frame is MessagePack.
- The time (nanoseconds since 1970, by the publisher's clock) and the publisher's name belong to the two ends;
  brokers hand them on as they came.
- The flags belong to brokers: the publisher's own may mark a publication, the others hand the mark on. Bit 0: POP
  traces it. Bits 1 to 15: GRAPE's trace session that it is part of, 0 for none (placement/messages.py).
"""

from __future__ import annotations

from struct import Struct

PROTOCOL = 0x524E4C01
"""What a connection begins with: "RNL", and one byte for the version of all this."""

FRAME = Struct(">IB")
"""Length and tag: what every frame starts with."""

PUBLICATION = Struct(">IBBBHqqqBI")
"""The whole header of a publication. Ids are read as signed, so that one too large shows as negative."""

PUBLICATION_READ = Struct(">IBBBHqq8xBI")
"""The same, as brokers read it: without the time, which is none of their business."""

TIME = Struct(">q")
TIME_AT = 25
"""Where a publication has its time."""

TTL_AT = FRAME.size
"""Where a publication has its ttl, and behind it its hops: all that a broker changes on the way."""

FLAGS_AT = TTL_AT + 2

PUBLICATION_TAG = 1
LENGTH_BYTES = 4
PUBLICATION_REST = PUBLICATION.size - LENGTH_BYTES
"""What the length of a publication counts before its body."""

FRAME_BYTES_MAX = 1 << 20
"""The largest frame, all of it, unless a decoder is told otherwise."""

ATTRIBUTES_BYTES_MAX = 1 << 16
"""The most that the attributes of a publication may take."""

ID_MAX = 2**63 - 1
"""Ids and counters fit 63 bits, so they are ints of 64 bits wherever they are stored."""

TTL_MAX = 255
"""How many brokers a message may still pass; also how far its hops are counted."""

FLAGS_MAX = 0xFFFF
NAME_BYTES_MAX = 255
"""The longest name of a publisher, as UTF-8."""
