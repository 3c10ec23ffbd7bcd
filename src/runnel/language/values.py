"""What a value is: strings, numbers and booleans, and when two of them can be compared.

Rules:
- A value is a `str`, `int`, `float` or `bool`. Numbers compare with numbers, exactly (an int beyond
  2**53 is not rounded); strings compare with strings, by code point; a bool is not a number.
- An int fits 64 bits signed. A string can be written as UTF-8, so it has no lone surrogates.
- In an event, `None` and NaN mean that the attribute is absent. In a filter they are errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum

from runnel.errors import InvalidValue

Value = str | int | float | bool
"""A literal in a filter, or an attribute's value in an event."""

Attributes = Mapping[str, Value | None]
"""The content of an event: what filters are matched against."""

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1


class Kind(Enum):
    """The kinds of value; values of different kinds never compare."""

    ABSENT = "absent"
    BOOL = "bool"
    NUMBER = "number"
    STRING = "string"


_KIND_OF_TYPE: dict[type, Kind] = {
    str: Kind.STRING,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    bool: Kind.BOOL,
    type(None): Kind.ABSENT,
}


def kind_of(value: object) -> Kind:
    """Return the kind of a value as an event holds it; `None` and NaN are absent.

    >>> kind_of(5), kind_of(True), kind_of(float("nan"))
    (<Kind.NUMBER: 'number'>, <Kind.BOOL: 'bool'>, <Kind.ABSENT: 'absent'>)
    """
    kind = _KIND_OF_TYPE.get(type(value)) or _kind_of_subclass(value)
    if kind is Kind.NUMBER and value != value:
        return Kind.ABSENT
    return kind


def _kind_of_subclass(value: object) -> Kind:
    """Enums over str or int and NumPy's float64 are values too."""
    for base in (str, int, float):
        if isinstance(value, base):
            return _KIND_OF_TYPE[base]
    raise InvalidValue(
        f"a value must be a str, int, float or bool, not {type(value).__name__}: convert it first"
    )


def check_literal(value: object) -> Kind:
    """Return the kind of a literal in a filter, or raise InvalidValue.

    >>> check_literal("STOCK")
    <Kind.STRING: 'string'>
    >>> check_literal(2**63)
    Traceback (most recent call last):
        ...
    runnel.errors.InvalidValue: the int 9223372036854775808 does not fit 64 bits: use a float or a string
    """
    kind = kind_of(value)
    if kind is Kind.ABSENT:
        raise InvalidValue(
            f"{value} cannot be compared with: to ask for a missing attribute, "
            "use isAbsent (SQL: IS NULL)"
        )
    check_range(value)
    return kind


def check_attribute(name: object) -> None:
    """Raise InvalidValue unless `name` can name an attribute: any string with something in it.

    >>> check_attribute("openClose%Diff")
    """
    if not isinstance(name, str) or not name:
        raise InvalidValue("an attribute's name must be a string that is not empty")
    check_range(name)


def check_attributes(attributes: Attributes) -> None:
    """Raise InvalidValue unless this can be the content of an event. Call it where events come in.

    >>> check_attributes({"symbol": "YHOO", "close": 18.37, "note": None})
    """
    if not isinstance(attributes, Mapping):
        raise InvalidValue(f"an event is a mapping of names to values, not {attributes!r}")
    for name, value in attributes.items():
        check_attribute(name)
        if kind_of(value) is not Kind.ABSENT:
            check_range(value)


def is_absent(value: Value | None) -> bool:
    """Tell whether an event's value counts as no value at all.

    >>> is_absent(None), is_absent(math.nan), is_absent(0)
    (True, True, False)
    """
    return value is None or value != value


def check_range(value: object) -> None:
    """Raise InvalidValue for an int beyond 64 bits and for a string that UTF-8 cannot write."""
    if isinstance(value, str):
        if not value.isascii():
            _check_encodable(value)
    elif isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        raise InvalidValue(
            f"the int {_shorten(value)} does not fit 64 bits: use a float or a string"
        )


def _check_encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValue(
            f"the string has a lone surrogate at position {error.start}, which UTF-8 cannot write: "
            "decode it with the right encoding first"
        ) from None


def _shorten(number: int) -> str:
    """Show an int without writing out millions of digits (which Python refuses to do anyway)."""
    if abs(number) < 10**30:
        return str(number)
    return f"of about 10**{int(number.bit_length() * math.log10(2))}"
