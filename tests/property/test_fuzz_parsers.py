"""Whatever text the parsers are given, they answer with a selection or one of three errors, soon.

Texts are made from fragments of both languages and then damaged: pieces are cut out, doubled,
swapped, or replaced by characters that have no business there. Seeded, so a failure comes back.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from runnel.errors import FilterLimitError, FilterSyntaxError, InvalidValue
from runnel.language import parse_padres, parse_publication, parse_sql
from support.effort import share

ALLOWED = (FilterSyntaxError, FilterLimitError, InvalidValue)
INPUTS = 10_000
"""In each test; all together they make 210,000."""

INPUT_SECONDS_MAX = 1.0

LITERALS = (
    *("5", "-3.5", "1e999", ".5", "1e", "99999999999999999999", "0x1F", "9" * 500, "TRUE", "false"),
    *(
        "'x'",
        "''",
        "'it''s'",
        "'a%_b'",
        "'open",
        '"quoted"',
        '"open',
        "‘STOCK’",
        "'\ud800'",
        "'\0'",
    ),
)
SQL_PIECES = (
    *(
        "a",
        "b.c",
        "$d",
        '"two words"',
        "and",
        "AND",
        "OR",
        "NOT",
        "not",
        "IN",
        "LIKE",
        "ESCAPE '!'",
    ),
    *("IS NULL", "IS NOT NULL", "BETWEEN", "=", "<>", "!=", "<", "<=", ">", ">=", "(", ")", ","),
    *(
        "a = 1 AND b = 2",
        "a IN (1, 'x')",
        "NOT (a > 5 OR b < 3)",
        "c LIKE 'x%'",
        "d BETWEEN 1 AND 2",
    ),
    *LITERALS,
)
PADRES_PIECES = (
    *("[", "]", ",", "|", "(", ")", "a", "openClose%Diff", "eq", "neq", "=", "<>", ">", ">=", "in"),
    *("not-in", "str-prefix", "not-str-contains", "str-like", "isPresent", "isAbsent", "or"),
    *("[class,eq,'STOCK']", "[volume,>,300000]", "[a,in,('x','y')]", "[open,isPresent,0]", "[a,5]"),
    *("[class,'STOCK']", "[volume,1000000]", "[a,<,5] | [b,=,true]"),
    *LITERALS,
)
NOISE = "\0\t\n\\'\"`[](){}<>=!,;|%_‘’é\u2028\ud800\U0010ffff0eE+-."


def make_text(rng: random.Random, pieces: tuple[str, ...], joint: str) -> str:
    """Half of the texts are sentences, joined as they should be; the other half are any pieces."""
    if rng.random() < 0.5:
        text = joint.join(rng.choices([p for p in pieces if len(p) > 12], k=rng.randint(1, 6)))
    else:
        text = rng.choice(("", " ", ",")).join(rng.choices(pieces, k=rng.randint(1, 9)))
    for _ in range(rng.randint(0, 2)):
        text = damage(rng, text)
    return text


def damage(rng: random.Random, text: str) -> str:
    start, end = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
    end = min(end, start + 6)
    return text[:start] + rng.choice(("", rng.choice(NOISE), text[start:end] * 2)) + text[end:]


def fuzz(parser: Callable[[str], object], pieces: tuple[str, ...], joint: str, seed: int) -> None:
    rng = random.Random(seed)
    accepted = 0
    for _ in range(INPUTS):
        text = make_text(rng, pieces, joint)
        started = time.perf_counter()
        try:
            parser(text)
            accepted += 1
        except ALLOWED:
            pass
        except Exception as error:
            pytest.fail(f"{text!r} makes the parser raise {error!r}")
        assert time.perf_counter() - started < INPUT_SECONDS_MAX, text
    assert accepted > INPUTS // 1000, "the fuzz should reach beyond syntax errors"


@pytest.mark.parametrize("seed", range(share(10)))
def test_sql_survives_any_text(seed: int) -> None:
    fuzz(parse_sql, SQL_PIECES, " AND ", seed)


@pytest.mark.parametrize("seed", range(share(8)))
def test_padres_survives_any_text(seed: int) -> None:
    fuzz(parse_padres, PADRES_PIECES, ",", seed)


@pytest.mark.parametrize("seed", range(share(3)))
def test_publications_survive_any_text(seed: int) -> None:
    fuzz(parse_publication, PADRES_PIECES, ",", seed)
