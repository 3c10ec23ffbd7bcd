"""The bracket form by example, with what the papers print."""

import math
from typing import Any

import pytest

from runnel.errors import FilterSyntaxError, InvalidValue
from runnel.language import (
    EVERYTHING,
    NOTHING,
    parse_padres,
    parse_publication,
    parse_sql,
    print_publication,
    to_padres,
)


@pytest.mark.parametrize(
    ("brackets", "sql"),
    [
        ("[class,eq,'STOCK'],[volume,>,300000]", "class = 'STOCK' AND volume > 300000"),
        ("[class,eq,‘STOCK’],[symbol,eq,‘YHOO’]", "class = 'STOCK' AND symbol = 'YHOO'"),
        ('[class,EQ,"STOCK"]', "class = 'STOCK'"),
        ("[openClose%Diff,>=,0.5]", '"openClose%Diff" >= 0.5'),
        ("[open,isPresent,0],[close,isPresent]", "open IS NOT NULL AND close IS NOT NULL"),
        ("[open,isAbsent]", "open IS NULL"),
        ("[a,neq,'x'],[b,<>,1],[c,!=,2]", "a <> 'x' AND b <> 1 AND c <> 2"),
        ("[a,str-prefix,'x'],[b,prefix,'y']", "a LIKE 'x%' AND b LIKE 'y%'"),
        ("[a,str-suffix,'x'],[b,str-contains,'y']", "a LIKE '%x' AND b LIKE '%y%'"),
        ("[a,not-str-contains,'x'],[b,str-like,'y_']", "a NOT LIKE '%x%' AND b LIKE 'y_'"),
        ("[a,in,('x','y')],[b,not-in,(1,2)]", "a IN ('x', 'y') AND b NOT IN (1, 2)"),
        ("[flag,=,true],[other,=,False]", "flag = TRUE AND other = FALSE"),
        ("[a,>,5],[a,<,10]", "a > 5 AND a < 10"),
        (" [ a , > , 5 ] , [ b , = , 1 ] ", "a > 5 AND b = 1"),
        ("[a,>,5] | [b,>,5]", "a > 5 OR b > 5"),
        ('["two words",=,1]', '"two words" = 1'),
        ("", "TRUE"),
    ],
)
def test_what_is_read(brackets: str, sql: str) -> None:
    assert parse_padres(brackets) == parse_sql(sql)
    assert parse_padres(to_padres(parse_sql(sql))) == parse_sql(sql)


def test_what_is_printed() -> None:
    text = "[class,eq,'STOCK'],[note,str-prefix,'a'],[open,isPresent],[volume,>,300000]"
    assert to_padres(parse_padres(text)) == text
    assert to_padres(EVERYTHING) == ""
    assert parse_padres(to_padres(NOTHING)) == NOTHING


def test_publications() -> None:
    text = "[class,'STOCK'],[symbol,'YHOO'],[open,18.37],[volume,1000],[halted,false]"
    wanted = {"class": "STOCK", "symbol": "YHOO", "open": 18.37, "volume": 1000, "halted": False}
    assert parse_publication(text) == wanted
    assert print_publication(wanted) == text  # type: ignore[arg-type]
    assert parse_publication("") == {}
    assert print_publication({"a": None, "b": math.nan, "c": -math.inf}) == "[c,-1e999]"


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("[a,>,5", 7, "]"),
        ("[a,>]", 5, "a comma"),
        ("[a]", 3, "a comma"),
        ("[,>,5]", 2, "an attribute"),
        ("[a,>,x]", 6, "a string in quotes"),
        ("[a,>,5]]", 8, "a comma"),
        ("[a,>,5],", 9, "["),
        ("[a,in,5]", 7, "("),
        ("[a,>,'x]", 6, "a closing '"),
        ("a > 5", 1, "["),
    ],
)
def test_errors_point(text: str, column: int, expected: Any) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_padres(text)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert expected in caught.value.expected


def test_an_unknown_operator_is_told_the_known_ones() -> None:
    with pytest.raises(FilterSyntaxError, match=r"expected an operator .*str-prefix"):
        parse_padres("[a,near,5]")


def test_an_attribute_twice() -> None:
    with pytest.raises(InvalidValue, match="'a' twice"):
        parse_publication("[a,1],[a,2]")
