"""How a client that stands for long fares, told on stderr: when its broker is lost, and when it is back."""

from __future__ import annotations

import asyncio

import click

from runnel.client.aio import Client, State

LOOK_EVERY_S = 0.1  # a connection that was away for less, and lost nothing, is not worth a word


class Standing:
    """Tells what becomes of a client's connection, from one look to the next.

    `gap` is what it means for the user that the link had to start anew.
    """

    def __init__(self, client: Client, gap: str) -> None:
        self._client = client
        self._gap = gap
        self._gaps = client.gaps
        self._lost = ""

    async def tell(self) -> None:
        """Until the client is over."""
        while self._client.state is not State.CLOSED:
            if text := self.look():
                click.echo(text, err=True)
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self) -> str:
        """What has changed since the last look, if anything."""
        client = self._client
        where = f"{client.broker} ({client.address})"
        if client.state is State.RECONNECTING:
            if self._lost:
                return ""
            self._lost = where
            return f"lost {where}, trying again"
        if client.state is not State.CONNECTED:
            return ""
        had_gap, self._gaps = client.gaps > self._gaps, client.gaps
        if had_gap:
            was, self._lost = self._lost, ""
            before = "" if was else "the connection broke: "
            return f"{before}back at {where}; {self._gap}"
        if self._lost:
            self._lost = ""
            return f"back at {where}; nothing was lost"
        return ""
