"""Times of a trace: reading and printing them, and a period of time over which something is measured."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from runnel.errors import InputError
from runnel.quantities import MICROSECOND, SECOND


class Window(NamedTuple):
    """A period of time from `start_ns` to `end_ns`, exclusive."""

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
    """Parse an option's time into nanoseconds of the trace's clock: seconds, or a date and time in UTC.

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
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds * MICROSECOND


def utc(ns: int) -> str:
    """Print nanoseconds since 1970 as a date and time in UTC.

    >>> utc(1_500_000_000)
    '1970-01-01T00:00:01.500000'
    """
    moment = datetime.fromtimestamp(ns // SECOND, UTC).replace(
        microsecond=ns % SECOND // MICROSECOND
    )
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds")
