"""Selections on the wire: exact, canonical, one object each, and measured before they are built."""

import math
import struct
from typing import Any

import msgspec
import pytest

from runnel.errors import FilterLimitError, PeerError
from runnel.language import EVERYTHING, NOTHING, Filter, Limits, Op, Predicate, any_of, parse
from runnel.wire import (
    SELECTION_BYTES_MAX,
    SelectionCache,
    decode_selection,
    encode_selection,
    raw_selection,
)

pack = msgspec.msgpack.encode


@pytest.mark.parametrize(
    "text",
    [
        "a = 5",
        "a = 5.0",
        "a = TRUE",
        "a IN (1, 2, 9223372036854775807)",
        "a NOT IN ('x', 'née')",
        "a IS NULL AND b IS NOT NULL",
        "a LIKE 'x%y_' AND b NOT LIKE '%z'",
        "a > 5 AND a < 10 OR b = 'x'",
        "a > 0.1 OR b IN (FALSE) OR c LIKE '%z%'",
    ],
)
def test_a_selection_comes_back_as_it_went(text: str) -> None:
    selection = parse(text)
    back = decode_selection(encode_selection(selection))
    assert back == selection and hash(back) == hash(selection)
    assert encode_selection(back) == encode_selection(selection)


def test_everything_and_nothing_have_their_forms() -> None:
    assert encode_selection(EVERYTHING) == b"\x91\x90"
    assert encode_selection(NOTHING) == b"\x90"
    assert decode_selection(b"\x91\x90") == EVERYTHING
    assert decode_selection(b"\x90") == NOTHING


def test_infinity_is_a_number_like_others() -> None:
    selection = Filter([Predicate("a", Op.LT, math.inf)])
    assert decode_selection(encode_selection(selection)) == selection


def test_one_object_however_it_is_asked_for() -> None:
    raw = encode_selection(parse("a > 5 AND b = 'x'"))
    assert decode_selection(raw) is decode_selection(bytes(bytearray(raw)))
    assert decode_selection(msgspec.Raw(raw)) is decode_selection(raw)
    assert decode_selection(raw_selection(parse("b = 'x' AND a > 5"))) is decode_selection(raw)


def test_another_way_to_write_it_gives_the_same_object() -> None:
    cache = SelectionCache()
    canonical = cache.decode(pack([[("a", "=", 5)]]))
    assert cache.decode(pack([[("a", "<=", 5), ("a", ">=", 5)]])) is canonical
    assert cache.decode(pack([[("a", "=", 5)], [("a", "=", 5)]])) is canonical


def test_another_way_to_write_it_counts_even_if_it_comes_first() -> None:
    cache = SelectionCache()
    first = cache.decode(pack([[("a", "<=", 5), ("a", ">=", 5)]]))
    assert cache.decode(pack([[("a", "=", 5)]])) is first


def test_the_cache_is_bounded_and_forgets_the_oldest() -> None:
    cache = SelectionCache(bytes_max=10_000)
    selections = [encode_selection(parse(f"a = {n}")) for n in range(1_000)]
    newest = [cache.decode(raw) for raw in selections][-1]
    assert 10 < len(cache) < 40
    assert cache.decode(selections[-1]) is newest
    assert cache.decode(selections[0]) == parse("a = 0")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xc1",
        b"\x80",
        b"\x91",
        b"\x91\x91\x90",
        b"\x90\x90",
        pack([[("a", "=")]]),
        pack([[("a", "=", 5, 6)]]),
        pack([[("a", "~", 5)]]),
        pack([[("", "=", 5)]]),
        pack([[(5, "=", 5)]]),
        pack([[("a", "=", None)]]),
        pack([[("a", "=", math.nan)]]),
        pack([[("a", "=", 2**63)]]),
        pack([[("a", "=", [5])]]),
        pack([[("a", "<", True)]]),
        pack([[("a", "prefix", 5)]]),
        pack([[("a", "in", 5)]]),
        pack([[("a", "in", [])]]),
        pack([[("a", "in", [5, "x"])]]),
        pack([[("a", "in", [[5]])]]),
        pack([[("a", "=", {"b": 1})]]),
        pack([[("a", "=", b"x")]]),
        b"\x91\x91\x93\xa1a\xa1=\xa1\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\x91\x91\x93\xa1a\xa2in\xdd\xff\xff\xff\xff\x01",
        b"\x91" * 100_000,
        pack([[("a", "like", "_" * 65)]]),
    ],
)
def test_what_makes_no_sense_is_the_peers_mistake(raw: Any) -> None:
    with pytest.raises(PeerError, match="the peer sent a"):
        decode_selection(raw)


def test_limits_hold_for_peers() -> None:
    many = [[("a", "=", n)] for n in range(101)]
    predicates = [[(f"a{n}", "=", n) for n in range(1_001)]]
    characters = [[("a", "in", ["x" * 10_000 + str(n) for n in range(8)])]]
    for refused in (many, predicates, characters, [[]] * 1_001):  # type: ignore[var-annotated]
        with pytest.raises(PeerError, match=r"refused|malformed"):
            decode_selection(pack(refused))
    assert len(SelectionCache(limits=Limits(disjuncts=101)).decode(pack(many)).disjuncts) == 101


def test_the_limit_in_bytes_holds_for_both_sides() -> None:
    members = tuple(range(10**9, 10**9 + SELECTION_BYTES_MAX // 5 + 1))
    with pytest.raises(FilterLimitError, match="split it"):
        encode_selection(Filter([Predicate("a", Op.IN, members)]))
    with pytest.raises(PeerError, match="the limit is 262,144"):
        decode_selection(pack([[("a", "in", members)]]))


def test_what_grows_in_its_canonical_form_is_still_read() -> None:
    # Floats of 32 bits are never sent by us, and take twice the room when they are written again.
    count = SELECTION_BYTES_MAX // 5 - 10
    floats = b"".join(b"\xca" + struct.pack(">f", n) for n in range(count))
    raw = b"\x91\x91\x93\xa1a\xa2in\xdd" + count.to_bytes(4, "big") + floats
    (predicate,) = SelectionCache().decode(raw).disjuncts[0].predicates
    assert isinstance(predicate.value, tuple) and len(predicate.value) == count


def test_a_disjunction_keeps_its_order() -> None:
    selection = any_of([Filter([Predicate(name, Op.GT, 1)]) for name in "zyx"])
    assert decode_selection(encode_selection(selection)).disjuncts == selection.disjuncts
