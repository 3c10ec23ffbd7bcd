"""What an experiment is judged by: criteria that are declared in a file before anything is measured.

An experiment's `claims.toml` has one `[[row]]` for every claim, and one `[constants.NAME]` for every setting that the
paper does not print:

    [[row]]
    id = "brokers-homogeneous"
    kind = "claim"                   # of the paper; "calibrated": a constant was chosen by it; "ours": of no paper
    claim = "CRAM-IOU: brokers fall by up to, homogeneous"
    quote = "with a reduction of up to 91% and 80% in the homogeneous and heterogeneous scenarios"
    source = "§VI-B1, Fig. 5b"
    word = "up to"                   # how the paper says it: `WORDS` says what that means
    paper = 91
    unit = "%"
    over = ["capacity", "scheme"]    # constants on which the row hangs: it is shown as a curve over each

Rules:
- A claim's bounds follow from the paper's own word and number, by the one table `WORDS`. Only rows of our own, and
  ranges that the paper prints (`word = "within"`), have `low` and `high` in the file.
- Claims and calibrated rows quote the paper and say where; at most two rows are calibrated.
- A constant that was chosen by rows names them (`calibrated_by`): each must be calibrated, and every calibrated row is
  named by one. So a row cannot become a claim while a constant says that it was chosen by it.
- Where the paper says something else elsewhere, `but` quotes that too.
- `digest` names all of it in one line. Results carry it, so a criterion that was changed after a run shows.
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from runnel.errors import InputError

FILE = "claims.toml"
CALIBRATED_MOST = 2
Kind = Literal["claim", "calibrated", "ours"]
KINDS: tuple[Kind, ...] = ("claim", "calibrated", "ours")


class Bounds(NamedTuple):
    """Between what a value must lie; None: there is no such bound. `open`: it must not be a bound itself."""

    low: float | None = None
    high: float | None = None
    open: bool = False

    def contain(self, value: float) -> bool:
        """Whether a value is within; what is no number is not.

        >>> Bounds(low=90.5).contain(90.5), Bounds(high=50, open=True).contain(50), Bounds().contain(math.nan)
        (True, False, False)
        """
        if not math.isfinite(value):
            return False
        if self.open and value in (self.low, self.high):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def __str__(self) -> str:
        """As it is shown.

        >>> print(Bounds(low=90.5), Bounds(high=50, open=True), Bounds(12, 20), Bounds(0, 0))
        ≥ 90.5 < 50 12 to 20 = 0
        """
        if self.low is not None and self.high is not None:
            same = self.low == self.high
            if self.open:
                return f"> {self.low:g}, < {self.high:g}"
            return f"= {self.low:g}" if same else f"{self.low:g} to {self.high:g}"
        if self.low is not None:
            return f"{'>' if self.open else '≥'} {self.low:g}"
        return f"{'<' if self.open else '≤'} {self.high:g}" if self.high is not None else ""


def _around(number: float, within: float) -> Bounds:
    return Bounds(number - within, number + within)


WORDS: Mapping[str, tuple[str, Callable[[float], Bounds]]] = {
    # With a number N of the paper. Percentages are printed without decimals.
    "up to": ("a gain: at least N, less half a point", lambda n: Bounds(low=n - 0.5)),
    "at least": ("N or more", lambda n: Bounds(low=n)),
    "at most": ("a cost: at most N, and half a point", lambda n: Bounds(high=n + 0.5)),
    "less than": ("below N", lambda n: Bounds(high=n, open=True)),
    "exactly": ("N", lambda n: Bounds(n, n)),
    "percent": (
        "N%, on average: within a quarter of N, or of 100 − N if that is less",
        lambda n: _around(n, min(n, 100 - n) / 4),
    ),
    "about": ("within a quarter of N", lambda n: _around(n, abs(n) / 4)),
    # Without one: the value is by how many percent something is so.
    "higher": ("by at least 1%, so that it can be seen", lambda n: Bounds(low=1)),
    "lower": ("by at least 1%", lambda n: Bounds(low=1)),
    "highest": ("above every other by at least 1%", lambda n: Bounds(low=1)),
    "lowest": ("below every other by at least 1%", lambda n: Bounds(low=1)),
    "significantly": ("by at least 20%", lambda n: Bounds(low=20)),
    "not significantly": ("by less than 20%", lambda n: Bounds(-20, 20, open=True)),
    "slightly": ("by more than 0 and at most 10%", lambda n: Bounds(0.001, 10)),
    "the same": ("apart by at most 5%", lambda n: _around(0, 5)),
    "zero": ("printed as 0: below 0.05", lambda n: Bounds(high=0.05, open=True)),
    "always": ("in 100% of the cases", lambda n: Bounds(100, 100)),
    "almost always": ("in all cases but one: at most one is not so", lambda n: Bounds(high=1)),
    "almost all": ("at least 90%", lambda n: Bounds(low=90)),
    "linear": ("grows with the power 1, within a quarter", lambda n: _around(1, 0.25)),
    "squared": ("grows with the power 2, within a quarter", lambda n: _around(2, 0.25)),
    "directly": ("a correlation of at least 0.9", lambda n: Bounds(low=0.9)),
}
"""What the paper's words mean, the same in every row."""
WITH_NUMBER = ("up to", "at least", "at most", "less than", "exactly", "percent", "about")
WITHIN = "within"


class Constant(Struct, frozen=True, forbid_unknown_fields=True):
    """A setting that the paper does not print. `tried` has every value that was ever tried, and what came of it."""

    what: str
    why: str
    used: str
    sweep: tuple[float | str, ...] = ()  # at the paper's scale
    tried: tuple[str, ...] = ()
    calibrated_by: tuple[str, ...] = ()  # the rows by which the value was chosen


class Criterion(Struct, frozen=True, forbid_unknown_fields=True):
    """One declared row."""

    id: str
    kind: Kind
    claim: str
    quote: str = ""
    source: str = ""
    word: str = ""
    paper: float | str | None = None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    but: str = ""  # where the paper says something else
    over: tuple[str, ...] = ()
    by_clock: bool = False  # a time by the wall clock, which no two runs share
    workload: str = ""

    @property
    def bounds(self) -> Bounds:
        """Between what the value must lie."""
        if self.word in WORDS:
            number = self.paper if isinstance(self.paper, (int, float)) else 0.0
            return WORDS[self.word][1](number)
        return Bounds(self.low, self.high)

    def mistakes(self) -> list[str]:
        """What is wrong with it, on its own."""
        found = []
        if self.kind == "ours":
            if self.source or self.quote:
                found.append("is ours, but has a source")
        else:
            if not (self.source and self.quote):
                found.append("has no source: quote the paper, and say where it says so")
            if self.word not in WORDS and self.word != WITHIN:
                found.append(f"has an unknown word {self.word!r}: take one of {', '.join(WORDS)}")
            if self.word in WITH_NUMBER and not isinstance(self.paper, (int, float)):
                found.append(f"says {self.word!r} without the number that the paper prints")
        if self.word in WORDS and (self.low, self.high) != (None, None):
            found.append("has a word, and bounds besides: bounds follow from words")
        if self.bounds == Bounds():
            found.append("has no bounds, so that every value would do")
        return found


class Criteria(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that an experiment's file declares. `seeds`: how many decide, at least."""

    row: tuple[Criterion, ...]
    workload: str = ""
    seeds: int = 1
    constants: Mapping[str, Constant] = {}
    file_id: str = ""  # by which git knows the file; not declared in it, and no part of the digest

    @property
    def digest(self) -> str:
        """A name for all that is declared, with the bounds that words stand for."""
        whole = {
            **msgspec.to_builtins(msgspec.structs.replace(self, file_id="")),
            "bounds": {one.id: str(one.bounds) for one in self.row},
        }
        return hashlib.sha256(msgspec.json.encode(whole, order="sorted")).hexdigest()[:16]

    def mistakes(self) -> list[str]:
        """What is wrong with it, row by row."""
        found = [f"{one.id}: {mistake}" for one in self.row for mistake in one.mistakes()]
        twice = [id for id, count in Counter(one.id for one in self.row).items() if count > 1]
        found += [f"{id}: is there twice" for id in twice]
        found += [
            f"{one.id}: hangs on {name!r}, which is not among the constants"
            for one in self.row
            for name in one.over
            if name not in self.constants
        ]
        calibrated = [one.id for one in self.row if one.kind == "calibrated"]
        chosen_by = [id for one in self.constants.values() for id in one.calibrated_by]
        found += [
            f"{id}: a constant was chosen by it, so it must be calibrated"
            for id in chosen_by
            if id not in calibrated
        ]
        found += [
            f"{id}: is calibrated, and no constant says that it was chosen by it (calibrated_by)"
            for id in calibrated
            if id not in chosen_by
        ]
        if len(calibrated) > CALIBRATED_MOST:
            found.append(
                f"{', '.join(calibrated)}: are calibrated; at most {CALIBRATED_MOST} may be"
            )
        return found


def read_criteria(file: Path) -> Criteria:
    """Read what is declared, or an InputError that names every mistake."""
    try:
        whole = file.read_bytes()
        criteria = msgspec.convert(tomllib.loads(whole.decode()), Criteria)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None
    criteria = msgspec.structs.replace(criteria, file_id=_git_id(whole))
    if mistakes := criteria.mistakes():
        raise InputError(f"{file}: {'; '.join(mistakes)}")
    return criteria


def _git_id(content: bytes) -> str:
    """The id by which git knows a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
