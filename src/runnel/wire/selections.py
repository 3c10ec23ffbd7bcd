"""Selections on the wire: what a subscription or an advertisement asks for, as MessagePack.

    [[[attribute, operator, value], …], …]      filters of which one must match; [] is nothing,
                                                [[]] is everything; the members of `in` are an array

Rules:
- Read once: a cache keyed by the bytes gives one object per distinct selection in a process,
  however many subscriptions, brokers and links it passes. The cache is bounded in bytes.
- What a peer sends is measured before it is built, and held to the same limits as text.
"""

from __future__ import annotations

import msgspec

from runnel.errors import FilterLimitError, FilterRefused, InputError, PeerError
from runnel.language import Filter, Limits, Op, Predicate, Selection, Value
from runnel.language.filters import DISJUNCTS_MAX

SELECTION_BYTES_MAX = 1 << 18
"""The most that a selection may take on the wire: four bytes for each character of the largest text."""

CACHE_BYTES_MAX = 1 << 25
_ENTRY_BYTES = 256
"""What an entry of the cache costs besides its key, roughly, for the smallest filter."""

_Literal = str | int | float | bool | list[str | int | float | bool] | None
_Disjunct = list[tuple[str, str, _Literal]]
_decode = msgspec.msgpack.Decoder(list[_Disjunct]).decode
_encode = msgspec.msgpack.Encoder().encode
_OPS = {op.value: op for op in Op}


def encode_selection(selection: Selection) -> bytes:
    """Return a selection as it goes on the wire: its canonical form, so the bytes can be compared.

    Only numbers stay as they were written: 5 and 5.0 mean the same and give different bytes.

    >>> from runnel.language import parse
    >>> decode_selection(encode_selection(parse("close < 20")))
    Filter([close,<,20])
    """
    raw = _encode_disjuncts(selection)
    if len(raw) > SELECTION_BYTES_MAX:
        raise FilterLimitError(
            f"the filter takes {len(raw):,} bytes, the limit is {SELECTION_BYTES_MAX:,}: "
            "split it into several subscriptions"
        )
    return raw


def raw_selection(selection: Selection) -> msgspec.Raw:
    """Return a selection the way messages hold it.

    >>> from runnel.language import EVERYTHING
    >>> decode_selection(raw_selection(EVERYTHING))
    Filter(everything)
    """
    return msgspec.Raw(encode_selection(selection))


class SelectionCache:
    """Selections by their bytes: the oldest go when there are too many.

    >>> cache = SelectionCache()
    >>> cache.decode(b"\\x91\\x90") is cache.decode(b"\\x91\\x90")
    True
    """

    __slots__ = ("_bytes", "_bytes_max", "_known", "_limits")

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX, limits: Limits | None = None) -> None:
        self._known: dict[bytes, Selection] = {}
        self._bytes = 0
        self._bytes_max = bytes_max
        self._limits = limits or Limits()

    def __len__(self) -> int:
        return len(self._known)

    def decode(self, raw: bytes | msgspec.Raw) -> Selection:
        """Return what the bytes say, or raise PeerError if a peer should not have sent them."""
        key = raw if type(raw) is bytes else bytes(raw)
        known = self._known.get(key)
        return known if known is not None else self._add(key)

    def _add(self, key: bytes) -> Selection:
        selection = read_selection(key, self._limits)
        # Another way to write a selection that is known already must not make a second object.
        canonical = _encode_disjuncts(selection)
        if canonical != key:
            known = self._known.get(canonical)
            if known is None:
                self._keep(canonical, selection)
            else:
                selection = known
        self._keep(key, selection)
        return selection

    def _keep(self, key: bytes, selection: Selection) -> None:
        self._known[key] = selection
        self._bytes += len(key) + _ENTRY_BYTES
        while self._bytes > self._bytes_max:
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._bytes -= len(oldest) + _ENTRY_BYTES


def read_selection(raw: bytes, limits: Limits) -> Selection:
    """Return what the bytes say, without a cache; raise FilterRefused if it is too much, PeerError if it is malformed.

    >>> read_selection(b"\\x90", Limits())
    Filter(nothing)
    """
    if len(raw) > SELECTION_BYTES_MAX:
        raise FilterRefused(f"it takes {len(raw):,} bytes, the limit is {SELECTION_BYTES_MAX:,}")
    try:
        decoded = _decode(raw)
        if len(decoded) > DISJUNCTS_MAX:
            raise FilterLimitError(f"it has more than {DISJUNCTS_MAX:,} alternatives")
        disjuncts = [[_predicate(triple) for triple in disjunct] for disjunct in decoded]
        _check_before_building(disjuncts, limits)
        return limits.select(map(Filter, disjuncts))
    except InputError as error:
        raise FilterRefused(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise PeerError(f"the peer sent a malformed filter: {error}") from None


def _check_before_building(disjuncts: list[list[Predicate]], limits: Limits) -> None:
    """Raise FilterLimitError for what is too large as it stands.

    To find the canonical form can take much longer than to read, so it is not tried on anything
    larger than a canonical form may be.
    """
    predicates = [predicate for disjunct in disjuncts for predicate in disjunct]
    if len(predicates) > limits.predicates:
        raise FilterLimitError(f"it has more than {limits.predicates:,} predicates")
    if sum(predicate.characters for predicate in predicates) > limits.characters:
        raise FilterLimitError(f"it has more than {limits.characters:,} characters")


def _encode_disjuncts(selection: Selection) -> bytes:
    return _encode([disjunct.predicates for disjunct in selection.disjuncts])


def _predicate(triple: tuple[str, str, Value | list[Value] | None]) -> Predicate:
    attribute, op, value = triple
    literal = tuple(value) if isinstance(value, list) else value
    # An operator that is not known is left for the filter to complain about.
    return Predicate(attribute, _OPS.get(op, op), literal)  # type: ignore[arg-type]


decode_selection = SelectionCache().decode
