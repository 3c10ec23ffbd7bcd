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

from runnel.errors import BugError, InputError, InvalidValue, PeerError
from runnel.language.values import INT_MAX, INT_MIN, Attributes, Value, check_attributes
from runnel.wire.extension import (
    Extension,
    decode_extension,
    encode_extension,
    extension_bytes,
)
from runnel.wire.header import (
    ATTRIBUTES_BYTES_MAX,
    EXTENDED,
    FLAGS_AT,
    FLAGS_MAX,
    FRAME_BYTES_MAX,
    ID_MAX,
    NAME_BYTES_MAX,
    OPTIONS_AT,
    PUBLICATION,
    PUBLICATION_REST,
    PUBLICATION_TAG,
    SCOPE_AT,
    SCOPE_MAX,
    TIME,
    TIME_AT,
    TTL_AT,
    TTL_MAX,
)
from runnel.wire.registry import Lane

_Int64 = Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)]
_decode = msgspec.msgpack.Decoder(dict[str, str | _Int64 | float | bool]).decode
_encode_attributes = msgspec.msgpack.Encoder().encode
_pack = PUBLICATION.pack
_join = b"".join
_BODY_AT = PUBLICATION.size
_BEHIND_HOPS = TTL_AT + 2
_ONE_BYTE = [bytes((n,)) for n in range(256)]
_ONE_MORE = [*_ONE_BYTE[1:], _ONE_BYTE[255]]
_VALUE_TYPES = frozenset({str, int, float, bool})
_NAMELESS = "an attribute has no name"


def decode_attributes(raw: bytes) -> dict[str, Value]:
    """Attributes from their MessagePack; a ValueError, if a publisher wrote nonsense.

    >>> decode_attributes(b"\\x81\\xa1a\\x05")
    {'a': 5}
    """
    try:
        decoded = _decode(raw)
    except RecursionError as error:
        raise ValueError(str(error)) from None
    if "" in decoded:
        raise ValueError(_NAMELESS)
    return decoded


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
    """What brokers tell each other about it; see `mark`."""

    advertisement: int
    """The id of the advertisement under which it was published."""

    counter: int
    """Its number among those, from 1."""

    name_length: int
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
            # `decode_attributes`, written out: this is for every publication
            try:
                decoded = _decode(self.raw[_BODY_AT : _BODY_AT + self.attributes_length])
            except (ValueError, RecursionError) as error:
                raise self._malformed_error(str(error)) from None
            if "" in decoded:
                raise self._malformed_error(_NAMELESS)
            self._attributes = decoded
        return decoded

    @property
    def payload(self) -> bytes:
        """What the publisher sends along, for the subscribers alone to read."""
        raw = self.raw
        start = _BODY_AT + self.attributes_length + self.name_length
        if raw[OPTIONS_AT] & EXTENDED:
            return raw[start : len(raw) - extension_bytes(raw)]
        return raw[start:]

    @property
    def scope(self) -> int:
        """The label that the routing strategy has given this copy; see `with_scope`."""
        return self.raw[SCOPE_AT]

    @property
    def extension(self) -> Extension | None:
        """What it carries besides what all publications do, if anything."""
        return decode_extension(self.raw)

    @property
    def time_ns(self) -> int:
        """When it was published, in nanoseconds since 1970 by the publisher's clock."""
        at: int = TIME.unpack_from(self.raw, TIME_AT)[0]
        return at

    @property
    def publisher(self) -> str:
        """The stable name of who published it."""
        start = _BODY_AT + self.attributes_length
        return self.raw[start : start + self.name_length].decode(errors="replace")

    @property
    def body(self) -> bytes:
        """All behind the header: the attributes as MessagePack, the name, the payload, the extension."""
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
        ttl, raw = self.ttl, self.raw
        if not ttl:
            raise BugError(f"publication {self.identity} has no hop left: check ttl, then forward")
        return _join((raw[:TTL_AT], _ONE_BYTE[ttl - 1], _ONE_MORE[self.hops], raw[_BEHIND_HOPS:]))

    def mark(self, flags: int) -> None:
        """Change the flags, as the publisher's broker may before it hands the publication on."""
        self.flags = flags
        self.raw = self.raw[:FLAGS_AT] + flags.to_bytes(2, "big") + self.raw[FLAGS_AT + 2 :]

    def _malformed_error(self, why: str) -> PeerError:
        return PeerError(f"the attributes of publication {self.identity} are malformed: {why}")


def with_scope(frame: bytes, scope: int) -> bytes:
    """Return the frame of a publication with another scope, for the links that are to get it so.

    >>> made = make_publication(7, 1, {}, ttl=3)
    >>> with_scope(made.forwarded(), 5) == make_publication(7, 1, {}, ttl=3, scope=5).forwarded()
    True
    """
    return frame[:SCOPE_AT] + _ONE_BYTE[scope] + frame[SCOPE_AT + 1 :]


def make_publication(
    advertisement: int,
    counter: int,
    attributes: Attributes,
    payload: bytes = b"",
    *,
    publisher: str = "",
    time_ns: int = 0,
    ttl: int = TTL_MAX,
    flags: int = 0,
    scope: int = 0,
    extension: Extension | None = None,
) -> Publication:
    """Make a publication on the publisher's side, or raise InputError if it cannot be sent.

    Attributes that are None or NaN are absent, so they are left out.

    >>> made = make_publication(7, 1, {"symbol": "YHOO", "note": None}, publisher="quotes")
    >>> made.attributes, made.publisher
    ({'symbol': 'YHOO'}, 'quotes')
    """
    encoded = _pack_attributes(attributes)
    if type(payload) is not bytes:
        payload = _payload_bytes(payload)
    name = publisher.encode()
    options = 0
    if extension is not None:
        options = EXTENDED
        payload += encode_extension(extension)
    size = len(encoded) + len(name) + len(payload)
    if (
        not (0 <= advertisement <= ID_MAX and 0 < counter <= ID_MAX)
        or not (0 <= ttl <= TTL_MAX and 0 <= flags <= FLAGS_MAX and 0 <= time_ns <= ID_MAX)
        or not 0 <= scope <= SCOPE_MAX
        or len(encoded) > ATTRIBUTES_BYTES_MAX
        or len(name) > NAME_BYTES_MAX
        or size > FRAME_BYTES_MAX - _BODY_AT
    ):
        raise _bounds_error(
            {"advertisement": (advertisement, 0, ID_MAX), "counter": (counter, 1, ID_MAX)}
            | {"ttl": (ttl, 0, TTL_MAX), "flags": (flags, 0, FLAGS_MAX)}
            | {"scope": (scope, 0, SCOPE_MAX), "time": (time_ns, 0, ID_MAX)},
            {
                "attributes": (len(encoded), ATTRIBUTES_BYTES_MAX),
                "publisher's name": (len(name), NAME_BYTES_MAX),
                "publication": (size, FRAME_BYTES_MAX - _BODY_AT),
            },
        )
    header = _pack(
        *(PUBLICATION_REST + size, PUBLICATION_TAG, options, ttl, 0, scope, flags),
        *(advertisement, counter, time_ns, len(name), len(encoded)),
    )
    raw = b"".join((header, encoded, name, payload))
    return Publication(ttl, 0, flags, advertisement, counter, len(name), len(encoded), raw)


def _bounds_error(
    numbers: dict[str, tuple[int, int, int]], sizes: dict[str, tuple[int, int]]
) -> Exception:
    """The error that says which number or size is out of bounds."""
    for name, (value, least, most) in numbers.items():
        if not least <= value <= most:
            return InvalidValue(f"the {name} of a publication is {value}: use {least} to {most}")
    for name, (size, most) in sizes.items():
        if size > most:
            return InvalidValue(
                f"the {name} takes {size:,} bytes, the limit is {most:,}: put what nobody filters by "
                "into the payload, and split what is large"
            )
    return BugError("a publication was refused without a reason")


def _payload_bytes(payload: object) -> bytes:
    """Other bytes than `bytes`, or InputError."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    advice = ": encode it, as in text.encode()" if isinstance(payload, str) else ""
    raise InputError(f"a payload is bytes, not {type(payload).__name__}{advice}")


def _pack_attributes(attributes: Attributes) -> bytes:
    """The attributes that have a value, as MessagePack; the usual case takes one look at each."""
    if type(attributes) is dict and _is_plain(attributes):
        try:
            return _encode_attributes(attributes)
        except UnicodeEncodeError:
            pass  # said better below
    check_attributes(attributes)
    return _encode_attributes(_plain_attributes(attributes))


def _is_plain(attributes: dict[str, Value | None]) -> bool:
    """Whether MessagePack can write them as they are."""
    for name, value in attributes.items():
        kind = type(value)
        if kind is float:
            if value != value:
                return False
        elif kind is int:
            if not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]
                return False
        elif kind is not str and kind is not bool:
            return False
        if type(name) is not str or not name:
            return False
    return True


def _plain_attributes(attributes: Attributes) -> dict[str, Value]:
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
