"""Watermarks: what has surely passed a link, so that a loss is announced as an interval that contains all of it.

The watermark of a link is a time by the clocks of publishers: all that was published before it, and goes over this
link, has come. Content filtering leaves gaps in every counter, so nobody can know this from what arrives. Therefore
peers say it to each other, in acknowledgements (`Ack.watermark_ns`), from the edge inwards:

- A client that sends an acknowledgement has handed to the link all that it has published: its watermark is its clock.
- A broker routes what it takes in at once, so all that came has been queued for the links it goes to. What it promises
  a neighbour is the lowest watermark of all other links; with no other link, its own clock. A client may get what it
  has published itself, so what it is promised includes its own link.

A watermark overtakes the data that it speaks of, so it says how many data frames come before it (`Link`). It rises with
the ticks of brokers, and so it is some heartbeats old. It falls, at once, when somebody comes whose is lower.

A neighbour is told the first watermark of a run of the link at once, behind all advertisements: before any route leads
over the link, and so before anybody is ready for what comes over it. For that may have been published before the link
began, when a subscriber who has moved here since was ready elsewhere: the link's own age says nothing.

In the other direction peers say how far they have handed on what came (`Ack.handed_ns`): all that was published before
that time is with whoever it is for, at the far edge. A client has what it has acknowledged; a broker tells a neighbour
the lowest of all other links, and never more than the neighbour's own watermark, since it cannot have handed on what
has not come. When a link is lost, the interval that publishers are told begins there: a broker that is killed may have
had a backlog. It takes a client that is cut off, or that does not keep up, as one that has not got anything since.

A clock at the edge may be wrong: a broker takes a client's watermark for one hour old at most, and never for one of the
future. What such a client publishes may be outside the interval of a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runnel.broker.links import Link
from runnel.quantities import HOUR

CLOCK_BEHIND_NS_MAX = HOUR


class Watermarks:
    """The watermarks of one broker's links. `time_of_day` is in nanoseconds since 1970."""

    def __init__(self, links: Mapping[str, Link], time_of_day: Callable[[], int]) -> None:
        self._links = links
        self._time_of_day = time_of_day

    def link_up(self, link: Link) -> None:
        """A link starts fresh. From a client nothing has come yet; what lies behind a neighbour may be older."""
        if link.is_client:
            link.expect_watermark(self._time_of_day())
        elif link.is_neighbour:
            self._promise_first()

    def rise(self) -> None:
        """Promise every peer what all others have promised; the next acknowledgement says it."""
        now = self._time_of_day()
        lowest, second, slowest = self._lowest(now)
        for link in self._sources():
            link.promise_watermark(second if link is slowest and not link.is_client else lowest)
        self._report_handed(lowest, now)

    def _lowest(self, now: int) -> tuple[int, int, Link | None]:
        """The lowest watermark of all links, the lowest of all but one link, and that link."""
        lowest = second = now
        slowest = None
        for link in self._sources():
            watermark_ns = self._of(link, now)
            if watermark_ns < lowest:
                lowest, second, slowest = watermark_ns, lowest, link
            elif watermark_ns < second:
                second = watermark_ns
        return lowest, second, slowest

    def _promise_first(self) -> None:
        """Tell neighbours that were promised nothing yet what all others have promised, if these have."""
        new = [link for link in self._sources() if link.is_neighbour and not link.promised_ns]
        if not new:
            return
        lowest, second, slowest = self._lowest(self._time_of_day())
        for link in new:
            if watermark_ns := second if link is slowest else lowest:
                link.promise_watermark(watermark_ns)
                link.owe_ack()

    def _report_handed(self, lowest: int, now: int) -> None:
        """Tell every neighbour how far all others have what came from it; what it has not sent yet, they have not."""
        least = second = now
        slowest = None
        for link in self._sources():
            if link.is_client:
                link.note_handed(lowest)
            if link.handed_ns < least:
                least, second, slowest = link.handed_ns, least, link
            elif link.handed_ns < second:
                second = link.handed_ns
        for link in self._sources():
            if link.is_neighbour:
                link.report_handed(second if link is slowest else least)

    def fall(self, source: Link) -> None:
        """A peer has a lower watermark than before, or its first: what others were promised must not be above it."""
        watermark_ns = self._of(source, self._time_of_day())
        for link in self._sources():
            is_concerned = link is not source or link.is_client
            if is_concerned and link.promised_ns > watermark_ns:
                link.promise_watermark(watermark_ns)
                link.owe_ack()
        self._promise_first()

    def _sources(self) -> list[Link]:
        """The links over which publications may come, or come again."""
        return [link for link in self._links.values() if link.is_routed and link.may_resume]

    @staticmethod
    def _of(link: Link, now: int) -> int:
        if not link.is_client:
            return link.watermark_ns
        return min(max(link.watermark_ns, now - CLOCK_BEHIND_NS_MAX), now)
