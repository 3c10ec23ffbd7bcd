"""Times of a trace, as programs and as people have them; and a stretch of time, over which things are measured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from runnel.errors import InputError

SECOND = 1_000_000_000


class Window(NamedTuple):
    """A stretch of time: from `start_ns` on, up to but without `end_ns`."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """How long it is.

        >>> Window(0, 1_500_000_000).seconds
        1.5
        """
        return (self.end_ns - self.start_ns) / SECOND


def time_of(option: str, text: str | None) -> int | None:
    """A time that a person wrote, in nanoseconds of the trace's clock: seconds, or a date and time in UTC.

    >>> time_of("--at", "1.5"), time_of("--at", "1970-01-01 00:01:00"), time_of("--at", None)
    (1500000000, 60000000000, None)
    """
    if text is None:
        return None
    try:
        return round(float(text) * SECOND)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"{option}: {text!r} is no time: write seconds, or '2026-01-31 12:30:00'"
        ) from None
    since = moment.replace(tzinfo=moment.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds * 1_000


def utc(ns: int) -> str:
    """The same the other way round.

    >>> utc(1_500_000_000)
    '1970-01-01T00:00:01.500000'
    """
    moment = datetime.fromtimestamp(ns // SECOND, UTC).replace(microsecond=ns % SECOND // 1_000)
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds")
