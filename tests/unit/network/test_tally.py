"""The tally finds what is lost, doubled, out of order or uncalled for; each made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.client.events import Event
from runnel.network.file import make_topology
from runnel.network.tally import DeliveryTally
from runnel.wire import make_publication

TOPOLOGY = make_topology(
    {
        "brokers": {"B1": {}},
        "clients": [{"name": "alice", "broker": "B1", "subscribe": ["n > 1", "n > 2"]}],
    }
)


class Alice:
    """As much of a running client as the tally looks at."""

    plan = TOPOLOGY.clients[0]


def event(n: int) -> Event:
    return Event(make_publication(9, n, {"n": n}, publisher="p", time_ns=1_000))


def tally(*seen: tuple[int, int]) -> DeliveryTally:
    """1, 2, 3 and 4 are published; these are delivered, each to the subscription at a place."""
    made = DeliveryTally(TOPOLOGY)
    alice: Any = Alice()
    for n in range(1, 5):
        made.note_published(alice, event(n))
    for n, place in seen:
        made.note_delivered(alice, place, event(n), now_ns=2_001_000)
    return made


ALL = [(2, 0), (3, 0), (4, 0), (3, 1), (4, 1)]


def test_all_is_well() -> None:
    result = tally(*ALL).result()
    assert result.is_clean
    assert (result.published, result.must, result.delivered) == (4, 5, 5)
    assert (result.p50_ms, result.p99_ms) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        (ALL[1:], {"lost": 1}),
        ([*ALL, (3, 0)], {"doubled": 1}),
        ([(3, 0), (2, 0), (4, 0), (3, 1), (4, 1)], {"disordered": 1}),
        ([*ALL, (1, 0)], {"uncalled_for": 1, "disordered": 1}),
        ([], {"lost": 5}),
    ],
)
def test_whatever_is_wrong_is_counted(seen: list[tuple[int, int]], wrong: dict[str, int]) -> None:
    result = tally(*seen).result()
    assert not result.is_clean
    found = {
        name: getattr(result, name) for name in ("lost", "doubled", "disordered", "uncalled_for")
    }
    assert {name: count for name, count in found.items() if count} == wrong


def test_publications_in_doubt_are_not_clean() -> None:
    assert not tally(*ALL).result(in_doubt=1).is_clean


def test_nothing_published_proves_nothing() -> None:
    assert not DeliveryTally(TOPOLOGY).result().is_clean
