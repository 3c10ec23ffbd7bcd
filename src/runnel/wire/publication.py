"""Publication: what the frames that matter most become, with a body that nobody rewrites.

Rules:
- A broker reads the header, hands on the body byte for byte, and looks into the attributes only if
  it has to match them: they are decoded when they are first asked for, and only once.
- So a body that makes no sense is found where the attributes are first used: `attributes` raises
  PeerError, as the decoder does for everything else. Whoever takes publications from a client
  looks before handing them on, or brokers further on would blame each other.
- A publication is (advertisement, counter); two with the same identity are the same publication,
  whatever way they have come.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from runnel.errors import BugError, InvalidValue, PeerError
from runnel.language.values import INT_MAX, INT_MIN, Attributes, Value, check_attributes
from runnel.wire.header import (
    ATTRIBUTES_BYTES_MAX,
    FRAME_BYTES_MAX,
    ID_MAX,
    PUBLICATION,
    PUBLICATION_REST,
    PUBLICATION_TAG,
    TTL_AT,
    TTL_MAX,
)
from runnel.wire.registry import Lane

_Int64 = Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)]
_decode_attributes = msgspec.msgpack.Decoder(dict[str, str | _Int64 | float | bool]).decode
_encode_attributes = msgspec.msgpack.Encoder().encode
_pack = PUBLICATION.pack
_BODY_AT = PUBLICATION.size
_ONE_BYTE = [bytes((n,)) for n in range(256)]
_VALUE_TYPES = frozenset({str, int, float, bool})


# Without the garbage collector's care: a publication holds bytes, ints and a dict of plain values,
# so it can never be part of a cycle; and there are very many of them.
class Publication(msgspec.Struct, eq=False, gc=False):
    """One publication, as it was received or is going to be sent; see `make_publication`.

    >>> quote = make_publication(7, 1, {"symbol": "YHOO", "close": 18.37}, b"chart", ttl=3)
    >>> quote.attributes, quote.payload
    ({'symbol': 'YHOO', 'close': 18.37}, b'chart')
    >>> len(quote.forwarded()) == len(quote.frame())
    True
    """

    ttl: int
    """How many more brokers may hand it on."""

    hops: int
    """How many brokers have handed it on, up to 255."""

    flags: int
    advertisement: int
    """The id of the advertisement under which it was published."""

    counter: int
    """Its number among those, from 1."""

    attributes_length: int
    raw: bytes
    """The whole frame, as it came or will go."""

    _attributes: dict[str, Value] | None = None

    lane: ClassVar[Lane] = Lane.DATA

    @property
    def attributes(self) -> dict[str, Value]:
        """What filters are matched against; shared, so not to be changed. May raise PeerError."""
        decoded = self._attributes
        if decoded is None:
            try:
                decoded = _decode_attributes(self.raw[_BODY_AT : _BODY_AT + self.attributes_length])
            except (ValueError, RecursionError) as error:
                raise self._malformed(str(error)) from None
            if "" in decoded:
                raise self._malformed("an attribute has no name")
            self._attributes = decoded
        return decoded

    @property
    def payload(self) -> bytes:
        """What the publisher sends along, for the subscribers alone to read."""
        return self.raw[_BODY_AT + self.attributes_length :]

    @property
    def body(self) -> bytes:
        """The attributes as MessagePack, then the payload."""
        return self.raw[_BODY_AT:]

    @property
    def identity(self) -> tuple[int, int]:
        """The advertisement and the counter: what makes it this publication and no other."""
        return self.advertisement, self.counter

    def frame(self) -> bytes:
        """Return the publication as it goes on the wire."""
        return self.raw

    def forwarded(self) -> bytes:
        """Return the frame that a broker hands on: one hop further, one fewer to go.

        Not for a publication whose ttl is 0: that one goes no further.
        """
        ttl, hops, raw = self.ttl, self.hops, self.raw
        if not ttl:
            raise BugError(f"publication {self.identity} has no hop left: check ttl, then forward")
        hops = hops + 1 if hops < TTL_MAX else TTL_MAX
        return raw[:TTL_AT] + _ONE_BYTE[ttl - 1] + _ONE_BYTE[hops] + raw[TTL_AT + 2 :]

    def _malformed(self, why: str) -> PeerError:
        return PeerError(f"the attributes of publication {self.identity} are malformed: {why}")


def make_publication(
    advertisement: int,
    counter: int,
    attributes: Attributes,
    payload: bytes = b"",
    *,
    ttl: int = TTL_MAX,
    flags: int = 0,
) -> Publication:
    """Make a publication on the publisher's side, or raise InputError if it cannot be sent.

    Attributes that are None or NaN are absent, so they are left out.

    >>> make_publication(7, 1, {"symbol": "YHOO", "note": None}).attributes
    {'symbol': 'YHOO'}
    """
    _check_range("advertisement", advertisement, 0, ID_MAX)
    _check_range("counter", counter, 1, ID_MAX)
    _check_range("ttl", ttl, 0, TTL_MAX)
    _check_range("flags", flags, 0, 0xFFFF)
    check_attributes(attributes)
    present = _present(attributes)
    encoded = _encode_attributes(present)
    if len(encoded) > ATTRIBUTES_BYTES_MAX:
        raise InvalidValue(
            f"the attributes take {len(encoded):,} bytes, the limit is {ATTRIBUTES_BYTES_MAX:,}: "
            "put what nobody filters by into the payload"
        )
    size = len(encoded) + len(payload)
    if PUBLICATION.size + size > FRAME_BYTES_MAX:
        raise InvalidValue(
            f"the payload takes {len(payload):,} bytes, a whole publication at most "
            f"{FRAME_BYTES_MAX:,}: split it"
        )
    header = _pack(
        *(PUBLICATION_REST + size, PUBLICATION_TAG, ttl, 0, flags),
        *(advertisement, counter, len(encoded)),
    )
    raw = header + encoded + payload
    return Publication(ttl, 0, flags, advertisement, counter, len(encoded), raw, present)


def _present(attributes: Attributes) -> dict[str, Value]:
    """Return the attributes that have a value, with plain strings and numbers."""
    present: dict[str, Value] = {}
    for name, value in attributes.items():
        if value is not None and value == value:
            present[_plain_string(name)] = value if type(value) in _VALUE_TYPES else _plain(value)
    return present


def _plain(value: Value) -> Value:
    """Return what an enum, or another subclass of a plain type, stands for."""
    if isinstance(value, str):
        return _plain_string(value)
    return int.__int__(value) if isinstance(value, int) else float.__float__(value)


def _plain_string(text: str) -> str:
    return text if type(text) is str else str.__str__(text)


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidValue(f"the {name} of a publication is {value}: use {least} to {most}")
