"""Friends from a file or a seed: who hears whom, and where they live."""

from pathlib import Path
from random import Random

import pytest

from runnel.errors import InputError
from runnel.workload.files import Event, write_events
from runnel.workload.friends import draw_friends, draw_interactions, read_friends
from runnel.workload.measure import measure
from runnel.workload.registry import make_workload

TIES: list[Event] = [
    {"user_a": a, "user_b": b} for a, b in ((1, 2), (2, 1), (2, 3), (3, 3), (7, 1))
]


def test_ties_have_no_direction_and_count_once(tmp_path: Path) -> None:
    write_events(tmp_path / "f.parquet", TIES)
    assert read_friends(tmp_path / "f.parquet") == {1: [2, 7], 2: [1, 3], 3: [2], 7: [1]}


def test_every_friend_hears_what_a_user_does(tmp_path: Path) -> None:
    write_events(tmp_path / "f.jsonl", TIES)
    said: list[Event] = [
        {"second": 1, "kind": "sms", "sender": 2, "recipient": 3},
        {"second": 4, "kind": "call", "sender": 9, "recipient": 3},
        {"second": 5, "kind": "sms", "sender": 2, "recipient": 1},
    ]
    write_events(tmp_path / "i.jsonl", said)
    table = {"friends": "f.jsonl", "interactions": "i.jsonl", "brokers": 1, "reached_share": 0}
    workload = make_workload("social", table, folder=tmp_path)
    assert len(workload.subscribers) == 6
    (publisher,) = workload.publishers
    heard = [
        sorted(one.name for one in workload.subscribers if one.selection.matches(event))
        for event, _ in zip(publisher.events, range(3), strict=False)
    ]
    of_two = ["sub-1-2", "sub-3-2"]
    assert heard == [of_two, [], of_two]
    assert measure(workload, publications=3).matches == 4
    assert workload.facts["matched_share"] == pytest.approx(4 / 3 / 6)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"user_a": 1, "b": 2}], "f.jsonl, line 1: there is no user number under 'user_b'"),
        ([{"user_a": 1, "user_b": "two"}], "no user number under 'user_b'"),
        ([{"user_a": 1, "user_b": 1}], "there is no tie in this file"),
    ],
)
def test_a_file_that_is_no_graph(tmp_path: Path, rows: list[Event], message: str) -> None:
    write_events(tmp_path / "f.jsonl", rows)
    with pytest.raises(InputError, match=message):
        make_workload("social", {"friends": "f.jsonl"}, folder=tmp_path)


def test_a_share_that_a_graph_cannot_come_to_is_named(tmp_path: Path) -> None:
    """In a clique of 40 on 40 brokers everybody's friends are everywhere, however they are placed."""
    ties: list[Event] = [{"user_a": a, "user_b": b} for a in range(40) for b in range(a)]
    write_events(tmp_path / "f.jsonl", ties)
    table = {"friends": "f.jsonl", "brokers": 40, "reached_share": 0.1, "crowding": 1}
    with pytest.raises(
        InputError, match=r"reached_share: .* cannot come to 0.1, the nearest is 0\.\d+"
    ):
        make_workload("social", table, folder=tmp_path)


def test_placing_with_friends_reaches_fewer_brokers_and_crowds_none() -> None:
    table = {"users": 2_000, "subscriptions": 20_000, "drawn_interactions": 2_000, "brokers": 40}
    lot, near = (
        make_workload("social", table | {"reached_share": share, "crowding": 1.5})
        for share in (0, 0.16)
    )
    by_lot, by_friends = (measure(one, publications=2_000).brokers_reached for one in (lot, near))
    assert by_friends == pytest.approx(0.16 * 40, abs=0.5) and by_lot > 1.3 * by_friends
    users: dict[int | None, set[str]] = {}
    for one in near.subscribers:
        users.setdefault(one.broker, set()).add(one.group)
    assert max(map(len, users.values())) <= 1.5 * 2_000 / 40 + 1


def test_a_drawn_graph_has_circles_and_stars() -> None:
    graph = draw_friends(1_000, 6_000, Random(3))
    degrees = sorted(map(len, graph.values()))
    assert sum(degrees) == 12_000 and degrees[-1] > 5 * degrees[len(degrees) // 2]
    inside = sum(user // 50 == friend // 50 for user in graph for friend in graph[user])
    assert 0.7 < inside / 12_000 < 0.95
    assert all(
        one.recipient in graph[one.sender] for one in draw_interactions(graph, 200, Random(1))
    )


def test_more_ties_than_users_can_have() -> None:
    with pytest.raises(InputError, match="give more users"):
        draw_friends(10, 40, Random(1))
