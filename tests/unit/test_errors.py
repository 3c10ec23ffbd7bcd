"""The tree of errors, and how a syntax error shows its place."""

import pickle

import pytest

from runnel.errors import (
    BugError,
    FilterLimitError,
    FilterSyntaxError,
    InputError,
    InvalidValue,
    PeerError,
    RunnelError,
)


def test_the_tree() -> None:
    assert {FilterSyntaxError, FilterLimitError, InvalidValue} <= set(InputError.__subclasses__())
    assert {InputError, PeerError, BugError} <= set(RunnelError.__subclasses__())
    assert issubclass(InputError, ValueError)


def test_a_syntax_error_points_at_its_place() -> None:
    error = FilterSyntaxError("a = 1\nAND b = = 2", line=2, column=9, expected=["a literal"])
    assert str(error) == "line 2, column 9: expected a literal\n  AND b = = 2\n          ^"


@pytest.mark.parametrize("column", [1, 500, 1000, 1001])
def test_a_long_line_is_cut_around_the_place(column: int) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(1000))
    _, shown, caret = str(FilterSyntaxError(text, line=1, column=column, expected=[])).split("\n")
    assert len(shown) < 80
    pointed = shown[caret.index("^") : caret.index("^") + 1]
    assert pointed == text[column - 1 : column]


def test_control_characters_do_not_move_the_caret() -> None:
    error = FilterSyntaxError("\t\x1b= 1", line=1, column=3, expected=["an attribute"])
    assert str(error).endswith("\n  ··= 1\n    ^")


def test_a_syntax_error_survives_pickling() -> None:
    error = FilterSyntaxError("a =", line=1, column=4, expected=["a literal"])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.expected) == (str(error), ("a literal",))
