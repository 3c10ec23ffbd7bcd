"""A home: the session's tie to one broker. A session has one, and two while it moves or crosses.

The home knows under which ids the broker knows the session's subscriptions and advertisements. These ids are new
with every fresh start of the link, so nothing that is still in the network under an old id can be confused with it.

Each part of the session keeps its state about this broker here and changes only its own fields; comments say whose
fields they are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from runnel.broker.links import Link
from runnel.client.fences import AwaitedFence
from runnel.wire import Decoder, Goal, Message, Publication


@dataclass(slots=True)
class HeldBack:
    """Publications that came from one home and are held back, as an earlier one may still come from the other."""

    heard: dict[int, None] = field(default_factory=dict)  # advertisements that are not held back
    by: dict[int, list[Publication]] = field(default_factory=dict)  # held back, by advertisement
    # Token of the other's fence → advertisement.
    until: dict[int, int] = field(default_factory=dict)
    due: dict[int, None] = field(default_factory=dict)  # advertisements whose fence has come back
    bytes: int = 0


@dataclass(slots=True, eq=False)
class Home:
    """What belongs to one broker."""

    # `Homes`
    broker: str  # as the driver knows it: its name, or its address
    link: Link
    decoder: Decoder = field(default_factory=Decoder)
    name: str = ""  # as it calls itself
    generation: int = 0  # of the network that it belongs to; 0 before it has said so
    conn: int = 0  # the connection; 0 if there is none
    dialling: bool = False
    data_sent: int = 0  # data frames, in this run of the link

    # `Session`
    registered: bool = False  # the broker knows our subscriptions and advertisements
    goal: Goal | None = None  # what it said last about another generation

    # `Gaps`
    registered_ns: int = 0  # when it was told them, or since when an earlier home was; on the wall

    # `Receiver`
    subscriptions: dict[int, int] = field(default_factory=dict)  # ours → the broker's

    # `Advertiser`
    advertisements: dict[int, int] = field(default_factory=dict)  # ours → the broker's
    counters: dict[int, int] = field(default_factory=dict)  # advertisement → last publication
    outstanding: deque[int] = field(default_factory=deque)  # data frame numbers of publications

    # `Fences`
    waits: dict[int, AwaitedFence] = field(default_factory=dict)  # by the token of the barrier

    # `OrderKeeper`
    held: HeldBack = field(default_factory=HeldBack)

    @property
    def address(self) -> str:
        """The address that was dialled, without the generation."""
        return self.broker.partition("#")[0]

    @property
    def latest_time(self) -> int:
        """The latest time that its link has seen: when something last came, or when it went down."""
        return max(self.link.heard_at, self.link.down_since)

    def send(self, message: Message) -> None:
        """Send it with the next flush, in order with everything else."""
        self.link.send_message(message)
        self.data_sent += 1

    def send_publication(self, frame: bytes) -> int:
        """Send a publication; returns its number among the data frames, by which it is acknowledged."""
        self.link.send(frame)
        self.data_sent += 1
        return self.data_sent

    def forget_run(self) -> int:
        """Forget the previous run of the link; returns how many publications are in doubt because of that."""
        in_doubt = len(self.outstanding)
        self.registered = False
        self.subscriptions.clear()
        self.advertisements.clear()
        self.counters.clear()
        self.outstanding.clear()
        self.data_sent = 0
        self.goal = None
        return in_doubt
