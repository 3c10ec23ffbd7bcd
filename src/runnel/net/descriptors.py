"""File descriptors: each connection takes one, and the system gives a process only so many.

Where they run out, an event loop either stops to accept, with an error for every attempt, or closes connections
without a word. So whoever accepts asks first, and keeps some for what must go on: links that this broker dials, files.
"""

from __future__ import annotations

import errno
import os
import resource

RESERVED_MAX = 64
HINT = "raise the limit: LimitNOFILE= in a systemd unit, ulimit -n in a shell"


def count_limit() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 30


def are_short() -> bool:
    """Whether all descriptors are in use, but for those that are reserved."""
    limit = count_limit()
    try:
        lowest_free = os.open(os.devnull, os.O_RDONLY)
    except OSError as error:
        return is_exhaustion(error)
    os.close(lowest_free)
    return lowest_free >= limit - min(RESERVED_MAX, limit // 8)


def is_exhaustion(error: BaseException | None) -> bool:
    """Whether an error says that there are no descriptors left, in this process or on this machine."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
