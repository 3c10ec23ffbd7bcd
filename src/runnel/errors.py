"""Every error that Runnel raises on purpose, as one small tree.

    RunnelError
    ├── InputError           your mistake: what you passed in cannot be used (also a ValueError)
    │   ├── FilterSyntaxError    the text of a filter or publication cannot be read
    │   ├── FilterLimitError     a filter is larger than the limits allow
    │   ├── InvalidValue         a value, operator or attribute name that the language does not have
    │   ├── AccessDenied         a broker does not let this user in, or not any more
    │   ├── SubscriptionRefused  a broker does not take what was subscribed to
    │   ├── AdvertisementRefused a broker does not take what was advertised
    │   ├── PublicationRefused   a broker does not hand on what was published
    │   ├── NoCredit             published without waiting, though the broker takes no more at the moment
    │   └── ClientClosed         called on a client that was closed
    ├── PeerError            the peer's mistake: it sent something that it must not send
    │   └── FilterRefused        a filter that is not taken
    ├── NetworkError         nobody's mistake: the network, or a broker in it, is not as it should be
    │   ├── ConnectionFailed     no broker could be reached (also a ConnectionError)
    │   ├── RoutesIncomplete     a part of the network cannot be reached (also a TimeoutError)
    │   ├── PublicationInDoubt   publications may or may not have arrived
    │   └── MoveFailed           the client could not move to another broker, and stays where it is
    └── BugError             our mistake: please report it

Rule: a message says what is wrong and what to do about it, in terms that its reader knows.
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


class AccessDenied(InputError):  # noqa: N818 - named for what it reports, not for being an error
    """A broker does not let this user in, or not any more; the message says why. The client does not try again."""


class SubscriptionRefused(InputError):  # noqa: N818 - named for what it reports, not for being an error
    """A broker does not take the subscription; the message says why. Nothing else of the client is concerned."""


class AdvertisementRefused(InputError):  # noqa: N818 - named for what it reports, not for being an error
    """A broker does not take the advertisement; the message says why. Nothing else of the client is concerned."""


class PublicationRefused(InputError):  # noqa: N818 - named for what it reports, not for being an error
    """A broker has not handed on what was published, since this user may not publish it; the message says why.

    >>> print(PublicationRefused(2, "class = 'STOCK' is all that alice may publish"))
    2 publications were refused: class = 'STOCK' is all that alice may publish
    """

    def __init__(self, count: int, reason: str) -> None:
        self.count = count
        self.reason = reason
        what = "the publication was" if count == 1 else f"{count:,} publications were"
        super().__init__(f"{what} refused: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return PublicationRefused, (self.count, self.reason)


class NoCredit(InputError):  # noqa: N818 - named for what it reports, not for being an error
    """The broker takes no more publications at the moment: wait for credit, or use `publish`, which waits."""


class ClientClosed(InputError):  # noqa: N818 - named for what it reports, not for being an error
    """The client was closed, so it can do nothing more: connect another one."""


class PeerError(RunnelError):
    """The other side of a connection broke the protocol."""


class FilterRefused(PeerError):  # noqa: N818 - named for what it reports, not for being an error
    """A peer sent a filter that can be read and is not taken: it is beyond the limits, or from a later version."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the peer sent a filter that is refused: {reason}")

    def __reduce__(self) -> tuple[object, ...]:
        return FilterRefused, (self.reason,)


class NetworkError(RunnelError):
    """The network, or a broker in it, is not as it should be; trying again later may help."""


class ConnectionFailed(NetworkError, ConnectionError):  # noqa: N818 - as its siblings
    """No broker could be reached; the message names every address and why it failed."""


class RoutesIncomplete(NetworkError, TimeoutError):  # noqa: N818 - as its siblings
    """Routes were not complete in time; `missing` names the links that are not there, if that is why.

    >>> print(RoutesIncomplete(("B1–B2",), 10))
    the routes are not complete after 10 s, since a part of the network cannot be reached: B1–B2 is missing. \
Try again when it is back, or do without that part: wait="reachable"
    """

    def __init__(self, missing: Sequence[str], after_s: float) -> None:
        self.missing = tuple(missing)
        self.after_s = after_s
        links = ", ".join(missing)
        super().__init__(
            f"the routes are not complete after {after_s:g} s, since a part of the network cannot be reached: "
            f"{links} {'is' if len(missing) == 1 else 'are'} missing. Try again when it is back, "
            'or do without that part: wait="reachable"'
            if missing
            else f"the network has not confirmed the routes within {after_s:g} s: see runnel status"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return RoutesIncomplete, (self.missing, self.after_s)


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


def demand(holds: bool, otherwise: str) -> None:
    """Raise BugError unless something holds that must."""
    if not holds:
        raise BugError(otherwise)


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
