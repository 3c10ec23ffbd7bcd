"""Gaps: what a session may have missed, and when it is told so.

A session hears of losses elsewhere from its brokers, in order with deliveries (broker/losses.py). What it loses
together with a broker it finds out itself: when a home does not know it any more, or another takes its place, a gap
begins with the watermark of the link that is lost, and is open until routes are complete again. A barrier tells: one
that is sent behind all subscriptions and comes back. If it names links of the network that are missing, the gap goes on
there, and the session asks again after a while.

While the first of these barriers is under way nothing is published: the routes to subscribers are not complete either,
and what was published now would be lost.

A session that joins another generation of the network was told at its old home that all was well. What lies behind
links that are missing there it does not get, although the old network may reach it, and no broker can tell it: nobody
there may know of a publisher yet. So the session takes the links that the fence names for gaps. They begin when it was
registered at the new home: before that, what was for it was published in the old network. It asks once more when it
has left the old home, since only then all publishers have come over. And what it has lost in the old network before it
was registered in the new one is not over until it is: others may publish there already.

A home that is left, as after a move, cannot tell any more that a loss is over. Then the session finds it out in the
same way at the home where it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from runnel.client.config import SessionConfig
from runnel.client.effects import Gap, SessionEffect
from runnel.client.fences import AwaitedFence, Fences, Purpose
from runnel.client.home import Home
from runnel.client.homes import Homes
from runnel.quantities import SECOND
from runnel.wire import Loss
from runnel.wire.messages import About

BROKER_LOST = "the broker was lost, with what it had for this client"
UNREACHED = "the link is missing, as seen from the broker where the client is"
ASK_AGAIN_NS_MIN = SECOND // 2
ASK_AGAIN_NS_MAX = 30 * SECOND


@dataclass(slots=True)
class HomeGaps:
    """The gaps at one home that are open."""

    told: dict[str, None] = field(
        default_factory=dict
    )  # links: its broker says when they are whole
    found: dict[str, None] = field(default_factory=dict)  # links: the session finds that out
    pausing: bool = False  # nothing is published until the first barrier is back
    pause_ns: int = ASK_AGAIN_NS_MIN
    ask_at: int | None = None  # when to ask again; None: a barrier is under way, or none is needed
    unreached_ns: int = 0  # since when links count that the next fence names; 0: only if gaps go on


class GapKeeper:
    """The gaps of one session. `time_of_day` is in nanoseconds since 1970."""

    def __init__(
        self,
        config: SessionConfig,
        homes: Homes,
        fences: Fences,
        effects: list[SessionEffect],
        time_of_day: Callable[[], int],
    ) -> None:
        self._name = config.name
        self._homes = homes
        self._fences = fences
        self._effects = effects
        self._time_of_day = time_of_day
        self.open: dict[str, Gap] = {}  # by link, as the application knows them
        self._by_home: dict[Home, HomeGaps] = {}

    def is_pausing(self, home: Home) -> bool:
        """Whether nothing is to be published at a home now."""
        gaps = self._by_home.get(home)
        return gaps is not None and gaps.pausing

    # -- what is lost with a broker -----------------------------------------------------------------------

    def memory_lost(self, home: Home, watermark_ns: int, *, is_next: bool) -> None:
        """A home does not know us any more; it is about to be told everything anew.

        With `is_next` it is the target of a move: nothing is lost with it, but it does not say any more what is over.
        """
        if (gaps := self._by_home.get(home)) is not None:
            gaps.found |= gaps.told  # its broker has forgotten what it told
            gaps.told.clear()
        if is_next:
            return
        home.registered_ns = watermark_ns or home.registered_ns
        self._begin(home, Gap(self._link_to(home), home.registered_ns, 0, BROKER_LOST))
        ahead = self._homes.ahead
        if ahead is not None and not ahead.registered:
            self.share_with_ahead(home, ahead)

    def home_left(
        self, left: Home, stays: Home, *, lost: bool, missing: tuple[str, ...] = ()
    ) -> None:
        """The session lives elsewhere now; with `lost`, what the home that was left had for us is lost.

        `missing` are the links that cannot be reached from there: what lies behind, the old home may have reached.
        """
        since_ns = left.link.watermark_ns or left.registered_ns
        # Until the other link has a watermark of its own, this is how far we know that all has come.
        stays.registered_ns = min(stays.registered_ns or since_ns, since_ns)
        self._take_over(left, stays)
        self._go_on(stays, missing, since_ns)
        if lost:
            self._begin(stays, Gap(self._link_to(left), since_ns, 0, BROKER_LOST))
        gaps = self._by_home.get(stays)
        if gaps is not None and gaps.found and stays.registered and not self._is_asking(stays):
            self._ask(stays, gaps)

    def share_with_ahead(self, home: Home, ahead: Home) -> None:
        """The session goes to another generation too: what it has lost is over when it is there, not before."""
        here = self._by_home.get(home)
        if here is not None and here.found and ahead is not home:
            self._by_home.setdefault(ahead, HomeGaps()).found |= here.found

    def home_joined(self, home: Home, missing: tuple[str, ...]) -> None:
        """The routes of a home in another generation are complete, but for what lies behind links that are missing."""
        self._go_on(home, missing, home.registered_ns)
        gaps = self._by_home.get(home)
        if gaps is not None and gaps.found and not self._is_asking(home):
            self._ask(home, gaps)

    def ask_missing(self, home: Home) -> None:
        """All publishers have come over to the generation of a home: ask which links are missing there now."""
        gaps = self._by_home.setdefault(home, HomeGaps())
        gaps.unreached_ns = home.registered_ns
        if home.registered and not self._is_asking(home):
            self._ask(home, gaps)

    def _go_on(self, home: Home, missing: Iterable[str], since_ns: int) -> None:
        """What lies behind links that are missing is lost, as seen from this home."""
        for link in missing:
            self._begin(home, Gap(link, since_ns, 0, UNREACHED))

    def _link_to(self, home: Home) -> str:
        return f"{self._name}–{home.name or home.broker}"

    def _begin(self, home: Home, gap: Gap) -> None:
        gaps = self._by_home.setdefault(home, HomeGaps())
        if gap.link not in gaps.told:
            gaps.found[gap.link] = None
        self._report_open(gap)

    # -- what the application is told -----------------------------------------------------------------------

    def _report_open(self, gap: Gap) -> None:
        """A gap begins; if it is known from another home, only an earlier beginning is news."""
        known = self.open.get(gap.link)
        if known is None or gap.since_ns < known.since_ns:
            self.open[gap.link] = gap
            self._effects.append(gap)

    def _report_over(self, link: str, until_ns: int) -> None:
        """A gap is over at one home; it is over if no other home has it."""
        if not any(link in gaps.told or link in gaps.found for gaps in self._by_home.values()):
            self._effects.append(replace(self.open.pop(link), until_ns=until_ns))

    # -- routes that are complete again -------------------------------------------------------------------

    def home_registered(self, home: Home) -> None:
        """A broker has been told all our subscriptions and advertisements: are the routes complete?"""
        if not home.registered_ns:
            home.registered_ns = self._time_of_day()
        gaps = self._by_home.get(home)
        if gaps is not None and gaps.found:
            gaps.pausing = True
            self._ask(home, gaps)

    def _take_over(self, left: Home, stays: Home) -> None:
        """A home is left: what it would have said of its gaps the session has to find out where it stays."""
        gaps = self._by_home.pop(left, None)
        if gaps is None:
            return
        here = self._by_home.setdefault(stays, HomeGaps())
        here.found |= {link: None for link in (*gaps.told, *gaps.found) if link not in here.told}

    def _is_asking(self, home: Home) -> bool:
        return self._fences.is_waiting(home, Purpose.WHOLE)

    def _ask(self, home: Home, gaps: HomeGaps) -> None:
        gaps.ask_at = None
        about: About = "advertisement" if gaps.pausing else "subscription"
        self._fences.send_barrier(home, AwaitedFence(Purpose.WHOLE), about=about)

    def take_fence(self, home: Home, missing: tuple[str, ...], now: int) -> None:
        """The barrier is back: the gaps are over, but for those at links that are missing."""
        gaps = self._by_home.get(home)
        if gaps is None:
            return
        gaps.pausing = False
        begins = [self.open[link].since_ns for link in gaps.found]
        if gaps.unreached_ns:
            begins.append(gaps.unreached_ns)
            gaps.unreached_ns = 0
        if not begins:
            return
        self._go_on(home, missing, min(begins))
        for link in [link for link in gaps.found if link not in missing]:
            del gaps.found[link]
            self._report_over(link, self._time_of_day())
        if gaps.found:
            gaps.ask_at = now + gaps.pause_ns
            gaps.pause_ns = min(2 * gaps.pause_ns, ASK_AGAIN_NS_MAX)
        else:
            gaps.pause_ns = ASK_AGAIN_NS_MIN

    def tick(self, now: int) -> None:
        """Ask again where something was missing, and look after the gaps of homes that were left."""
        homes = self._homes.all()
        for home, gaps in list(self._by_home.items()):
            if home not in homes:
                if self._homes.home is None:
                    del self._by_home[home]
                else:
                    self.home_left(home, self._homes.home, lost=False)
            elif gaps.ask_at is not None and now >= gaps.ask_at and home.registered:
                self._ask(home, gaps)

    # -- what a broker tells ------------------------------------------------------------------------------

    def take_loss(self, home: Home, loss: Loss) -> None:
        """A broker tells of a loss elsewhere: one that begins, that is over, or that was counted."""
        gap = Gap(
            *(loss.link, loss.since_ns, loss.until_ns, loss.reason),
            publishers=loss.publishers,
            count=loss.count,
            is_ours=loss.to == "publisher",
        )
        gaps = self._by_home.setdefault(home, HomeGaps())
        if gap.is_ours or gap.count:
            self._effects.append(gap)
        elif not loss.until_ns:
            gaps.found.pop(loss.link, None)
            gaps.told[loss.link] = None
            self._report_open(gap)
        elif loss.link in gaps.told:
            del gaps.told[loss.link]
            self._report_over(loss.link, loss.until_ns)
