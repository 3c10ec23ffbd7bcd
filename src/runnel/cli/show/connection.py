"""What long-running commands print about the network: the broker is lost, or back; events may be missing."""

from __future__ import annotations

import asyncio

import click

from runnel.client.aio import Client, State
from runnel.client.effects import Gap, text_of
from runnel.client.gaps import BROKER_LOST

LOOK_EVERY_S = 0.1  # a shorter interruption without loss is not reported


def say_missing(links: tuple[str, ...], what: str) -> None:
    """Print on stderr which links of the network are missing, and what does not arrive because of that."""
    if links:
        is_one = len(links) == 1
        click.echo(
            f"a part of the network cannot be reached: {', '.join(links)} {'is' if is_one else 'are'} missing; "
            f"what {what.format('it' if is_one else 'them')} does not arrive until "
            f"{'it is' if is_one else 'they are'} back",
            err=True,
        )


def say_gap(gap: Gap) -> None:
    """Print a gap on stderr, as one line."""
    click.echo(gap_as_line(gap), err=True)


def gap_as_line(gap: Gap) -> str:
    """What may be missing, from when to when, of whom, where it was lost and why.

    >>> gap_as_line(Gap("B2–B3", 1_700_000_000_000_000_000, reason="the link was lost", publishers=("p", "q")))
    'events may be missing from 2023-11-14T22:13:20Z on, by p, q: B2–B3: the link was lost'
    >>> at = 1_700_000_000_000_000_000
    >>> gap_as_line(Gap("B2–B3", at, at + 10**9, "the queue of the link was full", count=3, is_ours=True))
    '3 of the events published from 2023-11-14T22:13:20Z to 2023-11-14T22:13:21Z did not reach all subscribers: \
B2–B3: the queue of the link was full'
    """
    since, until = text_of(gap.since), f"to {text_of(gap.until)}" if gap.until else "on"
    by = f", by {', '.join(gap.publishers)}" if gap.publishers and not gap.is_ours else ""
    if gap.is_ours:
        count = f"{gap.count:,} of the events" if gap.count else "events"
        verb = "did" if gap.count else "may"
        what = f"{count} published from {since} {until} {verb} not reach all subscribers"
    elif gap.count:
        what = f"{gap.count:,} events from {since} {until} are missing{by}"
    else:
        what = f"events may be missing from {since} {until}{by}"
    is_over = "it is over; " if gap.until and not gap.count else ""
    return f"{what}: {is_over}{gap.link}: {gap.reason}"


class ConnectionNotices:
    """Watches a client's connection, and prints a line on stderr when it is lost or restored.

    `gap` is the text for the user if the link had to start anew, so that something may be missing. The client's
    `on_gap` has to be, or to call, `note_gap`.
    """

    def __init__(self, gap: str) -> None:
        self._gap = gap
        self._had_gap = False
        self._lost = ""

    def note_gap(self, gap: Gap) -> None:
        """Note that the link to the broker has started anew."""
        self._had_gap |= gap.is_open and gap.reason == BROKER_LOST

    async def tell(self, client: Client) -> None:
        """Print notices until the client is closed."""
        while client.state is not State.CLOSED:
            if text := self.look(client):
                click.echo(text, err=True)
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self, client: Client) -> str:
        """What has changed since the last look, if anything."""
        where = f"{client.broker} ({client.address})"
        if client.state is State.RECONNECTING:
            if self._lost:
                return ""
            self._lost = where
            return f"lost {where}, trying again"
        if client.state is not State.CONNECTED:
            return ""
        had_gap, self._had_gap = self._had_gap, False
        if had_gap:
            was, self._lost = self._lost, ""
            before = "" if was else "the connection broke: "
            return f"{before}back at {where}; {self._gap}"
        if self._lost:
            self._lost = ""
            return f"back at {where}; nothing was lost"
        return ""
