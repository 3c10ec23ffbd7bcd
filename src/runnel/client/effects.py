"""The effects of a session that are for its application; those that it shares with brokers are in broker/effects.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from runnel.broker.effects import Effect
from runnel.wire import Pinged, Publication


class Deliver(Struct, frozen=True, gc=False):
    """A publication for these subscriptions, each publisher's in order and once."""

    publication: Publication
    subscriptions: tuple[int, ...]


class Ready(Struct, frozen=True, gc=False):
    """The routes of a subscription or advertisement are complete, but for what lies behind links that are missing."""

    id: int
    missing: tuple[str, ...] = ()


class Confirmed(Struct, frozen=True, gc=False):
    """The broker has this many more of the publications, oldest first."""

    count: int


class Unconfirmed(Struct, frozen=True, gc=False):
    """This many of the publications, oldest first, may or may not have arrived; they are not sent again."""

    count: int


class MissedSome(Struct, frozen=True, gc=False):
    """The broker dropped this many publications because this client did not keep up."""

    count: int


class Gap(Struct, frozen=True, gc=False):
    """What was published in this interval may be lost: not everything, but nothing else.

    It is told when it begins, as far as that is known, and again when it is over: then `until` is known.

    >>> Gap("B2–B3", since_ns=1_700_000_000_000_000_000, reason="the link was lost")
    <Gap on B2–B3 from 2023-11-14T22:13:20Z, not over yet: the link was lost>
    """

    link: str
    """Where it was lost: between which brokers, or between this client and its broker."""

    since_ns: int
    """By the clocks of publishers, in nanoseconds since 1970: what was published before has come."""

    until_ns: int = 0
    """What is published from then on comes again; 0: it is not over yet."""

    reason: str = ""
    publishers: tuple[str, ...] = ()
    """The names of the publishers concerned, as far as they are known; empty: any, or very many."""

    count: int = 0
    """How many publications were lost, where a broker has counted them; 0: nobody knows."""

    is_ours: bool = False
    """Whether it is about what this client has published, and others may have missed."""

    @property
    def is_open(self) -> bool:
        """Whether it is not over yet."""
        return not self.until_ns

    @property
    def since(self) -> datetime:
        """When it began (UTC), by the clocks of publishers."""
        return _utc(self.since_ns)

    @property
    def until(self) -> datetime | None:
        """When it was over (UTC); None: it is not."""
        return _utc(self.until_ns) if self.until_ns else None

    def __repr__(self) -> str:
        until = f" to {text_of(self.until)}" if self.until else ", not over yet"
        count = f", {self.count} events" if self.count else ""
        return f"<Gap on {self.link} from {text_of(self.since)}{until}{count}: {self.reason}>"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_NS = 253_402_300_799 * 10**9  # the end of the year 9999, which is as far as datetime goes


def _utc(time_ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=min(time_ns, _LATEST_NS) // 1_000)


def text_of(time: datetime) -> str:
    """A time as people and programs read it, to the millisecond."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z").replace(".000Z", "Z")


class SelectionRefused(Struct, frozen=True, gc=False):
    """A broker does not take a subscription or an advertisement; it is gone, and nothing else with it."""

    id: int
    reason: str


class PublicationsRefused(Struct, frozen=True, gc=False):
    """A broker has not handed on some publications of ours; each is so many before the latest."""

    id: int
    ages: tuple[int, ...]
    reason: str


class HomeUp(Struct, frozen=True, gc=False):
    """Connected. `fresh`: everything was set up anew, so readiness has to be asked for again."""

    broker: str
    fresh: bool


class HomeDown(Struct, frozen=True, gc=False):
    """Not connected; nothing is lost if it comes back soon."""

    broker: str


class Dismissed(Struct, frozen=True, gc=False):
    """The broker does not want this client: it is not connected any more, and will not be."""

    reason: str


class AccessRefused(Struct, frozen=True, gc=False):
    """A broker does not let this user in, or not any more: the session is closed, for the next answer is the same."""

    broker: str
    reason: str


class BrokerErred(Struct, frozen=True, gc=False):
    """A broker sent what no broker may send to a client: the session is closed, for it would do so again."""

    broker: str
    reason: str


class Moved(Struct, frozen=True, gc=False):
    """The session now lives at another broker; nothing was lost or doubled on the way, unless there is a Gap."""

    broker: str


class MoveGivenUp(Struct, frozen=True, gc=False):
    """The session stays where it is: the other broker did not come up in time, or too much had to be held."""

    broker: str


class Migrated(Struct, frozen=True, gc=False):
    """The brokers on the path have turned to this session's broker: the adopted publisher may publish here.

    With `broken` a broker on the path could not say whether older publications are still under way: the publisher
    has to go back to its old session.
    """

    id: int
    broken: bool = False


class RelocateAsked(Struct, frozen=True, gc=False):
    """The broker asks a publisher of ours to migrate to another broker."""

    id: int
    broker: str
    address: str


class PingsAsked(Struct, frozen=True, gc=False):
    """A broker asks how far others are from a publisher of ours: measure, and answer (`Session.answer_pings`)."""

    broker: str
    id: int
    number: int
    brokers: tuple[Pinged, ...]
    samples: int


SessionEffect = (
    Effect
    | Deliver
    | Ready
    | Confirmed
    | Unconfirmed
    | MissedSome
    | Gap
    | SelectionRefused
    | PublicationsRefused
    | HomeUp
    | HomeDown
    | Dismissed
    | AccessRefused
    | BrokerErred
    | Moved
    | MoveGivenUp
    | Migrated
    | RelocateAsked
    | PingsAsked
)
