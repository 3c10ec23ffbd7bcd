"""Readiness: how long a program waits for routes, and what it is told when they cannot be complete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, get_args

from runnel.errors import InputError, RoutesIncomplete

Wait = Literal["complete", "reachable", "nothing"]
"""What to wait for: routes through the whole network, through what can be reached of it now, or not at all."""

READY_TIMEOUT_S = 10.0
ASK_AGAIN_MIN_S = 0.05
ASK_AGAIN_MAX_S = 1.0


def check_wait(wait: str, timeout: float | None) -> None:
    """Raise InputError for anything that is no Wait, or no timeout."""
    if wait not in get_args(Wait):
        raise InputError(f"wait is one of {', '.join(map(repr, get_args(Wait)))}, not {wait!r}")
    check_timeout(timeout)


def check_timeout(timeout: float | None) -> None:
    """Raise InputError for anything that is no timeout."""
    if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
        raise InputError(f"a timeout is a number of seconds, or None for ever, not {timeout!r}")


async def until_ready(
    ask: Callable[[], Awaitable[tuple[str, ...]]], wait: Wait, timeout: float | None
) -> tuple[str, ...]:
    """Ask until routes are complete, or once; the links that are missing. After the timeout, RoutesIncomplete.

    `ask` returns when all routes that can be had are there, and names the links that are missing.
    """
    missing: tuple[str, ...] = ()
    pause_s = ASK_AGAIN_MIN_S
    try:
        async with asyncio.timeout(timeout):
            while wait != "nothing":
                missing = await ask()
                if not missing or wait == "reachable":
                    break
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, ASK_AGAIN_MAX_S)
    except TimeoutError:
        raise RoutesIncomplete(missing, timeout or 0) from None
    return missing
