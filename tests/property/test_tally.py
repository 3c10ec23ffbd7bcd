"""Totals of events against the oracle, for both engines."""

from __future__ import annotations

import random
from array import array
from itertools import accumulate
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import InputError
from runnel.language import Filter, Op, Predicate, parse
from runnel.matching import make_engine
from runnel.matching.tally import PackedEvents, Totals
from runnel.wire.publication import decode_attributes
from support import strategies as our
from support.effort import examples
from support.oracle import BruteForce

ENGINES = ("compiled", "index")
Event = tuple[Any, int, int]


def expected(oracle: BruteForce, events: list[Event]) -> dict[int, tuple[int, ...]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for attributes, amount, at in events:
        for id in oracle.match(attributes):
            found.setdefault(id, []).append((amount, at))
    return {
        id: (len(got), sum(a for a, _ in got), min(t for _, t in got), max(t for _, t in got))
        for id, got in found.items()
    }


def by_id(totals: Totals) -> dict[int, tuple[int, ...]]:
    rows = list(zip(*totals, strict=True))
    assert len({row[0] for row in rows}) == len(rows), "an id once"
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize("name", ENGINES)
@examples(500)
@given(
    selections=st.lists(our.selections(), max_size=20),
    events=st.lists(st.tuples(our.attributes(), st.integers(0, 9), st.integers(-9, 9))),
)
def test_totals_are_the_oracles(name: Any, selections: Any, events: list[Event]) -> None:
    engine, oracle = make_engine(name), BruteForce()
    for id, selection in enumerate(selections):
        engine.add(id, selection)
        oracle.add(id, selection)
    tally = engine.tally()
    for some in (events[::2], events[1::2]):
        for event in some:
            tally.add(*event)
        assert by_id(tally.take()) == expected(oracle, some)
    assert by_id(tally.take()) == {}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("op", [Op.GT, Op.LT, Op.EQ])
def test_totals_of_many_thresholds(name: Any, op: Op) -> None:
    """More of them than a block of the index holds, on the same few values and on many."""
    chance = random.Random(1)
    engine, oracle = make_engine(name), BruteForce()
    for id in range(2_500):
        filter_ = Filter(
            [Predicate("a", op, chance.randrange(3_000)), Predicate("b", Op.EQ, id % 2)]
        )
        engine.add(3 * id, filter_)
        oracle.add(3 * id, filter_)
    tally = engine.tally()
    events: list[Event] = [
        ({"a": chance.randrange(3_000), "b": n % 2}, n, chance.randrange(99)) for n in range(200)
    ]
    for event in events:
        tally.add(*event)
    assert by_id(tally.take()) == expected(oracle, events) != {}


# -- events as they lie in a trace ----------------------------------------------------------------------


def packed(raw: list[bytes], amounts: list[int], times: list[int]) -> PackedEvents:
    edges = [0, *accumulate(map(len, raw))]
    return PackedEvents(b"".join(raw), *(array("q", column) for column in (edges, amounts, times)))


def readable(raw: bytes) -> dict[str, Any] | None:
    try:
        return decode_attributes(raw)
    except ValueError:
        return None


def damaged(raw: bytes, chance: random.Random) -> bytes:
    """A byte is another, or missing, or one too many; or a piece of it is there again."""
    at, change = chance.randrange(len(raw) + 1), chance.randrange(4)
    if change == 3:
        return raw[:1] + raw[1:] * 2 if raw[:1] < b"\x88" else raw * 2
    put = bytes([chance.randrange(256)]) if change else b""
    return raw[:at] + put + raw[at + (change < 2) :]


@examples(500)
@given(
    selections=st.lists(our.selections(), max_size=20),
    events=st.lists(our.attributes(), min_size=1),
    chance=st.randoms(use_true_random=False),
)
def test_packed_events_come_to_what_decoded_ones_do(
    selections: Any, events: list[Any], chance: random.Random
) -> None:
    engine, oracle = make_engine("compiled"), BruteForce()
    for id, selection in enumerate(selections):
        engine.add(id, selection)
        oracle.add(id, selection)
    raw = [msgspec.msgpack.encode(event) for event in events]
    raw = [damaged(one, chance) if chance.random() < 0.5 else one for one in raw]
    whole = packed(raw, list(range(len(raw))), [-n for n in range(len(raw))])
    rows = array("q", chance.sample(range(len(raw)), chance.randrange(len(raw) + 1)))
    tally, found = engine.tally(), [readable(one) for one in raw]
    left = tally.add_packed(whole, rows)
    assert set(left) <= set(rows)
    assert {row for row in rows if found[row] is None} <= set(left), "nonsense is nobody's"
    taken = [row for row in rows if row not in set(left)]
    assert by_id(tally.take()) == expected(oracle, [(found[row], row, -row) for row in taken])
    for row in left:
        if found[row] is not None:
            tally.add(found[row], row, -row)  # type: ignore[arg-type]
    others = [(found[row], row, -row) for row in left if found[row] is not None]
    assert by_id(tally.take()) == expected(oracle, others)


_PLAIN = st.text(st.characters(min_codepoint=0, max_codepoint=127), max_size=300)
_INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 70_000)


@given(
    event=st.dictionaries(
        _PLAIN.filter(bool), _PLAIN | _INTS | st.floats() | st.booleans(), max_size=40
    )
)
def test_ordinary_events_need_not_be_decoded(event: dict[str, Any]) -> None:
    """Every value is found by equality, whatever its size, after names and values of all others."""
    engine = make_engine("compiled")
    for id, (name, value) in enumerate(event.items()):
        engine.add(id, Filter([Predicate(name, Op.EQ, value)] if value == value else []))
    raw = [msgspec.msgpack.encode(event)] * 2
    tally = engine.tally()
    assert tally.add_packed(packed(raw, [1, 1], [0, 0]), array("q", [0, 1])) == []
    assert set(tally.take().counts) <= {2}
    tally.add_packed(packed(raw, [1, 1], [0, 0]), array("q", [0]))
    assert sorted(tally.take().ids) == list(range(len(event)))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x81\xa1a",
        b"\x81\xa1a\x01\x01",
        b"\x81\xa1a\xc0",
        b"\x81\xa1a\xa1\xff",
        b"\x81\xa1a\x91\x01",
        b"\x81\xa0\x01",
        b"\x82\xa1a\x01\xa1a\x02",
        b"\x81\xa1a\xcf" + b"\xff" * 8,
        b"\xdf\xff\xff\xff\xff\xa1a\x01",
        b"\x81\xa1a\xdb\xff\xff\xff\xff",
    ],
)
def test_what_is_not_plain_is_handed_back(raw: bytes) -> None:
    engine = make_engine("compiled")
    engine.add(1, parse("a IS NULL OR a IS NOT NULL"))
    tally = engine.tally()
    assert tally.add_packed(packed([raw], [1], [1]), array("q", [0])) == [0]
    assert by_id(tally.take()) == {}


@pytest.mark.parametrize("row", [-1, 1])
def test_rows_that_are_not_there_are_refused(row: int) -> None:
    tally = make_engine("compiled").tally()
    with pytest.raises(InputError, match=f"no row {row}"):
        tally.add_packed(packed([b"\x80"], [1], [1]), array("q", [row]))


def test_an_engine_in_python_hands_everything_back() -> None:
    tally = make_engine("index").tally()
    assert tally.add_packed(packed([b"\x80"], [1], [1]), array("q", [0])) == [0]


def test_a_tally_of_an_engine_that_changed_is_stale() -> None:
    engine = make_engine("compiled")
    engine.add(1, parse("a > 1"))
    tally = engine.tally()
    tally.add({"a": 2}, 1, 1)
    engine.add(2, parse("a > 2"))
    with pytest.raises(InputError, match=r"stale.*take\(\) before changing"):
        tally.take()
