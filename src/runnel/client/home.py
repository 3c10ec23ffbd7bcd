"""A home: the session's tie to one broker. A session has one, and two while it moves or crosses.

The home knows under which ids the broker knows the session's subscriptions and advertisements. These ids are new
with every fresh start of the link: what may still stand somewhere in the network under old ones cannot be mixed up.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from runnel.broker.links import Link
from runnel.language import Attributes, Selection
from runnel.matching import make_engine
from runnel.wire import Decoder, Goal, Publication


class Advertised:
    """An advertisement of ours: who publishes, and what."""

    def __init__(self, name: str, selection: Selection) -> None:
        self.name = name
        self.selection = selection
        self.epoch = 0  # how often it has migrated
        self.paused = False  # nothing is published: it is on its way to another broker,
        self.returning = False  # or on its way back
        self.asks = 0  # how often readiness was asked for meanwhile, or had been before
        # An engine answers many times faster than `Selection.matches`, and it is asked for every publication.
        self._engine = make_engine()
        self._engine.add(0, selection)
        self._match = self._engine.match

    def allows(self, attributes: Attributes) -> bool:
        """Whether an event may be published under it."""
        return len(self._match(attributes)) > 0


JOINED, DRY, CROSSED, HELD = -1, -2, -3, -4
"""What barriers are for: a move's two, a crossing's; a positive number is an id to be told ready; see `return_of`."""


def return_of(id: int) -> int:
    """What a barrier is for that tells when a publisher that is back from a migration may go on.

    >>> is_return(return_of(7)), return_of(return_of(7)), is_return(JOINED), is_return(HELD), is_return(7)
    (True, 7, False, False, False)
    """
    return HELD - 1 - id


def is_return(what: int) -> bool:
    """Whether a barrier is for that."""
    return what < HELD


@dataclass(slots=True, eq=False)
class Home:
    """What belongs to one broker."""

    broker: str  # as the driver knows it: its name, or its address
    link: Link
    decoder: Decoder = field(default_factory=Decoder)
    name: str = ""  # as it calls itself
    generation: int = 0  # of the network that it belongs to; 0 before it has said so
    goal: Goal | None = None  # what it said last about another generation
    conn: int = 0  # a connection, from being dialled on
    dialling: bool = False
    registered: bool = False  # the broker knows our subscriptions and advertisements
    subscriptions: dict[int, int] = field(default_factory=dict)  # ours → the broker's
    advertisements: dict[int, int] = field(default_factory=dict)
    counters: dict[int, int] = field(default_factory=dict)  # advertisement → last publication
    waits: dict[int, int] = field(default_factory=dict)  # barrier token → what it is for
    outstanding: deque[int] = field(default_factory=deque)  # data frame numbers of publications
    data_sent: int = 0  # data frames, in this run of the link
    held: list[Publication] = field(
        default_factory=list
    )  # came by a new path, before the old is dry
    held_bytes: int = 0
    heard: dict[int, None] = field(
        default_factory=dict
    )  # advertisements, while there are two homes
    held_by: dict[int, list[Publication]] = field(default_factory=dict)  # the same for others
    held_until: dict[int, int] = field(default_factory=dict)  # token of the other's fence → which
    due: dict[int, None] = field(default_factory=dict)  # of those, the ones whose fence is back

    @property
    def address(self) -> str:
        """Where it was dialled, whatever the generation."""
        return self.broker.partition("#")[0]

    @property
    def asked_ready(self) -> dict[int, int]:
        """The barriers under way that the application asked for; the others are a move's own."""
        return {token: what for token, what in self.waits.items() if what > 0}

    def forget_fences(self) -> None:
        """The fences under way for a move are of no use any more."""
        self.waits = {t: what for t, what in self.waits.items() if what > 0 or is_return(what)}

    def forget_run(self) -> int:
        """A new run of the link: nothing of the old one counts. The publications left in doubt."""
        in_doubt = len(self.outstanding)
        self.registered = False
        self.subscriptions.clear()
        self.advertisements.clear()
        self.counters.clear()
        self.outstanding.clear()
        self.data_sent = 0
        self.goal = None
        return in_doubt
