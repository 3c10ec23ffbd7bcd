"""A client as a process of its own, to be stopped and killed.

    python client.py subscribe URL NAME REPORT COUNT --ready-fd N
    python client.py publish URL NAME --ready-fd N

A subscriber is ready when its routes are; once received and missed are COUNT together, it writes REPORT (JSON) and
ends. A publisher publishes n = 0, 1, 2 … until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any

from process.peers import peer
from process.processes import BEAT_S


async def subscribe(ready_fd: int, url: str, name: str, report: str, enough: str) -> None:
    async with peer(name, url, BEAT_S) as one:
        await one.subscribe("n >= 0")
        os.write(ready_fd, b"ready\n")
        await one.until(lambda: len(one.got) + one.missed >= int(enough))
        told = {"got": one.got, "missed": one.missed, "doubles": one.session.doubles}
        Path(report).write_text(json.dumps(told), encoding="utf-8")


async def publish(ready_fd: int, url: str, name: str) -> None:
    async with peer(name, url, BEAT_S) as one:
        id = await one.advertise("n >= 0")
        os.write(ready_fd, b"ready\n")
        for n in count():
            await one.publish(id, n=n)


if __name__ == "__main__":
    what, *arguments, _, ready = sys.argv[1:]
    roles: dict[str, Callable[..., Coroutine[Any, Any, None]]]
    roles = {"subscribe": subscribe, "publish": publish}
    asyncio.run(roles[what](int(ready), *arguments))
