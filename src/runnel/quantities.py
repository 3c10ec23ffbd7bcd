"""Times and sizes: the units used in the code, and functions that format them for people.

Times are integers in nanoseconds and sizes are integers in bytes, wherever the code decides something. `5 * SECOND` is
a time in the code; `time / SECOND` converts to seconds, for people and for tables. The functions make short texts for
a terminal, which are not to be parsed.
"""

from __future__ import annotations

MICROSECOND = 1_000
MILLISECOND = 1_000 * MICROSECOND
SECOND = 1_000 * MILLISECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


def format_duration(seconds: float) -> str:
    """Format a length of time.

    >>> format_duration(4.2), format_duration(75), format_duration(7300), format_duration(200_000)
    ('4 s', '1 min', '2 h', '2 d')
    """
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def format_size(count: int) -> str:
    """Format a number of bytes, in powers of two.

    >>> format_size(0), format_size(999), format_size(2_048), format_size(5 << 20)
    ('0', '999 B', '2 KiB', '5 MiB')
    """
    if count < 1_024:
        return f"{count} B" if count else "0"
    return f"{count >> 10} KiB" if count < 1 << 20 else f"{count >> 20} MiB"


def format_traffic(count: float) -> str:
    """Format a number of bytes on the network, or of bytes per second: in powers of ten, as is usual there.

    >>> format_traffic(999), format_traffic(1_500), format_traffic(2_340_000)
    ('999 B', '1.5 kB', '2.3 MB')
    """
    for unit, length in (("MB", 1e6), ("kB", 1e3)):
        if count >= length:
            return f"{count / length:,.1f} {unit}"
    return f"{count:,.0f} B"
