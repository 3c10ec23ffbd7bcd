"""LIKE patterns by example; that they are right in general is in tests/property."""

from typing import Any

import pytest

from runnel.errors import InvalidValue
from runnel.language.patterns import escape, like, prefix_pattern, substring_pattern, suffix_pattern


@pytest.mark.parametrize(
    ("pattern", "fitting", "unfitting"),
    [
        ("", [""], ["a"]),
        ("%", ["", "a", "a\nb"], []),
        ("_", ["a", "\n", "\U0010ffff"], ["", "ab"]),
        ("a%b", ["ab", "axb", "abb"], ["a", "b", "aba"]),
        ("a_c", ["abc", "a_c"], ["ac", "abbc"]),
        ("%ab%ab%", ["abab", "xabyabz"], ["ab", "aab"]),
        ("ab%ba", ["abba", "abxba"], ["aba"]),
        ("%a_c%", ["abc", "aabcc", "xaacx"], ["ac", "abbc"]),
        (r"100\%", ["100%"], ["100", "1000"]),
        (r"\_\\%", ["_\\", "_\\x"], ["a\\"]),
    ],
)
def test_what_fits(pattern: str, fitting: Any, unfitting: Any) -> None:
    assert all(like(pattern).matches(text) for text in fitting)
    assert not any(like(pattern).matches(text) for text in unfitting)


@pytest.mark.parametrize(("one", "other"), [("%%", "%"), ("%_%", "_%"), ("_%_", "__%")])
def test_one_spelling(one: Any, other: Any) -> None:
    assert like(one) == like(other)
    assert like(one).text == other


@pytest.mark.parametrize("pattern", ["\\", "a\\", r"\a", r"\\\a"])
def test_a_backslash_must_escape_something(pattern: str) -> None:
    with pytest.raises(InvalidValue, match="must stand before"):
        like(pattern)


def test_escaping() -> None:
    assert like(escape(r"a%b_c\d")).word == r"a%b_c\d"


@pytest.mark.parametrize(
    ("one", "other", "does"),
    [
        (prefix_pattern("ab"), prefix_pattern("a"), True),
        (prefix_pattern("a"), prefix_pattern("ab"), False),
        (prefix_pattern("ab"), substring_pattern("b"), True),
        (suffix_pattern("ab"), suffix_pattern("b"), True),
        (like("a%b"), suffix_pattern("b"), True),
        (like("a_b"), like("a%b"), True),
        (like("a%b"), like("a_b"), False),
        (like("a%b%c"), like("%b%"), True),
        (like("abc%"), like("_b_%"), True),
        (like("%"), like("_%"), False),
    ],
)
def test_what_implies_what(one: Any, other: Any, does: bool) -> None:
    assert one.implies(other) is does
