"""The extension of a publication: what only some of them need, behind the payload (wire/header.py has the layout).

Rules:
- The decoder checks an extension as soon as it is there, so nobody who reads one has to.
- What a later version adds is kept in `rest`, and handed on.
- A storage puts its stamp into the frame itself: nothing but the stamp is written anew.
"""

from __future__ import annotations

import msgspec

from runnel.errors import BugError, InvalidValue, PeerError
from runnel.wire.header import (
    EXTENDED,
    EXTENSION,
    EXTENSION_BYTES_MAX,
    EXTENSION_BYTES_MIN,
    EXTENSION_LENGTH,
    ID_MAX,
    OPTIONS_AT,
    STAMP,
    STAMP_AT,
)


class Extension(msgspec.Struct, frozen=True):
    """What a publication carries besides what all of them do.

    >>> from runnel.wire import make_publication
    >>> quote = make_publication(7, 1, {"symbol": "YHOO"}, extension=Extension(sequence=1_000))
    >>> decode_extension(with_stamp(quote.raw, storage=3, epoch=9))
    Extension(sequence=1000, storage=3, epoch=9, rest=b'')
    """

    sequence: int = 0
    """The publisher's own number for it: the same when it publishes it again, over whatever connection; 0: none."""

    storage: int = 0
    """The storage that has it; 0: none yet."""

    epoch: int = 0
    """When the storage took it, in the storage's own time."""

    rest: bytes = b""
    """What a later version has to say."""


def encode_extension(extension: Extension) -> bytes:
    """Return the extension as it stands in a frame; raise InvalidValue if it cannot."""
    numbers = extension.sequence, extension.storage, extension.epoch
    size = EXTENSION_BYTES_MIN + len(extension.rest)
    if not all(0 <= number <= ID_MAX for number in numbers):
        raise InvalidValue(f"an extension has {numbers}: use 0 to {ID_MAX}")
    if size > EXTENSION_BYTES_MAX:
        raise InvalidValue(
            f"an extension takes {size:,} bytes, the limit is {EXTENSION_BYTES_MAX:,}"
        )
    return EXTENSION.pack(*numbers) + extension.rest + EXTENSION_LENGTH.pack(size)


def extension_bytes(frame: bytes) -> int:
    """Return how many bytes at the end of a sound publication's frame are its extension; 0 without one."""
    if not frame[OPTIONS_AT] & EXTENDED:
        return 0
    size: int = EXTENSION_LENGTH.unpack_from(frame, len(frame) - EXTENSION_LENGTH.size)[0]
    return size


def decode_extension(frame: bytes) -> Extension | None:
    """Return the extension of a sound publication's frame, if it has one."""
    size = extension_bytes(frame)
    if not size:
        return None
    start = len(frame) - size
    sequence, storage, epoch = EXTENSION.unpack_from(frame, start)
    rest = frame[start + EXTENSION.size : -EXTENSION_LENGTH.size]
    return Extension(sequence, storage, epoch, rest)


def with_stamp(frame: bytes, storage: int, epoch: int) -> bytes:
    """Return the frame with the stamp of the storage that has taken it in."""
    size = extension_bytes(frame)
    if not size:
        raise BugError("a publication without an extension has no place for a stamp")
    at = len(frame) - size + STAMP_AT
    return frame[:at] + STAMP.pack(storage, epoch) + frame[at + STAMP.size :]


def check_extension(chunk: bytes, stop: int, room: int) -> None:
    """Raise PeerError if the extension of a publication is malformed, as far as it has arrived.

    The publication ends, or will end, at `stop`; behind its name is `room` for payload and extension.
    """
    size = EXTENSION_BYTES_MIN
    if stop <= len(chunk):
        size = int.from_bytes(chunk[stop - EXTENSION_LENGTH.size : stop], "big")
    if not EXTENSION_BYTES_MIN <= size <= room:
        raise PeerError(
            f"the peer sent a publication with an extension of {size:,} bytes: "
            f"it takes {EXTENSION_BYTES_MIN} at least, and there are {room:,} behind the name"
        )
    if stop <= len(chunk):
        numbers = EXTENSION.unpack_from(chunk, stop - size)
        if min(numbers) < 0:
            raise PeerError(
                f"the peer sent a publication with the extension {numbers}: its numbers fit 63 bits"
            )
