"""Permits: what one user may do at a broker. Rules are filters, and what no rule allows is refused.

    subscribe   to what its rules cover: nothing that a subscription could get lies beyond them
    publish     what its rules match; it may advertise what they cover, or meet, and then each publication is checked
    names       as what its clients and publishers may be known
    roles       what it may ask and command as an operator
    quota       how much of everything

A permit is made by the driver when a peer has proved who it is (node/access/), and comes with its connection
(`Connected`). It never changes; another one may take its place while the peer is connected (`AccessChanged`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from runnel.language import EVERYTHING, NOTHING, Attributes, Selection, to_sql
from runnel.matching import Matches, make_engine

Role = Literal["read", "operate"]


@dataclass(frozen=True, slots=True)
class Quota:
    """How much a user may have and do at one broker, over all its connections; 0: as much as anybody."""

    connections: int = 0
    subscriptions: int = 0
    predicates: int = 0  # of one filter
    publications_per_s: float = 0.0
    bytes_per_s: float = 0.0

    @property
    def limits_rates(self) -> bool:
        """Whether publications have to be counted."""
        return self.publications_per_s > 0 or self.bytes_per_s > 0

    def credit(self, credit_max: int) -> int:
        """How many publications a connection may have unacknowledged: half a second's worth at most.

        >>> Quota().credit(1024), Quota(publications_per_s=100).credit(1024), Quota(publications_per_s=1).credit(1024)
        (1024, 50, 1)
        """
        if not self.publications_per_s:
            return credit_max
        return min(credit_max, max(1, int(self.publications_per_s / 2)))


@dataclass(frozen=True, slots=True, eq=False)
class Permit:
    """What one user may do; see the top of the file.

    >>> from runnel.language import parse
    >>> permit = Permit("alice", subscribe=parse("class = 'STOCK'"), publish=parse("symbol = 'YHOO'"))
    >>> permit.why_not_subscribe(parse("class = 'STOCK' AND close < 20"))
    ''
    >>> permit.why_not_subscribe(parse("close < 20"))
    "alice may subscribe only to what is within: class = 'STOCK'"
    >>> permit.why_not_advertise(parse("symbol = 'IBM'"))
    "alice may publish only: symbol = 'YHOO'"
    >>> permit.may_publish({"symbol": "YHOO"}), permit.may_publish({"symbol": "IBM"}), permit.may_publish({})
    (True, False, False)
    """

    user: str
    subscribe: Selection = NOTHING
    publish: Selection = NOTHING
    names: tuple[str, ...] = ()
    roles: frozenset[Role] = frozenset()
    quota: Quota = field(default_factory=Quota)
    # Which password, token key or certificate it rests on.
    proof: str = field(default="", repr=False)
    until_s: float = float("inf")  # seconds since 1970, when that expires
    match: Callable[[Attributes], Matches] | None = field(default=None, repr=False)
    """The publish rules as an engine's `match`, made from them; None if they allow everything."""

    def __post_init__(self) -> None:
        if self.match is None and self.publish != EVERYTHING:
            # An engine answers many times faster than `Selection.matches`, and it is asked for every publication.
            engine = make_engine()
            engine.add(0, self.publish)
            object.__setattr__(self, "match", engine.match)

    def allows_name(self, name: str) -> bool:
        """Whether a client or a publisher of this user may be called so.

        A session that a publisher opens for itself is called CLIENT/PUBLISHER: it is the client's.

        >>> permit = Permit("alice", names=("alice", "alice-*"))
        >>> [permit.allows_name(name) for name in ("alice", "alice-7", "alice/quotes", "alicia", "bob", "")]
        [True, True, True, False, False, False]
        """
        owner = name.partition("/")[0]
        return any(
            one.startswith(pattern[:-1]) if pattern.endswith("*") else one == pattern
            for pattern in self.names
            for one in (name, owner)
        )

    def may_publish(self, attributes: Attributes) -> bool:
        """Whether a rule matches the event."""
        return self.match is None or len(self.match(attributes)) > 0

    def may_operate(self, role: Role) -> bool:
        """Whether it has a role; whoever may operate may read."""
        return role in self.roles or "operate" in self.roles

    def why_not_subscribe(self, selection: Selection) -> str:
        """Why a subscription is refused; empty if it is not."""
        if self.subscribe.is_contradiction:
            return f"{self.user} may subscribe to nothing"
        if not self.subscribe.covers(selection):
            return f"{self.user} may subscribe only to what is within: {to_sql(self.subscribe)}"
        return self._why_too_large(selection)

    def why_not_advertise(self, selection: Selection) -> str:
        """Why an advertisement is refused; empty if it is not."""
        if self.publish.is_contradiction:
            return f"{self.user} may publish nothing"
        if not (self.publish.covers(selection) or self.publish.intersects(selection)):
            return self.why_not_publish
        return self._why_too_large(selection)

    @property
    def why_not_publish(self) -> str:
        """Why a publication is refused that no rule matches."""
        return f"{self.user} may publish only: {to_sql(self.publish)}"

    def why_not_named(self, name: str) -> str:
        """Why a name is refused; empty if it is not."""
        if self.allows_name(name):
            return ""
        return f"{self.user} may not be called {name!r} here; names it may have: {', '.join(self.names) or 'none'}"

    def _why_too_large(self, selection: Selection) -> str:
        most = self.quota.predicates
        if not most:
            return ""
        count = sum(len(disjunct.predicates) for disjunct in selection.disjuncts)
        if count <= most:
            return ""
        return (
            f"a filter of {self.user} may have {most} predicates by its quota, and this has {count}"
        )
