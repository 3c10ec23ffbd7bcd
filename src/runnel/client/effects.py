"""What a session tells its application, beside the effects that it shares with brokers."""

from __future__ import annotations

from dataclasses import dataclass

from runnel.broker.effects import Effect
from runnel.wire import Publication


@dataclass(frozen=True, slots=True)
class Deliver:
    """A publication for these subscriptions, each publisher's in order and once."""

    publication: Publication
    subscriptions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """The routes of a subscription or advertisement are complete."""

    id: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The broker has this many more of the publications, oldest first."""

    count: int


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """This many of the publications, oldest first, may or may not have arrived; they are not sent again."""

    count: int


@dataclass(frozen=True, slots=True)
class MissedSome:
    """The broker dropped this many publications, since this client did not keep up."""

    count: int


@dataclass(frozen=True, slots=True)
class HomeUp:
    """Connected. `fresh`: everything was set up anew, so what was ready must be made ready again."""

    broker: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class HomeDown:
    """Not connected; nothing is lost if it comes back soon."""

    broker: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The session now lives at another broker; nothing was lost or doubled on the way."""

    broker: str


SessionEffect = (
    Effect | Deliver | Ready | Confirmed | Unconfirmed | MissedSome | HomeUp | HomeDown | Moved
)
