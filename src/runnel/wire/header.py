"""How bytes are laid out on a connection: the two headers, the extension, the limits, the version.

    every frame        length u32 │ tag u8 │ the rest
    a publication      length u32 │ tag u8 = 1 │ options u8 │ ttl u8 │ hops u8 │ scope u8 │ flags u16 │
                       advertisement i64 │ counter i64 │ time i64 │ length of name u8 │ length of attributes u32 │
                       attributes │ name │ payload │ the extension, if the options say so
    an extension       sequence i64 │ storage i64 │ epoch i64 │ what later versions add │ its own length u16

Rules:
- Everything is big-endian. The length of a frame counts what follows it; that of an extension counts all of the
  extension. The rest of any frame that is not a publication is MessagePack.
- A publication's fields stand at fixed places, so that a broker reads and rewrites them without
  looking at the body behind them.
- The time (nanoseconds since 1970, by the publisher's clock), the publisher's name and the options belong to the two
  ends; brokers hand them on as they came.
- The options say what kind of publication it is. Bit 0: an extension follows the payload. Bit 1 is reserved for
  "durable", bit 2 for "in any order", the others for what comes: 0 until then, ignored, and handed on.
- The flags belong to brokers: the publisher's own may mark a publication, the others hand the mark on. Bit 0: POP
  traces it. Bits 1 to 15: GRAPE's trace session that it is part of, 0 for none (modules/placement/messages.py).
- The scope belongs to the routing strategy: a label of this copy for the next broker, which may differ from link to
  link. 0 where the strategy has no use for it; then it is handed on as it came.
- The extension has what only some publications need: the publisher's own sequence number, which stays when it
  reconnects and publishes again (the counter does not), and the stamp of a storage, which is its id and the epoch;
  0 for none. It stands behind the payload, so that attributes and name are where they always are, whoever reads
  them; its length comes last, so that it is found from the frame's end, and stamped in place.
- An extension may be longer than what is known here: the bytes in between are handed on. It is never shorter.
"""

from __future__ import annotations

from struct import Struct

PROTOCOL = 0x524E4C05
"""What a connection begins with: "RNL", and one byte for the version of all this (docs/compatibility.md)."""

PROTOCOL_MARK = PROTOCOL.to_bytes(4, "big")[:3]
"""What the Hello of every version has in it."""

FRAME = Struct(">IB")
"""Length and tag: what every frame starts with."""

PUBLICATION = Struct(">IBBBBBHqqqBI")
"""The whole header of a publication. Ids are read as signed, so that one too large shows as negative."""

PUBLICATION_READ = Struct(">IHBBxHqq8xBI")
"""The same, as the decoder reads it: tag and options as one number, so that it sees at one glance what is plain;
without the scope, which few ask for, and the time, which is no broker's business."""

OPTIONS_AT = FRAME.size

TTL_AT = OPTIONS_AT + 1
"""Where a publication has its ttl, and behind it its hops: all that a broker always changes on the way."""

SCOPE_AT = TTL_AT + 2
FLAGS_AT = SCOPE_AT + 1

TIME = Struct(">q")
TIME_AT = FLAGS_AT + 18
"""Where a publication has its time."""

EXTENDED = 0x01
"""The option that says that there is an extension."""

EXTENSION = Struct(">qqq")
"""What is known of an extension, at its beginning."""

STAMP = Struct(">qq")
STAMP_AT = 8
"""Where an extension has the storage and the epoch."""

EXTENSION_LENGTH = Struct(">H")
"""The end of an extension, and of the frame."""

EXTENSION_BYTES_MIN = EXTENSION.size + EXTENSION_LENGTH.size
EXTENSION_BYTES_MAX = 0xFFFF

PUBLICATION_TAG = 1
PLAIN = PUBLICATION_TAG << 8
"""Tag and options of a publication that has no options."""

LENGTH_BYTES = 4
PUBLICATION_REST = PUBLICATION.size - LENGTH_BYTES
"""What the length of a publication counts before its body."""

FRAME_BYTES_MAX = 1 << 20
"""The largest frame, all of it, unless a decoder is told otherwise."""

FIRST_FRAMES_BYTES_MAX = 1 << 17
"""All that somebody may say before it is let in: a Hello, and credentials, which take half of it at most."""

ATTRIBUTES_BYTES_MAX = 1 << 16
"""The most that the attributes of a publication may take."""

ID_MAX = 2**63 - 1
"""Ids and counters fit 63 bits, so they are ints of 64 bits wherever they are stored."""

TTL_MAX = 255
"""How many brokers a message may still pass; also how far its hops are counted."""

SCOPE_MAX = 0xFF
FLAGS_MAX = 0xFFFF
NAME_BYTES_MAX = 255
"""The longest name of a publisher, as UTF-8."""
