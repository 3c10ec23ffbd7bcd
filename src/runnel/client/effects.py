"""What a session tells its application, beside the effects that it shares with brokers."""

from __future__ import annotations

from msgspec import Struct

from runnel.broker.effects import Effect
from runnel.wire import Publication


class Deliver(Struct, frozen=True, gc=False):
    """A publication for these subscriptions, each publisher's in order and once."""

    publication: Publication
    subscriptions: tuple[int, ...]


class Ready(Struct, frozen=True, gc=False):
    """The routes of a subscription or advertisement are complete."""

    id: int


class Confirmed(Struct, frozen=True, gc=False):
    """The broker has this many more of the publications, oldest first."""

    count: int


class Unconfirmed(Struct, frozen=True, gc=False):
    """This many of the publications, oldest first, may or may not have arrived; they are not sent again."""

    count: int


class MissedSome(Struct, frozen=True, gc=False):
    """The broker dropped this many publications, since this client did not keep up."""

    count: int


class HomeUp(Struct, frozen=True, gc=False):
    """Connected. `fresh`: everything was set up anew, so what was ready must be made ready again."""

    broker: str
    fresh: bool


class HomeDown(Struct, frozen=True, gc=False):
    """Not connected; nothing is lost if it comes back soon."""

    broker: str


class Dismissed(Struct, frozen=True, gc=False):
    """The broker does not want this client: it is not connected any more, and will not be."""

    reason: str


class Moved(Struct, frozen=True, gc=False):
    """The session now lives at another broker; nothing was lost or doubled on the way.

    `gap`: but the old home was lost meanwhile, with what it had for the session.
    """

    broker: str
    gap: bool = False


class MoveGivenUp(Struct, frozen=True, gc=False):
    """The session stays where it is: the other broker did not come up in time, or too much had to be held."""

    broker: str


class Migrated(Struct, frozen=True, gc=False):
    """Nothing of a publisher that was adopted is under way any more from where it was: it may go on here.

    `broken`: or nobody can say whether there is: it had better go back.
    """

    id: int
    broken: bool = False


class RelocateAsked(Struct, frozen=True, gc=False):
    """The broker thinks that a publisher of ours would be better off at another."""

    id: int
    broker: str
    address: str


SessionEffect = (
    Effect
    | Deliver
    | Ready
    | Confirmed
    | Unconfirmed
    | MissedSome
    | HomeUp
    | HomeDown
    | Dismissed
    | Moved
    | MoveGivenUp
    | Migrated
    | RelocateAsked
)
