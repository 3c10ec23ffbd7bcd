"""The module "recording": writes the publications that its broker routes to a tape, for its consumers.

Traces and profiles need the same input: which publications were routed, and which subscriptions of local clients got
them. So one module watches publications, and a broker pays for it once. Modules that need it name it in `uses` and add
a consumer (`add_consumer`); several such modules of one broker share it.

Rules:
- It only observes: a broker routes the same with and without it.
- Publications go on the tape (tape.py) without any look-up. The tape is *sealed*, that is, handed to its consumers,
  when it is full, when it is as old as they allow, and whenever a client's subscriptions change, because the
  subscriptions that got each publication are looked up when the tape is sealed.
- Most clients have one subscription, and want whatever they get. While a client has several, the routing table is
  asked for every publication.
- `offset` converts the broker's clock to the tape's. Wall clocks are adjusted, so the offset is read again now and then
  (`read_clock`).
"""

from __future__ import annotations

from collections.abc import Callable

from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.broker.tables import SubscriptionRow
from runnel.modules.recording.tape import NEVER, Consumer, Tape, pack_record
from runnel.wire import Publication

OLD = "recording:old"


def _no_offset() -> int:
    return 0


class Recording(Module):
    """What one broker routed and who got it. Several brokers of one process may share a tape."""

    name = "recording"
    timers = (OLD,)
    watches_tables = True

    def __init__(self, tape: Tape, offset: Callable[[], int] = _no_offset) -> None:
        self.offset = 0  # from the broker's clock to that of the tape
        self._tape = tape
        self._audience = tape.audiences.join("")
        self._ask_offset = offset
        self._watch_if_needed()

    @property
    def number(self) -> int:
        """The broker's number in the records of the tape."""
        return self._audience.number

    def add_consumer(self, consumer: Consumer) -> None:
        """Add a consumer, which gets the tape whenever it is sealed. To be called before the broker is made."""
        self._tape.add_consumer(consumer)
        self._watch_if_needed()

    def _watch_if_needed(self) -> None:
        self.watches_publications = self._tape.wants_frames or self._tape.wants_deliveries

    def seal(self) -> None:
        """Hand what was routed so far to the consumers."""
        self._tape.seal()

    def read_clock(self) -> None:
        """Read the offset again, for all that is routed from now on."""
        self.seal()
        self.offset = self._ask_offset()

    def stop(self) -> None:
        """The broker ends."""
        self.seal()
        self._audience.leave()

    # -- what the broker calls ------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        self._tape.audiences.brokers[self.number] = context.name
        self.offset = self._ask_offset()

    def timer(self, context: Context, timer: str, now: int) -> None:
        """Seal the tape if it is old."""
        if now + self.offset >= self._tape.old_at:
            self.seal()

    def routed(
        self,
        context: Context,
        link: Link,
        run: list[Publication],
        hops: list[list[int]],
        now: int,
    ) -> None:
        """A run of publications was routed; `hops` has the next hops of each, in the same order."""
        tape, audience, from_client = self._tape, self._audience, link.is_client
        if not (from_client or audience.clients):
            return
        sample = tape.sample
        if sample != 1:
            kept = [n for n, p in enumerate(run) if not p.counter % sample]
            if not kept:
                return
            run, hops = [run[n] for n in kept], [hops[n] for n in kept]
        at = now + self.offset
        if at >= tape.old_at:
            self._begin_tape(context, now)
        if audience.with_many:
            tables = context.tables
            hops = [audience.find_places(tables, *each) for each in zip(run, hops, strict=True)]
        tape.add(audience.number, run, hops, at, from_client)

    def routed_one(
        self, context: Context, link: Link, publication: Publication, hops: list[int], now: int
    ) -> None:
        """The same for one publication, without the general case's cost: most come alone when there is little to do."""
        tape, audience, at = self._tape, self._audience, now + self.offset
        from_client = link.is_client
        if (
            at >= tape.old_at
            or tape.sample != 1
            or not (audience.is_simple or (from_client and not audience.with_many))
        ):
            self.routed(context, link, [publication], [hops], now)
            return
        frame = publication.raw
        tape.records += pack_record(frame, at, audience.number, from_client, len(hops))
        tape.hops.fromlist(hops)
        if from_client and tape.wants_frames:
            tape.add_frame(frame)
        if len(tape.records) >= tape.records_max or len(tape.hops) >= tape.hops_max:
            tape.old_at = 0

    def _begin_tape(self, context: Context, now: int) -> None:
        """Begin a new tape, and set a timer that seals it when it is old even if nothing more comes."""
        self._tape.begin(now + self.offset)
        if self._tape.old_at != NEVER:
            context.set_timer(OLD, self._tape.old_at - self.offset)

    def subscribed(self, context: Context, link: Link, row: SubscriptionRow, now: int) -> None:
        """A subscription came into the PRT; only clients' subscriptions matter here."""
        if link.is_client and self._tape.wants_deliveries:
            self.seal()
            self._audience.add(link.number, row.id, link.name)

    def unsubscribed(self, context: Context, link: Link, row: SubscriptionRow, now: int) -> None:
        """It was withdrawn, or its client is gone."""
        if link.is_client and self._tape.wants_deliveries:
            self.seal()
            self._audience.remove(link.number, row.id)

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A link starts fresh."""
        self._audience.link_up(link.number)
