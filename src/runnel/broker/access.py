"""Access: who is let in, what each peer has set up under its permit, and what of its publications is taken.

A broker that is not guarded lets everybody in, and nothing here costs it more than a look whether a link has a
`PeerStanding`. At a guarded one every client and operator has one from the handshake on:

- `why_denied` is asked at the Hello, `why_refused` for each subscription and advertisement, `admit` for publications.
- Publications are taken if they are published under an advertisement of the same link, in its publisher's name,
  and match a publish rule. What is not taken goes nowhere, is counted by reason, and its publisher is told.
- Who is faster than its quota is held back first: nothing of it is acknowledged, so it has no credit. A client that
  goes on nevertheless, by more than anybody's credit, has its publications refused.

Links from other brokers have no standing: who may be a neighbour is configured, and what neighbours hand on was
checked where it entered the network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from runnel.broker.config import BrokerConfig
from runnel.broker.kinds import kind_of
from runnel.broker.links import Link
from runnel.broker.meter import Meter
from runnel.broker.permits import Permit, Quota
from runnel.quantities import SECOND
from runnel.wire import (
    Advertise,
    Hello,
    Mum,
    Publication,
    RefusedPublications,
    Subscribe,
    decode_selection,
)
from runnel.wire.header import PUBLICATION
from runnel.wire.messages import COUNTERS_MAX, REASON_CHARACTERS_MAX

UNKNOWN = "wrong user or credentials"
"""All that somebody is told who has not proved to be anybody."""

BY_RULE, BY_NAME, BY_ID, BY_QUOTA = "rule", "publisher", "advertisement", "quota"
REFUSALS = (BY_RULE, BY_NAME, BY_ID, BY_QUOTA)
"""Why publications are refused, as they are counted."""

_BODY_AT = PUBLICATION.size
AskPermit = Callable[[Permit], Permit | None]


class Bucket:
    """What may be spent at a rate, with a second's worth to begin with; it may be overdrawn, and is then empty.

    >>> bucket = Bucket(10, 0)
    >>> bucket.spend(15, 0), bucket.has_some(SECOND // 4), bucket.has_some(SECOND)
    (False, False, True)
    """

    __slots__ = ("_at", "_level", "_per_s")

    def __init__(self, per_s: float, now: int) -> None:
        self._per_s = per_s
        self._level = per_s
        self._at = now

    def has_some(self, now: int) -> bool:
        """Whether it is not overdrawn."""
        earned = (now - self._at) * self._per_s / SECOND
        self._level = min(self._per_s, self._level + earned)
        self._at = now
        return self._level >= 0

    def is_full(self, now: int) -> bool:
        """Whether it is as if nothing had been taken."""
        self.has_some(now)
        return self._level >= self._per_s

    def spend(self, amount: float, now: int) -> bool:
        """Take this much; whether there was enough of it."""
        self.has_some(now)
        self._level -= amount
        return self._level >= 0


class Account:
    """What one user has and spends at this broker, over all its connections."""

    __slots__ = ("beyond", "buckets", "held", "quota", "standings", "subscriptions")

    def __init__(self, quota: Quota, now: int) -> None:
        self.standings: dict[Link, PeerStanding] = {}
        self.subscriptions = 0
        self.held = False  # it has spent too much: nothing of it is acknowledged
        self.beyond = 0  # publications since then
        self.set_quota(quota, now)

    def set_quota(self, quota: Quota, now: int) -> None:
        """Count by this quota from now on."""
        self.quota = quota
        rates = (quota.publications_per_s, quota.bytes_per_s)
        self.buckets = tuple(Bucket(rate, now) if rate else None for rate in rates)

    def spend(self, count: int, size: int, now: int) -> None:
        """So much was published; if it is too much, hold the user back."""
        if self.held:
            self.beyond += count
        for bucket, amount in zip(self.buckets, (count, size), strict=True):
            if bucket is not None and not bucket.spend(amount, now):
                self.hold(True)

    def hold(self, holding: bool) -> None:
        """Acknowledge nothing more of this user's publications, or all."""
        self.held = holding
        self.beyond = 0 if not holding else self.beyond
        for link in self.standings:
            link.hold(holding)
            if not holding:
                link.owe_ack()


@dataclass(slots=True, eq=False)
class PeerStanding:
    """What the peer of a link may do, and what it has set up."""

    permit: Permit
    account: Account
    subscriptions: set[int] = field(default_factory=set)
    publishers: dict[int, bytes] = field(default_factory=dict)  # advertisement → publisher's name


class Access:
    """The standings of a broker's links. `is_guarded`: nobody without a permit is let in."""

    def __init__(self, config: BrokerConfig, meter: Meter) -> None:
        self._is_guarded = config.is_guarded
        self._credit_max = config.credit_max
        self._meter = meter
        self._accounts: dict[str, Account] = {}

    # -- who is let in --------------------------------------------------------------------------------

    def why_denied(self, hello: Hello, permit: Permit | None) -> str:
        """Why a peer is not let in; empty if it is."""
        kind = kind_of(hello.kind)
        if kind.is_neighbour:
            return ""
        if permit is None:
            return UNKNOWN if self._is_guarded else ""
        if reason := self._why_too_many(hello, permit):
            return reason
        if not kind.is_routed:
            return "" if permit.may_operate("read") else f"{permit.user} is no operator here"
        return permit.why_not_named(hello.name)[:REASON_CHARACTERS_MAX]

    def _why_too_many(self, hello: Hello, permit: Permit) -> str:
        """Why a user may have no more connections; empty if it may. Operators that are gone do not come back."""
        account, most = self._accounts.get(permit.user), permit.quota.connections
        if account is None or not most:
            return ""
        here = sum(
            link.name != hello.name and (link.conn > 0 or kind_of(link.kind).resumes)
            for link in account.standings
        )
        if here < most:
            return ""
        return f"{permit.user} has {here} connections here, as many as its quota allows"

    def enter(self, link: Link, permit: Permit | None, now: int) -> None:
        """A link begins anew: its peer has set up nothing yet."""
        self.leave(link)
        if permit is None:
            return
        account = self._accounts.get(permit.user)
        if account is None:
            account = self._accounts[permit.user] = Account(permit.quota, now)
        link.standing = account.standings[link] = PeerStanding(permit, account)
        link.hold(account.held)
        link.grant(permit.quota.credit(self._credit_max))

    def leave(self, link: Link) -> None:
        """A link is no more."""
        standing, link.standing = link.standing, None
        if standing is None:
            return
        account = standing.account
        account.subscriptions -= len(standing.subscriptions)
        del account.standings[link]

    def renew(self, link: Link, permit: Permit, now: int) -> None:
        """Another permit of the same user takes the place of a link's."""
        standing = link.standing
        assert standing is not None
        standing.permit = permit
        if standing.account.quota != permit.quota:
            standing.account.set_quota(permit.quota, now)
        link.grant(min(link.credit, permit.quota.credit(self._credit_max)))

    # -- what it sets up ------------------------------------------------------------------------------

    def why_refused(self, link: Link, message: Advertise | Subscribe | Mum) -> str:
        """Why a link's peer may not have this; empty if it may."""
        standing = link.standing
        if standing is None:
            return ""
        permit, selection = standing.permit, decode_selection(message.selection)
        if not isinstance(message, Subscribe):
            reason = permit.why_not_named(message.publisher) or permit.why_not_advertise(selection)
        else:
            reason = permit.why_not_subscribe(selection)
            most = permit.quota.subscriptions
            if not reason and most and standing.account.subscriptions >= most:
                reason = f"{permit.user} has {most} subscriptions here, as many as its quota allows"
        return reason[:REASON_CHARACTERS_MAX]

    def note_subscribed(self, link: Link, id: int) -> None:
        """A subscription was taken."""
        if link.standing is not None:
            link.standing.subscriptions.add(id)
            link.standing.account.subscriptions += 1

    def note_unsubscribed(self, link: Link, id: int) -> None:
        """It is withdrawn."""
        if link.standing is not None and id in link.standing.subscriptions:
            link.standing.subscriptions.remove(id)
            link.standing.account.subscriptions -= 1

    def note_advertised(self, link: Link, id: int, publisher: str) -> None:
        """An advertisement was taken."""
        if link.standing is not None:
            link.standing.publishers[id] = publisher.encode()

    def note_unadvertised(self, link: Link, id: int) -> None:
        """It is withdrawn."""
        if link.standing is not None:
            link.standing.publishers.pop(id, None)

    # -- what it publishes ----------------------------------------------------------------------------

    def admit(self, link: Link, run: list[Publication], now: int) -> list[Publication]:
        """Those of a run that may be handed on; the others are counted, and their publisher is told."""
        standing = link.standing
        assert standing is not None
        account, match = standing.account, standing.permit.match
        if account.quota.limits_rates:
            if account.beyond > self._credit_max * len(account.standings):
                self._refuse(link, run, BY_QUOTA)
                return []
            account.spend(len(run), sum(len(one.raw) for one in run), now)
        publisher_of = standing.publishers.get
        refused: dict[str, list[Publication]] = {}
        for one in run:
            name = publisher_of(one.advertisement)
            start = _BODY_AT + one.attributes_length
            if name is None:
                why = BY_ID
            elif one.raw[start : start + one.name_length] != name:
                why = BY_NAME
            elif match is not None and not len(match(one.attributes)):
                why = BY_RULE
            else:
                continue
            refused.setdefault(why, []).append(one)
        if not refused:
            return run
        for why, publications in refused.items():
            self._refuse(link, publications, why)
        gone = {id(one) for publications in refused.values() for one in publications}
        return [one for one in run if id(one) not in gone]

    def _refuse(self, link: Link, publications: list[Publication], why: str) -> None:
        assert link.standing is not None
        permit = link.standing.permit
        link.count_refused(len(publications))
        self._meter.refused[why] += len(publications)
        reason = {
            BY_RULE: permit.why_not_publish,
            BY_NAME: f"{permit.user} has advertised it in another publisher's name",
            BY_ID: f"{permit.user} has not advertised it at this broker",
            BY_QUOTA: f"{permit.user} publishes more than its quota allows, and does not wait for credit",
        }[why][:REASON_CHARACTERS_MAX]
        counters: dict[int, list[int]] = {}
        for one in publications:
            counters.setdefault(one.advertisement, []).append(one.counter)
        for advertisement, of_it in counters.items():
            for start in range(0, len(of_it), COUNTERS_MAX):
                these = tuple(of_it[start : start + COUNTERS_MAX])
                link.send_message(RefusedPublications(advertisement, these, reason))

    def tick(self, now: int) -> None:
        """Users that were held back, and have waited long enough, go on."""
        for user, account in list(self._accounts.items()):
            buckets = [bucket for bucket in account.buckets if bucket is not None]
            if account.held and all(bucket.has_some(now) for bucket in buckets):
                account.hold(False)
            # Whoever comes back must not find a full bucket just because it was gone.
            if not account.standings and all(bucket.is_full(now) for bucket in buckets):
                del self._accounts[user]

    def release(self) -> None:
        """Acknowledge everything: the broker leaves."""
        for account in self._accounts.values():
            if account.held:
                account.hold(False)
