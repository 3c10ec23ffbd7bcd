"""What rows are judged by: the paper's words mean the same everywhere, and a row that cheats is not read."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from runnel.errors import InputError
from runnel.lab.criteria import WORDS, Bounds, Criterion, read_criteria
from runnel.lab.experiment import experiments

HONEST = """
[constants.rate]
what = "publications per minute"
why = "not printed"
used = "90"

[[row]]
id = "rate"
kind = "claim"
claim = "message rate falls by up to"
quote = "by up to 85%"
source = "abstract"
word = "up to"
paper = 85
unit = "%"
over = ["rate"]
"""


def read(tmp_path: Path, text: str) -> None:
    (tmp_path / "claims.toml").write_text(text)
    read_criteria(tmp_path / "claims.toml")


@pytest.mark.parametrize(
    ("word", "paper", "inside", "outside"),
    [
        ("up to", 85, (84.5, 99), (84.4, -8.1, math.nan, math.inf)),
        ("at most", 16, (16.5, 0), (16.6,)),
        ("less than", 50, (49.9,), (50,)),
        ("exactly", 0, (0,), (1, -1)),
        ("percent", 16, (12, 20), (11.9, 20.1, 31)),
        ("percent", 91, (88.75, 93.25), (88, 94)),
        ("about", 2_200, (1_650, 2_750), (1_649, 2_751)),
        ("significantly", None, (20,), (0, 19.9)),
        ("slightly", None, (0.1, 10), (0, 11)),
        ("the same", None, (-5, 0, 5), (5.1, -5.1)),
        ("always", None, (100,), (99,)),
        ("lowest", None, (1,), (0, 0.9)),
        ("squared", None, (1.75, 2.25), (1, 1.7)),
    ],
)
def test_what_words_mean(
    word: str, paper: float | None, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    bounds = Criterion("id", "claim", "claim", "quote", "§1", word, paper).bounds
    assert all(bounds.contain(value) for value in inside)
    assert not any(bounds.contain(value) for value in outside)


def test_every_word_excludes_something() -> None:
    for word, (meaning, bounds) in WORDS.items():
        assert bounds(10) != Bounds() and meaning, word


def test_what_is_honest_is_read(tmp_path: Path) -> None:
    read(tmp_path, HONEST)


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ('source = "abstract"\n', "", "rate: has no source"),
        ('quote = "by up to 85%"\n', "", "rate: has no source"),
        ('kind = "claim"', 'kind = "ours"', "rate: is ours, but has a source"),
        ('word = "up to"', 'word = "roughly"', "rate: has an unknown word 'roughly'"),
        ("paper = 85", 'paper = "some"', "without the number that the paper prints"),
        ("paper = 85", "paper = 85\nlow = 10", "bounds follow from words"),
        ('word = "up to"', 'word = "within"', "has no bounds, so that every value would do"),
        ('over = ["rate"]', 'over = ["size"]', "hangs on 'size', which is not among the constants"),
        ('unit = "%"', 'unit = "%"\nholds = true', "unknown field `holds`"),
        ('kind = "claim"', 'kind = "evidence"', "Invalid enum value"),
    ],
)
def test_what_is_not_honest_is_not_read(tmp_path: Path, old: str, new: str, mistake: str) -> None:
    assert old in HONEST
    with pytest.raises(InputError) as told:
        read(tmp_path, HONEST.replace(old, new))
    assert mistake in str(told.value)


def test_two_rows_may_be_calibrated_and_no_third(tmp_path: Path) -> None:
    row = HONEST[HONEST.index("[[row]]") :].replace('"claim"', '"calibrated"', 1)
    constants = HONEST[: HONEST.index("[[row]]")]
    names = ["one", "two", "three"]
    rows = [row.replace('"rate"', f'"{name}"', 1) for name in names]

    def file(count: int) -> str:
        return f"{constants}calibrated_by = {names[:count]}\n{''.join(rows[:count])}"

    read(tmp_path, file(2))
    with pytest.raises(InputError, match="one, two, three: are calibrated; at most 2 may be"):
        read(tmp_path, file(3))
    with pytest.raises(InputError, match="rate: is there twice"):
        read(tmp_path, HONEST + HONEST[HONEST.index("[[row]]") :])


def test_a_row_by_which_a_constant_was_chosen_cannot_become_a_claim(tmp_path: Path) -> None:
    chosen = HONEST.replace('used = "90"', 'used = "90"\ncalibrated_by = ["rate"]')
    read(tmp_path, chosen.replace('kind = "claim"', 'kind = "calibrated"'))
    with pytest.raises(InputError, match="rate: a constant was chosen by it, so it must be calib"):
        read(tmp_path, chosen)
    with pytest.raises(InputError, match="rate: is calibrated, and no constant says that"):
        read(tmp_path, HONEST.replace('kind = "claim"', 'kind = "calibrated"'))
    with pytest.raises(InputError, match="gone: a constant was chosen by it"):
        read(tmp_path, chosen.replace('["rate"]', '["gone"]'))


@pytest.mark.parametrize("old", ["paper = 85", 'used = "90"', '"up to"', "by up to 85%"])
def test_the_digest_knows_every_change(tmp_path: Path, old: str) -> None:
    new = {'"up to"': '"at least"'}.get(old, old.replace("85", "58").replace("90", "70"))
    digests = []
    for text in (HONEST, HONEST.replace(old, new, 1), f"# a remark\n{HONEST}"):
        (tmp_path / "claims.toml").write_text(text)
        digests.append(read_criteria(tmp_path / "claims.toml").digest)
    assert digests[0] != digests[1] and digests[0] == digests[2]


def test_the_digest_knows_what_a_word_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "claims.toml").write_text(HONEST)
    before = read_criteria(tmp_path / "claims.toml").digest
    looser = {**WORDS, "up to": ("half of it", lambda n: Bounds(low=n / 2))}
    monkeypatch.setattr("runnel.lab.criteria.WORDS", looser)
    assert read_criteria(tmp_path / "claims.toml").digest != before


def test_all_experiments_declare_their_rows() -> None:
    for one in experiments().values():
        assert one.criteria().row
