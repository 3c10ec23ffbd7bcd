r"""LIKE patterns: `%` stands for any run of characters, `_` for any one, `\` takes their meaning away.

Rules:
- Linear time, always. The pieces between `%` are looked for one after the other, each at the first
  place where it fits; that is enough, because `%` may stretch, and nothing is ever tried twice.
  A piece without `_` is found by `str.find`; one with `_` by Shift-And (Baeza-Yates and Gonnet,
  "A new approach to text searching", 1992): one machine word of state, one step per character.
- One pattern, one spelling: `%_%` and `_%%` mean the same and both become `_%`.
- `implies` may say no where the truth is yes, never the reverse.

Inside, a pattern is a string of *symbols*: itself, with the wildcards replaced by two lone
surrogates, which no valid text contains. So a pattern can be matched against another pattern's
symbols as if they were a text, and that is how `implies` works.
"""

from __future__ import annotations

import re
from functools import lru_cache

from runnel.errors import FilterLimitError, InvalidValue

GAP_SEGMENT_MAX = 64
"""The longest piece that may contain `_`: the bits of the machine word that Shift-And keeps."""

_RUN = "\ud800"
_ONE = "\ud801"
_WILDCARDS = {"%": _RUN, "_": _ONE}
_TOKEN = re.compile(r"\\(.?)|([%_])|([^\\%_]+)", re.DOTALL)
_WILDCARD_RUN = re.compile(f"[{_RUN}{_ONE}]+")
_SPECIAL = re.compile(r"[\\%_]")


def escape(text: str) -> str:
    r"""Return the pattern that matches exactly this text.

    >>> escape("100%")
    '100\\%'
    """
    return _SPECIAL.sub(r"\\\g<0>", text)


@lru_cache(maxsize=256)
def like(pattern: str) -> Pattern:
    r"""Compile a LIKE pattern.

    >>> like("Y%_o").matches("Yahoo"), like(r"100\%").matches("100x")
    (True, False)
    """
    symbols = []
    for escaped, wildcard, plain in _TOKEN.findall(pattern):
        if plain:
            symbols.append(plain)
        elif wildcard:
            symbols.append(_WILDCARDS[wildcard])
        elif escaped and escaped in "\\%_":
            symbols.append(escaped)
        else:
            raise InvalidValue(
                r"in a pattern \ must stand before %, _ or another \: write \\ for a backslash"
            )
    return Pattern(_WILDCARD_RUN.sub(_tidy, "".join(symbols)))


def prefix_pattern(text: str) -> Pattern:
    """Return the pattern of all strings that start with this text.

    >>> prefix_pattern("ab").matches("abc")
    True
    """
    return Pattern(text + _RUN)


def suffix_pattern(text: str) -> Pattern:
    """Return the pattern of all strings that end with this text.

    >>> suffix_pattern("bc").matches("abc")
    True
    """
    return Pattern(_RUN + text)


def substring_pattern(text: str) -> Pattern:
    """Return the pattern of all strings that contain this text.

    >>> substring_pattern("b").matches("abc")
    True
    """
    return Pattern(_RUN + text + _RUN if text else _RUN)


class Pattern:
    """A compiled pattern; make one with `like`, `prefix_pattern`, `suffix_pattern` or `substring_pattern`.

    `segments` are the pieces between the `%`: the first is anchored at the start of the text, the
    last at its end, and either may be empty. A pattern with a single segment has no `%`.
    """

    __slots__ = ("_finders", "_symbols", "segments")

    def __init__(self, symbols: str) -> None:
        self._symbols = symbols
        self.segments = tuple(symbols.split(_RUN))
        self._finders = tuple(_GapSegment(s) if _ONE in s else s for s in self.segments)

    @property
    def has_gaps(self) -> bool:
        """Tell whether the pattern contains a `_`."""
        return _ONE in self._symbols

    @property
    def word(self) -> str | None:
        """The one text that fits, if the pattern has no wildcards."""
        return self._symbols if len(self.segments) == 1 and not self.has_gaps else None

    @property
    def is_cone(self) -> bool:
        """Tell whether the pattern asks for a prefix and no more."""
        return len(self.segments) == 2 and self.segments[1] == "" and not self.has_gaps

    @property
    def head(self) -> str:
        """The text that every match starts with."""
        return self.segments[0].partition(_ONE)[0]

    @property
    def tail(self) -> str:
        """The text that every match ends with."""
        return self.segments[-1].rpartition(_ONE)[2]

    @property
    def text(self) -> str:
        """The pattern as it is written, in its one spelling."""
        return escape(self._symbols).replace(_RUN, "%").replace(_ONE, "_")

    def matches(self, text: str) -> bool:
        """Tell whether the whole text fits the pattern."""
        first, last = self.segments[0], self.segments[-1]
        if len(self.segments) == 1:
            return len(text) == len(first) and _find(self._finders[0], text, 0, len(text)) == 0
        start, end = len(first), len(text) - len(last)
        if start > end or _find(self._finders[0], text, 0, start) != 0:
            return False
        if _find(self._finders[-1], text, end, len(text)) != end:
            return False
        for segment, finder in zip(self.segments[1:-1], self._finders[1:-1], strict=True):
            found = _find(finder, text, start, end)
            if found < 0:
                return False
            start = found + len(segment)
        return True

    def implies(self, other: Pattern) -> bool:
        """Tell whether every text that fits this pattern certainly fits the other.

        >>> like("ab%c").implies(like("a%")), like("a%").implies(like("ab%c"))
        (True, False)
        """
        return other.matches(self._symbols)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self._symbols == other._symbols

    def __hash__(self) -> int:
        return hash(self._symbols)

    def __repr__(self) -> str:
        return f"like({self.text!r})"


class _GapSegment:
    """A piece of a pattern that contains `_`, found by Shift-And."""

    __slots__ = ("_anywhere", "_goal", "_length", "_masks")

    def __init__(self, segment: str) -> None:
        if len(segment) > GAP_SEGMENT_MAX:
            raise FilterLimitError(
                f"a piece of a LIKE pattern that contains _ has {len(segment)} characters, "
                f"the limit is {GAP_SEGMENT_MAX}: put a % in it or use fewer _"
            )
        self._length = len(segment)
        self._goal = 1 << (self._length - 1)
        self._anywhere = sum(1 << i for i, symbol in enumerate(segment) if symbol == _ONE)
        # When the text is another pattern's symbols, its % may be a run of any length: nothing fits.
        self._masks = {_RUN: 0}
        for i, symbol in enumerate(segment):
            if symbol != _ONE:
                self._masks[symbol] = self._masks.get(symbol, self._anywhere) | 1 << i

    def find(self, text: str, start: int, end: int) -> int:
        """Return where the piece first fits inside text[start:end], or -1."""
        masks, anywhere, goal = self._masks, self._anywhere, self._goal
        state = 0
        for i in range(start, end):
            # Bit k of the state: the last k + 1 characters fit the first k + 1 symbols.
            state = (state << 1 | 1) & masks.get(text[i], anywhere)
            if state & goal:
                return i - self._length + 1
        return -1


def _find(finder: str | _GapSegment, text: str, start: int, end: int) -> int:
    """Return where a piece first fits inside text[start:end], or -1."""
    if isinstance(finder, str):
        return text.find(finder, start, end)
    return finder.find(text, start, end)


def _tidy(run: re.Match[str]) -> str:
    """Spell neighbouring wildcards in one way: first every `_`, then one `%`."""
    wildcards = run.group()
    return _ONE * wildcards.count(_ONE) + _RUN * (_RUN in wildcards)
