"""What a broker remembers of deliveries is what profiles.py says it should, whatever comes and goes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from runnel.allocation.profiles import (
    BitVector,
    PublisherProfile,
    SubscriptionProfile,
    Windows,
    synchronised,
)
from runnel.allocation.recording import HOPS_MAX, TAPE_MAX, Recording
from runnel.wire import Publication, make_publication

TABLES: Any = None  # not asked while every client has one subscription


def publication(advertisement: int, counter: int) -> Publication:
    return make_publication(advertisement, counter, {"a": 1})


def recorded(recording: Recording, publishers: list[PublisherProfile], ids: list[int]) -> Windows:
    """What comes of it for the planner."""
    profiles = [
        SubscriptionProfile(
            str(id),
            {
                str(v.advertisement): BitVector(v.first, recording.bits, v.bits)
                for v in recording.vectors(id)
            },
        )
        for id in ids
    ]
    return synchronised(publishers, profiles, recording.bits)


@pytest.mark.parametrize("seed", range(20))
def test_vectors_are_those_of_the_paper(seed: int) -> None:
    """Against profiles.py, publication by publication, with shifts, gaps, and clients and publishers that go."""
    random = Random(seed)
    bits = random.choice([64, 100, 128])
    recording = Recording(bits)
    oracle: dict[int, SubscriptionProfile] = {}
    links: dict[int, int] = {}
    last = dict.fromkeys(range(1, 5), 0)
    for step in range(800):
        what = random.random()
        if what < 0.03 or not links:
            link = next(n for n in range(100) if n not in links.values())
            links[1_000 + step] = link
            oracle[1_000 + step] = SubscriptionProfile(str(1_000 + step))
            recording.subscribed(link, 1_000 + step)
        elif what < 0.05:
            gone = random.choice(list(links))
            recording.unsubscribed(links.pop(gone), gone)
            del oracle[gone]
        elif what < 0.06:
            left = random.choice(list(last))
            recording.forget_publisher(left)
            del last[left]
            last[max(last) + 5] = 0
            for profile in oracle.values():
                profile.vectors.pop(str(left), None)
        else:
            advertisement = random.choice(list(last))
            last[advertisement] += random.choice([1, 1, 1, 1, 7, 300])
            some = random.sample(list(links), random.randint(0, len(links)))
            published = publication(advertisement, last[advertisement])
            hops = [*(links[id] for id in some), 99]  # and a neighbour
            if random.random() < 0.5:
                recording.add_one(TABLES, published, hops, random.random() < 0.5)
            else:
                recording.add(TABLES, [published], [hops], random.random() < 0.5)
            for id in some:
                oracle[id].record(str(advertisement), last[advertisement], bits)
    recording.settle()
    publishers = [PublisherProfile(str(a), 1.0, 1.0, n) for a, n in sorted(last.items())]
    ids = sorted(oracle)
    assert recording.subscriptions == list(oracle)
    expected = synchronised(publishers, [oracle[id] for id in ids], bits)
    assert recorded(recording, publishers, ids) == expected
    assert any(expected.profiles)


def test_what_is_too_old_does_not_count() -> None:
    recording = Recording(64)
    recording.subscribed(0, 20)
    for counter in (1_000, 1, 1_001, 999):
        recording.add_one(TABLES, publication(7, counter), [0], False)
    recording.settle()
    recording.add_one(TABLES, publication(7, 5), [0], False)
    recording.settle()
    [vector] = recording.vectors(20)
    assert (vector.first, vector.bits) == (1_000, 0b11)


def test_the_tape_is_settled_by_itself_when_it_is_long() -> None:
    for hops, count in (([0], TAPE_MAX), ([*range(1, 65), 0], HOPS_MAX // 65 + 1)):
        recording = Recording(64)
        recording.subscribed(0, 20)
        for counter in range(1, count + 1):
            recording.add_one(TABLES, publication(7, counter), hops, True)
        assert [vector.bits for vector in recording.vectors(20)] == [(1 << 64) - 1]
        assert not recording._records and not recording._hops


def test_what_local_publishers_send_is_counted() -> None:
    recording = Recording(64)
    run = [publication(advertisement, n) for n in (1, 2, 3) for advertisement in (7, 8)]
    recording.add(TABLES, run, [[] for _ in run], True)
    recording.add_one(TABLES, publication(7, 4), [], True)
    recording.add_one(TABLES, publication(9, 1), [], False)  # from a neighbour
    size = len(run[0].raw)
    assert recording.take_sent() == {7: (4, 4 * size, 4), 8: (3, 3 * size, 3)}
    assert recording.take_sent() == {}


def test_there_are_only_so_many_vectors_and_those_that_go_make_room() -> None:
    recording = Recording(64, vectors_max=2)
    for n in range(3):
        recording.subscribed(n, 20 + n)
    recording.add_one(TABLES, publication(7, 1), [0, 1, 2], False)
    recording.settle()
    assert [len(list(recording.vectors(20 + n))) for n in range(3)] == [1, 1, 0]
    assert recording.left_out == 1
    recording.unsubscribed(0, 20)
    recording.add_one(TABLES, publication(7, 2), [1, 2], False)
    recording.settle()
    assert [vector.bits for n in (1, 2) for vector in recording.vectors(20 + n)] == [0b11, 0b1]


def test_a_place_that_is_used_again_has_nothing_of_the_one_before() -> None:
    recording = Recording(64)
    recording.subscribed(0, 20)
    recording.add_one(TABLES, publication(7, 1), [0], False)
    recording.unsubscribed(0, 20)
    recording.subscribed(0, 21)
    assert list(recording.vectors(20)) == list(recording.vectors(21)) == []
    recording.add_one(TABLES, publication(7, 2), [0], False)
    recording.settle()
    assert [(vector.first, vector.bits) for vector in recording.vectors(21)] == [(2, 1)]
