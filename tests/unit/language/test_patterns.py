"""LIKE patterns by example; that they are right in general is in tests/property."""

import pytest

from runnel.errors import InvalidValue
from runnel.language.patterns import containing, ending, escape, like, starting


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
def test_what_fits(pattern, fitting, unfitting):
    assert all(like(pattern).matches(text) for text in fitting)
    assert not any(like(pattern).matches(text) for text in unfitting)


@pytest.mark.parametrize(("one", "other"), [("%%", "%"), ("%_%", "_%"), ("_%_", "__%")])
def test_one_spelling(one, other):
    assert like(one) == like(other)
    assert like(one).text == other


@pytest.mark.parametrize("pattern", ["\\", "a\\", r"\a", r"\\\a"])
def test_a_backslash_must_escape_something(pattern):
    with pytest.raises(InvalidValue, match="must stand before"):
        like(pattern)


def test_escaping():
    assert like(escape(r"a%b_c\d")).word == r"a%b_c\d"


@pytest.mark.parametrize(
    ("one", "other", "does"),
    [
        (starting("ab"), starting("a"), True),
        (starting("a"), starting("ab"), False),
        (starting("ab"), containing("b"), True),
        (ending("ab"), ending("b"), True),
        (like("a%b"), ending("b"), True),
        (like("a_b"), like("a%b"), True),
        (like("a%b"), like("a_b"), False),
        (like("a%b%c"), like("%b%"), True),
        (like("abc%"), like("_b_%"), True),
        (like("%"), like("_%"), False),
    ],
)
def test_what_implies_what(one, other, does):
    assert one.implies(other) is does
