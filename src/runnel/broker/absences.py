"""Absences: which links of the network are missing, as far as one broker knows. It makes `ready` honest.

Routes that are complete as far as anybody can be reached are not complete: behind a link that is down there may be
publishers and subscribers of whom nobody here knows. So every broker knows the links that ought to be there and are
not, its own and those behind each of its neighbours, and names them in the fence that tells a client that it is ready.

- *Its own* are the links to neighbours that its configuration names, whoever dials, and to those that it lost without
  a farewell. Such a link is there when the neighbour has sent all that it had for a fresh run of it, and until it is
  down for longer than a blip takes.
- *Those behind a neighbour* it is told (`MissingLinks`): once when a link starts fresh, behind all advertisements, so
  that this message is also the mark that they have all come; and again with every change. In order with data: when a
  link is said to be back, what the neighbour knows of publishers behind it was said before.

On a tree nothing goes round in circles, since a broker tells a neighbour nothing that it has from that neighbour. In a
loop, which is a mistake that `runnel status` names, news would chase each other for ever; so between two ticks a broker
passes on `NEWS_MAX` at once, and the rest with the tick.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from runnel.broker.links import Link
from runnel.quantities import HOUR
from runnel.wire import MissingLinks
from runnel.wire.messages import MISSING_LINKS_MAX

NEWS_MAX = 64
GONE_KEPT_NS = HOUR
"""How long a neighbour that nobody configured is waited for after it was lost."""


class Absences:
    """What one broker, which has this name and these links, knows of links that are missing.

    `dials` are the neighbours that it dials now, `accepts` those that are to dial it.
    """

    def __init__(
        self,
        name: str,
        links: Mapping[str, Link],
        dials: Collection[str],
        accepts: Iterable[str],
    ) -> None:
        self._name = name
        self._links = links
        self._dials = dials
        self._accepts = dict.fromkeys(accepts)
        self._gone: dict[str, int] = {}  # neighbours lost without a farewell, and when
        self._behind: dict[Link, frozenset[str]] = {}  # by neighbour, what it said last
        self._news = 0  # since the last tick
        self._told: dict[Link, frozenset[str]] = {}  # by neighbour, what it was told last

    # -- what happens to links ------------------------------------------------------------------------

    def link_up(self, link: Link, now: int) -> None:
        """A link starts fresh, and all advertisements have been sent: say that these were all."""
        if link.is_neighbour:
            self._gone.pop(link.name, None)
            self._tell(link, self._missing_for(link, now))

    def link_lost(self, link: Link, now: int) -> None:
        """The routes over a link are gone."""
        if link.is_neighbour and self._told.pop(link, None) is not None:
            self._behind.pop(link, None)
            self._gone[link.name] = now
            self.update(now)

    def left(self, name: str, now: int, *, is_final: bool) -> None:
        """A link ended with a farewell: nobody waits for it, unless the configuration names the neighbour.

        `is_final`: neither then, until it comes back by itself.
        """
        self._gone.pop(name, None)
        if is_final:
            self._accepts.pop(name, None)
        self.update(now)

    def heard(self, link: Link, message: MissingLinks, now: int) -> None:
        """A neighbour says which links are missing behind it, and that there is nothing more to come before."""
        self._behind[link] = frozenset(message.links)
        self._news += 1
        if self._news <= NEWS_MAX:
            self.update(now)

    def tick(self, now: int) -> None:
        """Tell what has changed meanwhile."""
        self._news = 0
        self.update(now)

    def update(self, now: int) -> None:
        """Tell neighbours what has changed."""
        for link, told in self._told.items():
            missing = self._missing_for(link, now)
            if missing != told:
                self._tell(link, missing)

    def behind(self, link: Link) -> frozenset[str] | None:
        """The links that a neighbour says are missing behind it; None if it has not said anything yet."""
        return self._behind.get(link)

    # -- what is missing ------------------------------------------------------------------------------

    def missing(self, now: int) -> tuple[str, ...]:
        """All that is missing at this moment, for a client; a link that is down may be back soon, but it is down."""
        missing = {self.link_to(name) for name in self.absent(now)}
        return tuple(sorted(missing.union(*self._behind.values()))[:MISSING_LINKS_MAX])

    def absent(self, now: int) -> list[str]:
        """The neighbours that ought to be linked to this broker and are not."""
        return [name for name in self._expected(now) if not self._is_up(name)]

    def _missing_for(self, link: Link, now: int) -> frozenset[str]:
        """What is missing on this side of a link."""
        expected = self._expected(now)
        own = {self.link_to(n) for n in expected if n != link.name and not self._is_here(n, now)}
        others = (behind for other, behind in self._behind.items() if other is not link)
        missing = own.union(*others)
        if len(missing) > MISSING_LINKS_MAX:
            return frozenset(sorted(missing)[:MISSING_LINKS_MAX])
        return frozenset(missing)

    def _expected(self, now: int) -> dict[str, None]:
        """The neighbours that ought to be here."""
        for name, since in list(self._gone.items()):
            if now - since > GONE_KEPT_NS:
                del self._gone[name]
        connected = (link.name for link in self._told)
        return dict.fromkeys((*self._dials, *self._accepts, *self._gone, *connected))

    def _is_here(self, name: str, now: int) -> bool:
        link = self._links.get(name)
        return link is not None and link in self._behind and not link.is_lost(now)

    def _is_up(self, name: str) -> bool:
        link = self._links.get(name)
        return link is not None and link in self._behind and link.established

    def link_to(self, name: str) -> str:
        """The name of a link, the same at both of its ends."""
        return "–".join(sorted((self._name, name)))

    def _tell(self, link: Link, missing: frozenset[str]) -> None:
        self._told[link] = missing
        link.send_message(MissingLinks(tuple(sorted(missing))))
