"""SQL selectors by example: what is read, what is refused and how, what is printed."""

from typing import Any

import pytest

from runnel.errors import FilterSyntaxError, InvalidValue
from runnel.language import EVERYTHING, Filter, Op, Predicate, parse, parse_sql, to_sql


def test_the_selector_of_the_manual() -> None:
    wanted = parse_sql(
        "symbol = 'YHOO' AND (volume > 300000 OR close BETWEEN 10 AND 20) "
        "AND note LIKE 'a%' AND x IS NOT NULL"
    )
    assert len(wanted.disjuncts) == 2
    event: dict[str, Any] = {
        "symbol": "YHOO",
        "volume": 100,
        "close": 18.37,
        "note": "abc",
        "x": False,
    }
    assert wanted.matches(event)
    assert wanted.matches(event | {"close": None, "volume": 300001})
    assert not wanted.matches(event | {"close": 21})
    assert not wanted.matches(event | {"x": None})


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ("flag", "flag = TRUE"),
        ("NOT flag", "flag = FALSE"),
        ("5 < a", "a > 5"),
        ("'x' = a", "a = 'x'"),
        ("TRUE = a", "a"),
        ("a != 5", "a <> 5"),
        ("a between 1 and 2 and b = 1", "a >= 1 AND a <= 2 AND b = 1"),
        ("a not between 1 and 2", "a < 1 OR a > 2"),
        ("NOT (a > 5 AND b > 5)", "a <= 5 OR b <= 5"),
        ("NOT NOT a > 5", "a > 5"),
        ("a = 1 OR b = 2 AND c = 3", "a = 1 OR (b = 2 AND c = 3)"),
        ("NOT a = 1 AND b = 2", "(a <> 1) AND b = 2"),
        ("a = +5 AND b = -.5e1 AND c = 5.", "a = 5 AND b = -5.0 AND c = 5.0"),
        ("a NOT IN (1, 'x')", "FALSE"),
        ("a LIKE '50!%%' ESCAPE '!'", r"a LIKE '50\%%' ESCAPE '\'"),
        (r"a LIKE 'c:\%'", r"a LIKE 'c:\\%' ESCAPE '\'"),
        ("a LIKE 'x!!%' ESCAPE '!'", "a LIKE 'x!%'"),
        ("", "TRUE"),
        (" \n\t", "TRUE"),
        ("((a)=1)", None),
    ],
)
def test_what_is_read(written: str, meaning: str) -> None:
    if meaning is None:
        with pytest.raises(FilterSyntaxError):
            parse_sql(written)
    else:
        assert parse_sql(written) == parse_sql(meaning)


def test_names_and_strings() -> None:
    wanted = parse_sql('JMSX.$id_1 = \'it\'\'s\' AND "two ""words""" = \'\' AND "and" = 1')
    assert wanted.attributes == ("JMSX.$id_1", "and", 'two "words"')
    assert wanted.matches({"JMSX.$id_1": "it's", 'two "words"': "", "and": 1})
    assert parse_sql(to_sql(wanted)) == wanted
    assert type(wanted.predicates[0].value) is str  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("a = = 5", 1, 5, "a number"),
        ("a =", 1, 4, "a string in single quotes"),
        ("a = 5 b = 6", 1, 7, "AND"),
        ("a = 1\n  AND OR", 2, 7, "an attribute"),
        ("(a = 1", 1, 7, ")"),
        ("a = 1)", 1, 6, "the end of the text"),
        ("a IN ()", 1, 7, "a number"),
        ("a IN (1 2)", 1, 9, "a comma"),
        ("a LIKE 5", 1, 8, "a string in single quotes"),
        ("a IS 5", 1, 6, "NULL"),
        ("a NOT 5", 1, 7, "LIKE"),
        ("a = 'open", 1, 5, "a closing '"),
        ('"open = 5', 1, 1, 'a closing "'),
        ("a = 5x", 1, 5, "a number"),
        ("a = b", 1, 5, "a number"),
        ("a # 5", 1, 3, "a comparison (= <> < <= > >=)"),
        ("and", 1, 1, "an attribute"),
        ("5", 1, 2, "a comparison (= <> < <= > >=)"),
    ],
)
def test_errors_point(text: str, line: int, column: int, expected: Any) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_sql(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert expected in caught.value.expected


@pytest.mark.parametrize(
    "text",
    ["a > TRUE", "a LIKE 'x' ESCAPE 'ab'", "a LIKE 'x!' ESCAPE '!'", "a LIKE '!x' ESCAPE '!'"],
)
def test_what_makes_no_sense(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse_sql(text)


def test_parse_takes_either_language() -> None:
    assert parse(" [a,>,5]") == parse("a > 5") == Filter([Predicate("a", Op.GT, 5)])
    assert parse("") == EVERYTHING
