"""Every error that Runnel raises on purpose, as one small tree.

    RunnelError
    ├── InputError           your mistake: what you passed in cannot be used (also a ValueError)
    │   ├── FilterSyntaxError    the text of a filter or publication cannot be read
    │   ├── FilterLimitError     a filter is larger than the limits allow
    │   ├── InvalidValue         a value, operator or attribute name that the language does not have
    │   ├── NoCredit             published without waiting, though the broker takes no more at the moment
    │   └── ClientClosed         called on a client that was closed
    ├── PeerError            the peer's mistake: it sent something that it must not send
    ├── NetworkError         nobody's mistake: the network, or a broker in it, is not as it should be
    │   ├── ConnectionFailed     no broker could be reached (also a ConnectionError)
    │   ├── PublicationInDoubt   publications may or may not have arrived
    │   └── MoveFailed           the client could not move to another broker, and stays where it is
    └── BugError             our mistake: please report it

Rule: a message says what is wrong and what to do about it, in the words of whoever reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

_EXCERPT_CHARACTERS = 72
"""How much of a long line is shown around the place of a syntax error."""


class RunnelError(Exception):
    """The root: `except RunnelError` catches everything that Runnel raises on purpose."""


class InputError(RunnelError, ValueError):
    """What was passed in cannot be used; the message says how to change it."""


class FilterSyntaxError(InputError):
    """The text cannot be read; the message shows the line, the place and what was expected there.

    >>> print(FilterSyntaxError("a = = 5", line=1, column=5, expected=("a literal",)))
    line 1, column 5: expected a literal
      a = = 5
          ^
    """

    def __init__(self, text: str, *, line: int, column: int, expected: Sequence[str]) -> None:
        self.text = text
        self.line = line
        self.column = column
        self.expected = tuple(expected)
        super().__init__(self._describe())

    def _describe(self) -> str:
        wanted = " or ".join(self.expected) or "the end of the text"
        excerpt, caret = _excerpt(self.text, self.line, self.column)
        return f"line {self.line}, column {self.column}: expected {wanted}\n  {excerpt}\n  {caret}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_syntax_error, (self.text, self.line, self.column, self.expected)


class FilterLimitError(InputError):
    """A filter is larger than the limits allow; the message names the limit."""


class InvalidValue(InputError):  # noqa: N818 - named for what it reports, not for being an error
    """A value, operator or attribute name that the language does not have."""


class NoCredit(InputError):  # noqa: N818 - named for what it reports, not for being an error
    """The broker takes no more publications at the moment: wait for credit, or use `publish`, which waits."""


class ClientClosed(InputError):  # noqa: N818 - named for what it reports, not for being an error
    """The client was closed, so it can do nothing more: connect another one."""


class PeerError(RunnelError):
    """The other side of a connection broke the protocol."""


class NetworkError(RunnelError):
    """The network, or a broker in it, is not as it should be; trying again later may help."""


class ConnectionFailed(NetworkError, ConnectionError):  # noqa: N818 - as its siblings
    """No broker could be reached; the message names every address and why it failed."""


class PublicationInDoubt(NetworkError):  # noqa: N818 - as its siblings
    """The broker went away before it said whether it had these publications; they are not sent again.

    >>> print(PublicationInDoubt(1))
    1 publication may or may not have arrived: the broker was lost before it confirmed
    >>> PublicationInDoubt(3).count
    3
    """

    def __init__(self, count: int) -> None:
        self.count = count
        what = "1 publication" if count == 1 else f"{count:,} publications"
        super().__init__(
            f"{what} may or may not have arrived: the broker was lost before it confirmed"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return PublicationInDoubt, (self.count,)


class MoveFailed(NetworkError):  # noqa: N818 - as its siblings
    """The client could not move to the other broker; it stays where it is, and nothing is lost."""


class BugError(RunnelError):
    """Runnel broke one of its own rules; please report it with the message."""


def _rebuild_syntax_error(
    text: str, line: int, column: int, expected: tuple[str, ...]
) -> FilterSyntaxError:
    """Unpickle: exceptions with keyword arguments need a hand."""
    return FilterSyntaxError(text, line=line, column=column, expected=expected)


def _excerpt(text: str, line: int, column: int) -> tuple[str, str]:
    """Return the part of the line around the column, and a caret that points at the column."""
    lines = text.split("\n")
    whole = lines[line - 1] if line <= len(lines) else ""
    start = max(0, column - 1 - _EXCERPT_CHARACTERS // 2)
    shown = whole[start : start + _EXCERPT_CHARACTERS]
    # A tab or an unprintable character would move the caret away from its place.
    visible = "".join(c if c.isprintable() else "·" for c in shown)
    return visible, " " * (column - 1 - start) + "^"
