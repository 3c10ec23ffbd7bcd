"""What a broker remembers of deliveries is what profiles.py says it should, whatever comes and goes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec import Raw

from runnel.broker.links import Link, LinkConfig
from runnel.broker.tables import SubscriptionRow
from runnel.language import EVERYTHING
from runnel.modules.profiles.vectors import VECTORS_MAX, Vector, Vectors
from runnel.modules.recording.module import Recording
from runnel.modules.recording.tape import HOPS_MAX, PUBLICATIONS_MAX, RECORD, Tape
from runnel.planning.profiles import (
    BitVector,
    PublisherProfile,
    SubscriptionProfile,
    Windows,
    synchronise,
)
from runnel.wire import Publication, make_publication

CONTEXT: Any = None  # not asked while every client has one subscription
PUBLISHER = Link("p", "client", 90, 1, LinkConfig(), 0, {})
NEIGHBOUR = Link("N", "broker", 99, 1, LinkConfig(), 0, {})


class RecordedBroker:
    """A recording and the vectors that are made of it; clients are numbers of links."""

    def __init__(self, bits: int, vectors_max: int = VECTORS_MAX) -> None:
        self.bits = bits
        self.tape = Tape()
        self.recording = Recording(self.tape)
        self.recording.link_up(CONTEXT, NEIGHBOUR, 0)
        self.kept = Vectors(self.recording, bits, vectors_max)
        self._rows: dict[int, SubscriptionRow] = {}

    def subscribe(self, client: int, id: int) -> None:
        link = Link(f"c{client}", "client", client, 1, LinkConfig(), 0, {})
        row = self._rows[id] = SubscriptionRow(id, EVERYTHING, Raw(b""), 9, link, 0)
        self.recording.link_up(CONTEXT, link, 0)
        self.recording.subscribed(CONTEXT, link, row, 0)
        self.kept.add_subscription(id)

    def unsubscribe(self, id: int) -> None:
        row = self._rows.pop(id)
        self.recording.unsubscribed(CONTEXT, row.link, row, 0)
        self.kept.forget_subscription(id)

    def route(self, published: Publication, hops: list[int], source: Link = NEIGHBOUR) -> None:
        self.recording.routed_one(CONTEXT, source, published, hops, 0)

    def route_run(
        self, run: list[Publication], hops: list[list[int]], source: Link = NEIGHBOUR
    ) -> None:
        self.recording.routed(CONTEXT, source, run, hops, 0)

    def vectors(self, id: int) -> list[Vector]:
        """With all that is on the tape."""
        self.recording.seal()
        return list(self.kept.vectors(id))


def publication(advertisement: int, counter: int) -> Publication:
    return make_publication(advertisement, counter, {"a": 1})


def planned(one: RecordedBroker, publishers: list[PublisherProfile], ids: list[int]) -> Windows:
    """What comes of it for the planner."""
    profiles = [
        SubscriptionProfile(
            str(id),
            {str(v.advertisement): BitVector(v.first, one.bits, v.bits) for v in one.vectors(id)},
        )
        for id in ids
    ]
    return synchronise(publishers, profiles, one.bits)


@pytest.mark.parametrize("seed", range(20))
def test_vectors_are_those_of_the_paper(seed: int) -> None:
    """Against profiles.py, publication by publication, with shifts, gaps, and clients and publishers that go."""
    random = Random(seed)
    bits = random.choice([64, 100, 128])
    one = RecordedBroker(bits)
    oracle: dict[int, SubscriptionProfile] = {}
    links: dict[int, int] = {}
    last = dict.fromkeys(range(1, 5), 0)
    for step in range(800):
        what = random.random()
        if what < 0.03 or not links:
            link = next(n for n in range(100) if n not in links.values())
            links[1_000 + step] = link
            oracle[1_000 + step] = SubscriptionProfile(str(1_000 + step))
            one.subscribe(link, 1_000 + step)
        elif what < 0.05:
            gone = random.choice(list(links))
            one.unsubscribe(gone)
            del links[gone]
            del oracle[gone]
        elif what < 0.06:
            left = random.choice(list(last))
            one.kept.forget_publisher(left)
            del last[left]
            last[max(last) + 5] = 0
            for profile in oracle.values():
                profile.vectors.pop(str(left), None)
        else:
            advertisement = random.choice(list(last))
            last[advertisement] += random.choice([1, 1, 1, 1, 7, 300])
            some = random.sample(list(links), random.randint(0, len(links)))
            published = publication(advertisement, last[advertisement])
            hops = [*(links[id] for id in some), NEIGHBOUR.number]
            source = random.choice([PUBLISHER, NEIGHBOUR])
            if random.random() < 0.5:
                one.route(published, hops, source)
            else:
                one.route_run([published], [hops], source)
            for id in some:
                oracle[id].record(str(advertisement), last[advertisement], bits)
    publishers = [PublisherProfile(str(a), 1.0, 1.0, n) for a, n in sorted(last.items())]
    ids = sorted(oracle)
    assert one.kept.subscriptions == list(oracle)
    expected = synchronise(publishers, [oracle[id] for id in ids], bits)
    assert planned(one, publishers, ids) == expected
    assert any(expected.profiles)


def test_what_is_too_old_does_not_count() -> None:
    one = RecordedBroker(64)
    one.subscribe(0, 20)
    for counter in (1_000, 1, 1_001, 999):
        one.route(publication(7, counter), [0])
    one.recording.seal()
    one.route(publication(7, 5), [0])
    [vector] = one.vectors(20)
    assert (vector.first, vector.bits) == (1_000, 0b11)


@pytest.mark.parametrize(
    ("hops", "count"), [([0], PUBLICATIONS_MAX), ([*range(1, 65), 0], HOPS_MAX // 65 + 1)]
)
def test_a_tape_that_is_full_is_sealed_by_what_comes_next(hops: list[int], count: int) -> None:
    one = RecordedBroker(64)
    one.recording.link_up(CONTEXT, NEIGHBOUR, 0)
    one.subscribe(0, 20)
    for counter in range(1, count + 2):
        one.route(publication(7, counter), hops, PUBLISHER)
    assert [vector.bits for vector in one.kept.vectors(20)] == [(1 << 64) - 1]
    assert len(one.tape.records) == RECORD.itemsize and len(one.tape.hops) == len(hops)


def test_what_local_publishers_send_is_counted() -> None:
    one = RecordedBroker(64)
    run = [publication(advertisement, n) for n in (1, 2, 3) for advertisement in (7, 8)]
    one.route_run(run, [[] for _ in run], PUBLISHER)
    one.route(publication(7, 4), [], PUBLISHER)
    one.route(publication(9, 1), [])  # from a neighbour
    size = len(run[0].raw)
    assert one.kept.take_sent() == {7: (4, 4 * size, 4), 8: (3, 3 * size, 3)}
    assert one.kept.take_sent() == {}


def test_there_are_only_so_many_vectors_and_those_that_go_make_room() -> None:
    one = RecordedBroker(64, vectors_max=2)
    for n in range(3):
        one.subscribe(n, 20 + n)
    one.route(publication(7, 1), [0, 1, 2])
    assert [len(one.vectors(20 + n)) for n in range(3)] == [1, 1, 0]
    assert one.kept.left_out == 1
    one.unsubscribe(20)
    one.route(publication(7, 2), [1, 2])
    assert [vector.bits for n in (1, 2) for vector in one.vectors(20 + n)] == [0b11, 0b1]


def test_a_slot_that_is_used_again_has_nothing_of_the_one_before() -> None:
    one = RecordedBroker(64)
    one.subscribe(0, 20)
    one.route(publication(7, 1), [0])
    one.unsubscribe(20)
    one.subscribe(0, 21)
    assert one.vectors(20) == one.vectors(21) == []
    one.route(publication(7, 2), [0])
    assert [(vector.first, vector.bits) for vector in one.vectors(21)] == [(2, 1)]


def test_a_publication_older_than_all_that_is_kept_begins_no_vector_before_it() -> None:
    one = RecordedBroker(64)
    one.subscribe(0, 20)
    one.subscribe(1, 21)
    one.route(publication(7, 2**63 - 1), [0])
    one.route(publication(7, 1), [1])  # somebody's counters make no sense
    (vector,) = one.vectors(21)
    assert (vector.first, vector.bits) == (2**63 - 64, 0)


def test_vectors_stay_when_all_subscriptions_get_places_anew() -> None:
    one = RecordedBroker(64)
    one.subscribe(0, 20)
    one.subscribe(1, 21)
    one.route(publication(7, 1), [0, 1])
    before = one.tape.audiences.subscribers
    for id in range(100, 1_200):  # so many that have come and gone
        one.subscribe(2, id)
        one.unsubscribe(id)
    assert one.tape.audiences.subscribers is not before
    one.route(publication(7, 2), [1])
    assert [vector.bits for id in (20, 21) for vector in one.vectors(id)] == [0b1, 0b11]


def test_brokers_that_share_a_tape_keep_to_their_own() -> None:
    one, tape = RecordedBroker(64), Tape()
    one.tape, one.recording = tape, Recording(tape)
    other = Recording(tape)
    link = Link("c0", "client", 0, 1, LinkConfig(), 0, {})
    one.kept, theirs = Vectors(one.recording, 64), Vectors(other, 64)
    one.subscribe(0, 20)
    other.link_up(CONTEXT, link, 0)
    other.subscribed(CONTEXT, link, SubscriptionRow(30, EVERYTHING, Raw(b""), 9, link, 0), 0)
    theirs.add_subscription(30)
    one.route(publication(7, 1), [0], PUBLISHER)
    other.routed_one(CONTEXT, NEIGHBOUR, publication(7, 1), [0], 0)
    other.routed_one(CONTEXT, NEIGHBOUR, publication(7, 2), [0], 0)
    assert [vector.bits for vector in one.vectors(20)] == [0b1]
    assert [vector.bits for vector in theirs.vectors(30)] == [0b11]
    assert (list(one.kept.take_sent()), theirs.take_sent()) == ([7], {})
