"""Bugs planted by hand, to see that the checkers can fail. Each function plants one.

Named after what it gets wrong. `patch(owner, name, value)` replaces an attribute for the time of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runnel.broker.absences import Absences
from runnel.broker.barriers import Barriers, Pending
from runnel.broker.broker import Broker
from runnel.broker.links import TAG_AT, Link
from runnel.broker.tables import Tables
from runnel.client.home import Home
from runnel.client.move import Move, MoveEvent, Mover
from runnel.client.receiving import Receiver
from runnel.client.session import Session
from runnel.matching.covering import Covering
from runnel.routing.tree import TreeRouting
from runnel.wire import Barrier, Fence, Handover, Missed, Unsubscribe
from runnel.wire.header import PUBLICATION_TAG
from runnel.wire.registry import REGISTRY, Lane

Patch = Callable[[Any, str, Any], None]
MUTATIONS: dict[str, Callable[[Patch], None]] = {}


def mutation(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTATIONS[plant.__name__] = plant
    return plant


# -- links ----------------------------------------------------------------------------------------------


@mutation
def acknowledgement_counts_one_too_many(patch: Patch) -> None:
    true = Link._acknowledge
    patch(Link, "_acknowledge", lambda self, lane, count: true(self, lane, count + 1))


@mutation
def a_peer_that_is_gone_for_ever_is_waited_for(patch: Patch) -> None:
    patch(Link, "is_expired", lambda self, now: False)


@mutation
def replay_skips_a_frame(patch: Patch) -> None:
    true = Link.resume

    def resume(self: Link, hello: Any) -> None:
        true(self, hello)
        if self.data.waiting:
            self.waiting_bytes -= len(self.data.waiting.popleft())

    patch(Link, "resume", resume)


@mutation
def replay_repeats_what_was_received(patch: Patch) -> None:
    true = Link._acknowledge
    patch(
        Link,
        "resume",
        _resume_with(lambda self, lane, received: true(self, lane, received - 1)),
    )


@mutation
def replay_in_the_wrong_order(patch: Patch) -> None:
    patch(Link, "resume", _resume_with(Link._acknowledge, backwards=True))


def _resume_with(acknowledge: Any, *, backwards: bool = False) -> Any:
    def resume(self: Link, hello: Any) -> None:
        for lane, received in (
            (self.data, hello.received_data),
            (self.monitor, hello.received_monitor),
        ):
            acknowledge(self, lane, received)
            frames = list(lane.unacknowledged)
            lane.waiting.extendleft(frames if backwards else reversed(frames))
            lane.unacknowledged.clear()
        self.waiting_bytes += self.flying_bytes
        self.flying_bytes = 0

    return resume


@mutation
def resume_accepted_with_a_wrong_token(patch: Patch) -> None:
    patch(Link, "fits", lambda self, hello: hello.peer_token != 0 and self.peer_token != 0)


@mutation
def links_never_resume(patch: Patch) -> None:
    patch(Link, "fits", lambda self, hello: False)


@mutation
def fresh_start_keeps_the_old_queue(patch: Patch) -> None:
    true = Link.start_fresh

    def start_fresh(self: Link, peer_token: int, token: int | None = None) -> None:
        old = [*self.data.unacknowledged, *self.data.waiting]
        true(self, peer_token, token)
        for frame in old:
            self.send(frame)

    patch(Link, "start_fresh", start_fresh)


@mutation
def drops_are_not_counted(patch: Patch) -> None:
    true = Link._drop_oldest_publications

    def drop(self: Link) -> None:
        true(self)
        self.dropped_uncounted = self.dropped_untold = 0

    patch(Link, "_drop_oldest_publications", drop)


@mutation
def routes_are_dropped_like_publications(patch: Patch) -> None:
    def drop(self: Link) -> None:
        waiting = self.data.waiting
        while waiting and self.waiting_bytes > self.config.queue_bytes_max:
            frame = waiting.popleft()
            self.waiting_bytes -= len(frame)
            if frame[TAG_AT] == PUBLICATION_TAG:
                self.dropped_untold += 1
                self.dropped_uncounted += 1

    patch(Link, "_drop_oldest_publications", drop)


@mutation
def a_slow_client_is_told_of_fewer_drops(patch: Patch) -> None:
    def look_after(self: Broker, link: Link) -> None:
        if link.dropped_untold and not link.is_half_full:
            link.send_message(Missed(1))
            link.dropped_untold = 0

    patch(Broker, "_look_after_client", look_after)


@mutation
def the_dialler_accepts_a_run_that_it_gave_up(patch: Patch) -> None:
    true = Broker._hello

    def hello(self: Broker, conn: int, frame: Any) -> Any:
        connection = self._connections[conn]
        if connection.dialled is not None:
            known = self.links.get(frame.name)
            connection.dialled = known or self._new_link(frame.name, "broker")
        return true(self, conn, frame)

    patch(Broker, "_hello", hello)


@mutation
def the_window_is_ignored(patch: Patch) -> None:
    def take_lane(self: Link, lane: Any, frames: list[bytes]) -> None:
        taken = list(lane.waiting)
        lane.waiting.clear()
        size = sum(map(len, taken))
        self.waiting_bytes -= size
        self.flying_bytes += size
        lane.unacknowledged.extend(taken)
        frames += taken

    patch(Link, "_take_lane", take_lane)


@mutation
def silence_is_not_noticed(patch: Patch) -> None:
    patch(Link, "has_been_silent", lambda self, now: False)


@mutation
def dead_links_are_kept(patch: Patch) -> None:
    patch(Link, "is_expired", lambda self, now: False)


@mutation
def data_goes_before_monitoring(patch: Patch) -> None:
    def take(self: Link, now: int) -> list[bytes]:
        frames: list[bytes] = []
        if self.established:
            self._take_lane(self.data, frames)
            self._take_lane(self.monitor, frames)
            if self.ack_due:
                self.ack_due = False
                frames.append(self._ack())
        return frames

    patch(Link, "take", take)


@mutation
def one_alone_overtakes_what_waits(patch: Patch) -> None:
    true = Link.send_at_once

    def send_at_once(self: Link, frame: bytes) -> bool:
        waiting, self.waiting_bytes = self.waiting_bytes, 0
        sent = true(self, frame)
        self.waiting_bytes = waiting
        return sent

    patch(Link, "send_at_once", send_at_once)


# -- what is missing ------------------------------------------------------------------------------------


@mutation
def ready_says_nothing_of_missing_links(patch: Patch) -> None:
    patch(Absences, "missing", lambda self, now: ())


@mutation
def a_neighbour_that_is_lost_is_not_missed(patch: Patch) -> None:
    patch(Absences, "_expected", lambda self, now: {link.name: None for link in self._told})


@mutation
def missing_links_are_not_passed_on(patch: Patch) -> None:
    true = Absences._missing_for

    def missing_for(self: Absences, link: Link, now: int) -> frozenset[str]:
        return frozenset(one for one in true(self, link, now) if self._name in one)

    patch(Absences, "_missing_for", missing_for)


# -- barriers and fences --------------------------------------------------------------------------------


@mutation
def fence_answered_too_early(patch: Patch) -> None:
    def barrier(self: Barriers, link: Link, message: Barrier) -> None:
        for neighbour in self._links_for(link, message):
            neighbour.send_message(message)
        link.send_message(Fence(message.token))

    patch(Barriers, "barrier", barrier)


@mutation
def one_fence_is_enough(patch: Patch) -> None:
    def settle(self: Barriers, token: int, pending: Pending, link: Link) -> None:
        del self.pending[token]
        pending.asked_by.send_message(Fence(token))

    patch(Barriers, "_settle", settle)


@mutation
def lost_links_are_waited_for(patch: Patch) -> None:
    patch(Barriers, "link_lost", lambda self, link: None)


@mutation
def fences_overtake_data(patch: Patch) -> None:
    patch(REGISTRY, "_lanes", REGISTRY._lanes | {Fence: Lane.MONITOR})


@mutation
def barriers_overtake_data(patch: Patch) -> None:
    patch(REGISTRY, "_lanes", REGISTRY._lanes | {Barrier: Lane.MONITOR})


@mutation
def barriers_stop_at_the_first_broker(patch: Patch) -> None:
    patch(Barriers, "barrier", lambda self, link, message: link.send_message(Fence(message.token)))


@mutation
def handovers_overtake_data(patch: Patch) -> None:
    patch(REGISTRY, "_lanes", REGISTRY._lanes | {Handover: Lane.MONITOR})


@mutation
def a_handover_stops_at_the_new_home(patch: Patch) -> None:
    def handover(self: Barriers, link: Link, message: Handover) -> None:
        link.send_message(Fence(message.token))

    patch(Barriers, "handover", handover)


@mutation
def the_old_home_does_not_wait_for_what_the_client_sent(patch: Patch) -> None:
    true = Barriers._answer_handover

    def answer_handover(self: Barriers, link: Link, message: Handover) -> None:
        true(self, link, Handover(message.token, message.home, message.client, message.run, 0))

    patch(Barriers, "_answer_handover", answer_handover)


@mutation
def the_old_home_hands_over_before_it_is_reached(patch: Patch) -> None:
    true = Barriers.fence

    def fence(self: Barriers, link: Link, message: Fence) -> None:
        if link.is_client:
            link.send_message(message)
        true(self, link, message)

    patch(Barriers, "fence", fence)


# -- routing --------------------------------------------------------------------------------------------


@mutation
def covering_forgets_what_it_kept_back(patch: Patch) -> None:
    def unwant(self: TreeRouting, neighbour: Link, row: Any) -> None:
        outbound = self._outbound[neighbour]
        if row.id in outbound.kept_back:
            outbound.kept_back.remove(row.id)
        elif row.id in outbound.sent:
            outbound.sent.remove(row.id)
            neighbour.send_message(Unsubscribe(row.id))

    patch(TreeRouting, "_unwant", unwant)


@mutation
def unsubscription_goes_before_what_was_kept_back(patch: Patch) -> None:
    def unwant(self: TreeRouting, neighbour: Link, row: Any) -> None:
        outbound = self._outbound[neighbour]
        if row.id in outbound.kept_back:
            outbound.kept_back.remove(row.id)
        elif row.id in outbound.sent:
            outbound.sent.remove(row.id)
            neighbour.send_message(Unsubscribe(row.id))
            for id in outbound.kept_back.ids_covered_by(row.selection):
                if not outbound.sent.is_covered(outbound.kept_back.selection(id)):
                    outbound.kept_back.remove(id)
                    self._send(neighbour, self.tables.prt[id])

    patch(TreeRouting, "_unwant", unwant)


@mutation
def intersection_counts_as_covering(patch: Patch) -> None:
    def is_covered(self: Covering, selection: Any) -> bool:
        return any(other.intersects(selection) for other in self._ids)

    patch(Covering, "is_covered", is_covered)


@mutation
def purge_forgets_subscriptions(patch: Patch) -> None:
    true = Tables.ids_from_link
    patch(Tables, "ids_from_link", lambda self, link: (true(self, link)[0], []))


@mutation
def purge_forgets_advertisements(patch: Patch) -> None:
    true = Tables.ids_from_link
    patch(Tables, "ids_from_link", lambda self, link: ([], true(self, link)[1]))


@mutation
def a_new_neighbour_is_told_nothing(patch: Patch) -> None:
    true = TreeRouting.link_up

    def link_up(self: TreeRouting, link: Link) -> None:
        srt, self.tables.srt = self.tables.srt, {}
        true(self, link)
        self.tables.srt = srt

    patch(TreeRouting, "link_up", link_up)


@mutation
def a_new_publisher_gets_no_old_subscriptions(patch: Patch) -> None:
    patch(Tables, "subscriptions_intersecting", lambda self, selection: iter(()))


@mutation
def publications_go_back_to_where_they_came_from(patch: Patch) -> None:
    true = TreeRouting.next_hops

    def next_hops(self: TreeRouting, link: Link, publication: Any) -> list[int]:
        back = publication.hops == 1  # only once, or nothing else would have room
        return self.tables.hops(publication) if back else true(self, link, publication)

    patch(TreeRouting, "next_hops", next_hops)


@mutation
def unsubscription_stays_at_home(patch: Patch) -> None:
    patch(TreeRouting, "_unwant", lambda self, neighbour, row: None)


# -- the session ----------------------------------------------------------------------------------------


@mutation
def high_water_mark_off_by_one(patch: Patch) -> None:
    true = Receiver.deliver

    def deliver(self: Receiver, publication: Any) -> None:
        mark = self._marks._highest.get(publication.advertisement, 0)
        if mark == publication.counter:
            self._marks._highest[publication.advertisement] = mark - 1
        true(self, publication)

    patch(Receiver, "deliver", deliver)


@mutation
def high_water_mark_one_too_high(patch: Patch) -> None:
    true = Receiver.deliver

    def deliver(self: Receiver, publication: Any) -> None:
        true(self, publication)
        self._marks._highest[publication.advertisement] = publication.counter + 1

    patch(Receiver, "deliver", deliver)


@mutation
def held_publications_released_before_dry(patch: Patch) -> None:
    true = Mover.home_registered

    def home_registered(self: Mover, home: Any) -> None:
        true(self, home)
        if self.state is Move.DRYING:
            self._arrive(MoveEvent.ARRIVED)

    patch(Mover, "home_registered", home_registered)


@mutation
def held_publications_are_forgotten(patch: Patch) -> None:
    true = Mover._arrive

    def arrive(self: Mover, event: MoveEvent) -> None:
        self._held.clear()
        true(self, event)

    patch(Mover, "_arrive", arrive)


@mutation
def the_new_path_is_not_held(patch: Patch) -> None:
    patch(
        Session,
        "_take_publication",
        lambda self, home, publication: self.receiver.deliver(publication),
    )


@mutation
def publishing_goes_on_while_the_old_path_dries(patch: Patch) -> None:
    def credit_at(self: Session, home: Home | None) -> int:
        home = self.next if self.move is Move.DRYING else self.home
        if home is None or not home.registered or home.link.is_half_full:
            return 0
        return max(0, home.link.credit - len(home.outstanding))

    true = Session.publish

    def publish(self: Session, *arguments: Any, **named: Any) -> Any:
        old = self.home
        if self.move is Move.DRYING:
            self.homes.home = self.next
        try:
            return true(self, *arguments, **named)
        finally:
            self.homes.home = old

    patch(Session, "_credit_at", credit_at)
    patch(Session, "publish", publish)


@mutation
def unsubscribed_but_still_delivered(patch: Patch) -> None:
    true = Session.unsubscribe

    def unsubscribe(self: Session, id: int) -> None:
        selection = self.subscriptions[id]
        true(self, id)
        self.receiver._engine.add(id, selection)

    patch(Session, "unsubscribe", unsubscribe)


@mutation
def a_broker_without_memory_is_told_nothing(patch: Patch) -> None:
    true = Session._register

    def register(self: Session, home: Any) -> None:
        if home.link.token in self.__dict__.setdefault("_known", {}):
            home.registered = True
            return
        self.__dict__["_known"][home.link.token] = None
        true(self, home)

    patch(Session, "_register", register)


@mutation
def counters_start_again_on_the_same_advertisement(patch: Patch) -> None:
    true = Session.publish

    def publish(self: Session, id: int, *arguments: Any, **named: Any) -> Any:
        if self.home is not None and self.home.counters.get(id, 0) >= 5:
            self.home.counters[id] = 0
        return true(self, id, *arguments, **named)

    patch(Session, "publish", publish)
