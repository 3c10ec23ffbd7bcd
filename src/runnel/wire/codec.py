"""The codec: messages to frames, and any split of bytes back to publications and messages.

Rules:
- `feed` takes whatever a connection yields: half a header, a thousand frames, anything between.
- A size is checked as soon as it can be read, and nothing is ever allocated because of what a
  size says: a decoder holds what has arrived, at most one frame and one chunk.
- Whatever is malformed raises PeerError that says what was wrong, and so does every call after it:
  there is no way to find the next frame. Frames before it in the same chunk are given up with it;
  nobody has acknowledged them.
"""

from __future__ import annotations

import msgspec

from runnel.errors import PeerError
from runnel.wire.extension import check_extension
from runnel.wire.header import (
    ATTRIBUTES_BYTES_MAX,
    EXTENDED,
    FRAME,
    FRAME_BYTES_MAX,
    LENGTH_BYTES,
    PLAIN,
    PUBLICATION,
    PUBLICATION_READ,
    PUBLICATION_REST,
    PUBLICATION_TAG,
)
from runnel.wire.publication import Publication
from runnel.wire.registry import REGISTRY, Message, Registry

Frame = Publication | Message
"""What comes out of a decoder."""

_encode_body = msgspec.msgpack.Encoder().encode
_pack_frame = FRAME.pack
_unpack_publication = PUBLICATION_READ.unpack_from
_FRAME_BYTES = FRAME.size
_TLS_HANDSHAKE = b"\x16\x03"
_PUBLICATION_BYTES = PUBLICATION.size


def encode(message: Message, registry: Registry = REGISTRY) -> bytes:
    """Return the frame of a message.

    >>> from runnel.wire import Fence
    >>> encode(Fence(5))
    b'\\x00\\x00\\x00\\x05\\t\\x93\\x05\\xc3\\x90'
    """
    body = _encode_body(message)
    return _pack_frame(len(body) + 1, registry.tag(type(message))) + body


class Decoder:
    """Reads the frames of one connection.

    >>> from runnel.wire import Fence
    >>> decoder, frame = Decoder(), encode(Fence(5))
    >>> decoder.feed(frame[:3]), decoder.feed(frame[3:] + frame)
    ([], [Fence(token=5, reached=True, missing=()), Fence(token=5, reached=True, missing=())])
    """

    __slots__ = ("_broken", "_decoders", "_needed", "_rest", "frame_bytes_max")

    def __init__(
        self, frame_bytes_max: int = FRAME_BYTES_MAX, registry: Registry = REGISTRY
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._decoders = registry.decoders
        self._rest = bytearray()
        self._needed = 0
        self._broken: str | None = None

    @property
    def waiting_bytes(self) -> int:
        """How much of a frame that is not complete yet has arrived."""
        return len(self._rest)

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that are complete now, in order; raise PeerError if one is malformed."""
        if self._broken is not None:
            raise PeerError(self._broken)
        rest = self._rest
        if rest:
            rest += chunk
            if len(rest) < self._needed:
                return []
            chunk = bytes(rest)
            self._rest = bytearray()
        try:
            return self._frames(chunk)
        except PeerError as error:
            self._broken = str(error)
            self._rest = bytearray()
            raise

    def _frames(self, chunk: bytes) -> list[Frame]:
        """Cut a chunk that begins with a frame; keep what is left of it for the next time.

        This is the hot path, so a publication that is in order and has no options takes one test and
        no call besides those that make it. Whatever fails the test is looked at again, more slowly.
        """
        frames: list[Frame] = []
        append, unpack, publication = frames.append, _unpack_publication, Publication
        longest = self.frame_bytes_max - LENGTH_BYTES
        start, end = 0, len(chunk)
        last = end - _PUBLICATION_BYTES
        while end - start >= _FRAME_BYTES:
            if start <= last:
                length, kind, ttl, hops, flags, advertisement, counter, name, size = unpack(
                    chunk, start
                )
                stop = start + LENGTH_BYTES + length
                if (
                    kind == PLAIN
                    and stop <= end
                    and length <= longest
                    and size + name <= length - PUBLICATION_REST
                    and size <= ATTRIBUTES_BYTES_MAX
                    and advertisement >= 0
                    and counter > 0
                ):
                    raw = chunk[start:stop]
                    append(publication(ttl, hops, flags, advertisement, counter, name, size, raw))
                    start = stop
                    continue
            stop = start + self._checked_bytes(chunk, start)
            if stop > end:
                break
            tag = chunk[start + LENGTH_BYTES]
            if tag == PUBLICATION_TAG:
                append(_publication(chunk[start:stop]))
            else:
                append(self._message(tag, chunk[start + _FRAME_BYTES : stop]))
            start = stop
        if start < end:
            self._needed = self._checked_bytes(chunk, start)
            self._rest += chunk[start:]
        return frames

    def _checked_bytes(self, chunk: bytes, start: int) -> int:
        """Return how many bytes the frame at this place takes; raise PeerError if it is malformed.

        Of a frame whose length has not arrived yet this is the length of the length.
        """
        left = len(chunk) - start
        if left < LENGTH_BYTES:
            return LENGTH_BYTES
        length = int.from_bytes(chunk[start : start + LENGTH_BYTES], "big")
        needed = LENGTH_BYTES + length
        if needed > self.frame_bytes_max:
            if chunk[start : start + 2] == _TLS_HANDSHAKE:
                raise PeerError("the peer speaks TLS, and TLS is not switched on here")
            raise PeerError(
                f"the peer announced a frame of {needed:,} bytes, the limit is "
                f"{self.frame_bytes_max:,}: check that it is a Runnel peer with the same limits"
            )
        if not length:
            raise PeerError("the peer sent an empty frame: every frame has a tag")
        if left >= _FRAME_BYTES:
            tag = chunk[start + LENGTH_BYTES]
            if tag == PUBLICATION_TAG:
                _check_publication(chunk, start, length)
            elif tag not in self._decoders:
                raise PeerError(
                    f"the peer sent a message with the tag {tag}, which is not known here"
                )
        return needed

    def _message(self, tag: int, body: bytes) -> Message:
        try:
            return self._decoders[tag].decode(body)
        except (ValueError, RecursionError) as error:
            name = self._decoders[tag].type.__name__
            raise PeerError(f"the peer sent a malformed {name}: {error}") from None


def _publication(raw: bytes) -> Publication:
    """The publication whose frame this is; the frame has been checked."""
    _, _, ttl, hops, flags, advertisement, counter, name, size = _unpack_publication(raw)
    return Publication(ttl, hops, flags, advertisement, counter, name, size, raw)


def _check_publication(chunk: bytes, start: int, length: int) -> None:
    """Raise PeerError if the header of a publication is wrong, as far as it has arrived."""
    if length < PUBLICATION_REST:
        raise PeerError(
            f"the peer sent a publication of {length} bytes, its header alone takes "
            f"{PUBLICATION_REST}"
        )
    if len(chunk) - start < _PUBLICATION_BYTES:
        return
    _, kind, _, _, _, advertisement, counter, name, size = _unpack_publication(chunk, start)
    if size > min(ATTRIBUTES_BYTES_MAX, length - PUBLICATION_REST - name):
        raise PeerError(
            f"the peer sent a publication with {size:,} bytes of attributes in a frame of "
            f"{length:,}, the limit is {ATTRIBUTES_BYTES_MAX:,}"
        )
    if advertisement < 0 or counter < 1:
        raise PeerError(
            f"the peer sent the publication ({advertisement}, {counter}): "
            "ids fit 63 bits and counters begin at 1"
        )
    if kind & EXTENDED:
        stop = start + LENGTH_BYTES + length
        check_extension(chunk, stop, length - PUBLICATION_REST - name - size)
