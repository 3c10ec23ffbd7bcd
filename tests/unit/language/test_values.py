"""Kinds of values, and what is refused."""

import enum
import math
from typing import Any

import pytest

from runnel.errors import InvalidValue
from runnel.language.values import Kind, check_attributes, check_literal, kind_of


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("x", Kind.STRING),
        (Colour.RED, Kind.STRING),
        (5, Kind.NUMBER),
        (5.0, Kind.NUMBER),
        (math.inf, Kind.NUMBER),
        (True, Kind.BOOL),
        (None, Kind.ABSENT),
        (math.nan, Kind.ABSENT),
    ],
)
def test_kinds(value: Any, kind: str) -> None:
    assert kind_of(value) is kind


@pytest.mark.parametrize("value", [b"x", [1], (1,), {}, object()])
def test_no_other_types(value: Any) -> None:
    with pytest.raises(InvalidValue, match="must be a str, int, float or bool"):
        kind_of(value)


@pytest.mark.parametrize("value", [None, math.nan, 2**63, -(2**63) - 1, "\ud800"])
def test_what_cannot_be_a_literal(value: Any) -> None:
    with pytest.raises(InvalidValue):
        check_literal(value)


def test_an_int_with_more_digits_than_python_prints() -> None:
    with pytest.raises(InvalidValue, match=r"about 10\*\*5000 does not fit"):
        check_literal(10**5000)


def test_events_are_checked_where_they_come_in() -> None:
    check_attributes({"a": 1, "b": None, "c": math.nan, "ü": "x", "d": -(2**63)})
    for bad in ({"a": 2**63}, {"": 1}, {"a": "\udc00"}, {"\udc00": 1}, {"a": b"x"}):
        with pytest.raises(InvalidValue):
            check_attributes(bad)  # type: ignore[arg-type]
