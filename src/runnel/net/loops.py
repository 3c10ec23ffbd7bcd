"""The event loop: uvloop where it is installed, asyncio's own where it is not. Nothing else differs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

NewLoop = Callable[[], asyncio.AbstractEventLoop]

try:
    import uvloop
except ImportError:
    LOOP_NAME = "asyncio"
    new_event_loop: NewLoop = asyncio.new_event_loop
else:
    LOOP_NAME = "uvloop"
    new_event_loop = uvloop.new_event_loop

_T = TypeVar("_T")


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a program to its end on a new loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
