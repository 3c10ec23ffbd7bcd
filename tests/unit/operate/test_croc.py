"""CROC: from what brokers answer to a plan document; and errors that say what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest

from runnel.errors import InputError, NetworkError, PeerError
from runnel.modules.profiles.messages import (
    Bia,
    BiaEnd,
    BrokerInfo,
    Piece,
    PublisherInfo,
    SubscriptionInfo,
    VectorInfo,
)
from runnel.operate.croc import Wait, plan_answers, remaining_wait
from runnel.operate.picture import Answers, make_picture
from runnel.planning.documents.constraints import Constraints
from runnel.planning.documents.plan import Owner, from_json, to_json
from runnel.planning.planner import PlanOptions
from runnel.quantities import SECOND

FULL = 100
SIZE = 10  # bytes of a publication


@dataclass
class Told:
    """Brokers that answer, one after the other: a chain B1 – B2 – …, each with so much output."""

    brokers: int = 3
    output: int = 1_000
    profiles: bool = True
    publications: int = FULL
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    _ids: int = 0

    def __post_init__(self) -> None:
        for n in range(1, self.brokers + 1):
            near = [f"B{m}" for m in (n - 1, n + 1) if 1 <= m <= self.brokers]
            told = BrokerInfo(
                f"runnel://10.0.0.{n}:7001", tuple(near), self.profiles, 1_280, self.output, 0, 0
            )
            self.pieces[f"B{n}"] = [Piece(told)]

    def client(self, name: str, broker: str) -> None:
        self.pieces[broker].append(Piece(clients=(name,)))

    def publisher(self, connection: str, broker: str, name: str = "p", **known: int) -> int:
        """One with 10 publications a second, on a connection that is told of elsewhere; its id."""
        self._ids += 1
        fields = {
            "epoch": 0,
            "publications": self.publications,
            "bytes": SIZE * self.publications,
            "window_ns": self.publications * SECOND // 10,
            "last": self.publications,
            **known,
        }
        told = PublisherInfo(fields.pop("id", self._ids), name, connection, **fields)
        self.pieces[broker].append(Piece(publishers=(told,)))
        return told.id

    def subscription(self, client: str, broker: str, *got: tuple[int, int]) -> None:
        """One with so many bits of each of these publishers, the newest."""
        self._ids += 1
        vectors = tuple(
            VectorInfo(
                id, 1, ((1 << count) - 1 << self.publications - count).to_bytes(200, "little")
            )
            for id, count in got
        )
        self.pieces[broker].append(
            Piece(subscriptions=(SubscriptionInfo(self._ids, client, vectors),))
        )

    def answers(self, random: Random | None = None) -> Answers:
        order = [(broker, piece) for broker, pieces in self.pieces.items() for piece in pieces]
        if random is not None:
            random.shuffle(order)
        answers = Answers()
        for broker, piece in order:
            assert not answers.take(Bia(1, broker, msgspec.msgpack.encode(piece)))
        assert answers.take(BiaEnd(1, self.missing))
        return answers


def small(**known: Any) -> Told:
    """A publisher at B1, and two subscribers of everything, at B2 and B3."""
    told = Told(**known)
    told.client("pub", "B1")
    id = told.publisher("pub", "B1")
    for n in (2, 3):
        told.client(f"c{n}", f"B{n}")
        told.subscription(f"c{n}", f"B{n}", (id, told.publications))
    return told


def test_a_plan_carries_all_that_carrying_it_out_needs() -> None:
    plan = plan_answers(small().answers())
    assert plan.subscriptions == {"c2": "B1", "c3": "B1", "pub": "B1"}
    assert plan.publishers == {"pub/p": "B1"}
    assert plan.owners == {"pub/p": Owner("pub", "p", "1")}
    assert plan.addresses == {f"B{n}": f"10.0.0.{n}:7001" for n in (1, 2, 3)}
    assert (plan.overlay, plan.links, plan.freed) == ({"B1": None}, [], ["B2", "B3"])
    assert plan.before["B1"].output_bytes_per_s == 100  # one copy, to B2
    assert plan.before["B2"].output_bytes_per_s == 200
    assert plan.after["B1"].output_bytes_per_s == 200
    assert (plan.after["B1"].output_ratio, plan.brokers_at_least) == (0.2, 1)
    assert plan.moved == ["c2", "c3"]
    assert from_json(to_json(plan)) == plan


def test_the_overlay_comes_as_pairs() -> None:
    plan = plan_answers(small().answers(), constraints=Constraints({"c2": "B2", "c3": "B3"}))
    linked = [broker for link in plan.links for broker in link]
    assert len(plan.links) == plan.brokers - 1 > 0
    assert {*plan.subscriptions.values(), *plan.publishers.values()} <= set(linked)


def test_the_order_of_answers_makes_no_difference() -> None:
    told = small()
    plans = {to_json(plan_answers(told.answers(Random(seed)))) for seed in range(10)}
    assert len(plans) == 1


def test_all_subscriptions_of_a_client_are_one_item() -> None:
    told = Told()
    told.client("pub", "B1")
    one, two = told.publisher("pub", "B1"), told.publisher("pub", "B1", "q")
    told.client("c", "B2")
    for got in ((one, 50), (one, 100), (two, 10)):
        told.subscription("c", "B2", got)
    network = make_picture(told.answers()).network
    assert (network.subscriptions, network.counts) == (("c",), (3,))
    [item] = network.items()
    assert item.profile == {0: (1 << 100) - 1, 1: (1 << 10) - 1 << 90}
    # It is sent once what two of its subscriptions want: 100 bytes a second of the one, 10 of the other.
    assert (item.need, item.count) == (110_000_000, 3)
    plan = plan_answers(told.answers())
    assert plan.subscriptions["c"] == plan.subscriptions["pub"]
    assert [load.subscriptions for load in plan.after.values()] == [3]


def test_a_publisher_that_roams_belongs_to_its_client() -> None:
    told = Told()
    told.client("alice", "B1")
    told.client("alice/quotes#2", "B3")
    id = told.publisher("alice/quotes#2", "B3", "quotes", epoch=1, publications=5, window_ns=SECOND)
    told.publisher("", "B1", "quotes", id=id)  # which B1 has known for longer
    told.client("bob/quotes", "B2")  # called so
    other = told.publisher("bob/quotes", "B2", "quotes")
    told.subscription("alice", "B1", (id, 100), (other, 100))
    picture = make_picture(told.answers())
    assert picture.homes == {"alice": "B1", "bob/quotes": "B2"}
    assert {name: owner.client for name, owner in picture.owners.items()} == {
        "alice/quotes": "alice",
        "bob/quotes/quotes": "bob/quotes",
    }
    assert picture.network.publisher_homes == ("B3", "B2")
    assert [one.rate for one in picture.network.publishers] == [10.0, 10.0]


def test_two_publishers_of_one_name_are_told_apart() -> None:
    told = small()
    told.publisher("pub", "B1")
    plan = plan_answers(told.answers())
    assert list(plan.publishers) == ["pub/p", "pub/p#2"]
    assert len({owner.advertisement for owner in plan.owners.values()}) == 2


def test_clients_without_a_subscription_go_along() -> None:
    told = small()
    told.client("idle", "B2")
    told.client("lost", "B1")
    plan = plan_answers(
        told.answers(), constraints=Constraints(pinned={"c2": "B3"}, excluded=("B1",))
    )
    home = plan.subscriptions["c2"]
    assert home == "B3" and plan.publishers == {"pub/p": "B3"}
    assert plan.subscriptions["pub"] == "B3"
    assert plan.subscriptions["idle"] == plan.subscriptions["lost"] == "B3"
    assert "3 clients without a subscription go along with their publishers" in plan.notes


def test_who_is_pinned_is_there() -> None:
    told = small()
    told.client("idle", "B1")
    pinned = {"c2": "B2", "pub": "B1", "idle": "B3"}
    plan = plan_answers(told.answers(), constraints=Constraints(pinned))
    assert {name: plan.subscriptions[name] for name in pinned} == pinned
    assert plan.publishers == {"pub/p": "B1"}
    plan = plan_answers(told.answers(), constraints=Constraints({"pub/p": "B3"}))
    assert plan.publishers == {"pub/p": "B3"}
    with pytest.raises(InputError, match="no client or publisher pub/x: did you mean pub/p or pub"):
        plan_answers(told.answers(), constraints=Constraints({"pub/x": "B3"}))
    with pytest.raises(InputError, match="names broker B9, which is not in the network"):
        plan_answers(told.answers(), constraints=Constraints({"c2": "B9"}))


def test_a_client_at_two_brokers_is_one_and_is_mentioned() -> None:
    told = small()
    told.client("c3", "B2")
    plan = plan_answers(told.answers())
    assert plan.notes[0].startswith("c3 is at B2 and at B3: it is moving")
    assert make_picture(told.answers()).homes["c3"] == "B3"  # where its subscription is


def test_brokers_on_standby_may_be_used() -> None:
    told = small(output=150)
    with pytest.raises(InputError):
        plan_answers(told.answers(), constraints=Constraints(excluded=("B3", "B2")))
    alone = Answers()
    for n in (2, 9):  # one of them is known already
        head = BrokerInfo(f"h{n}:1", (), True, 1_280, 5_000, 0, 0)
        alone.take(Bia(1, f"B{n}", msgspec.msgpack.encode(Piece(head))))
    alone.take(BiaEnd(1, ()))
    answers = told.answers()
    answers.join(alone)
    assert answers.brokers["B2"].output_bytes_per_s == 150
    plan = plan_answers(answers)
    assert plan.overlay == {"B9": None} and len(plan.before) == 3
    assert plan.addresses["B9"] == "h9:1"


# -- what may be missing ------------------------------------------------------------------------------


def test_who_has_not_answered_is_named_and_may_be_planned_without() -> None:
    told = small()
    told.missing = ("B7",)
    with pytest.raises(NetworkError, match=r"B7 does not answer.*plan without \(--exclude B7\)"):
        plan_answers(told.answers())
    assert plan_answers(told.answers(), constraints=Constraints(excluded=("B7",))).brokers == 1


def test_a_neighbour_of_whom_nothing_was_heard_is_missing() -> None:
    told = small()
    told.pieces.pop("B3")
    assert list(told.answers().missing) == ["B3"]


def test_profiles_must_be_on_everywhere() -> None:
    with pytest.raises(
        InputError, match=r"no broker keeps profiles: set enabled = true under \[pro"
    ):
        plan_answers(Told(profiles=False).answers())
    told = small()
    told.pieces["B3"] = Told(profiles=False).pieces["B3"]
    with pytest.raises(InputError, match="B3 keep no profiles"):
        plan_answers(told.answers())


def test_a_window_that_is_too_short_says_how_long_to_wait() -> None:
    answers = small(publications=40).answers()
    assert remaining_wait(make_picture(answers).network, 100) == Wait(6.0, "pub/p", 40)
    with pytest.raises(
        InputError, match=r"of pub/p 40 .* 100 are wanted. Ask again in 6 s.*ple 40"
    ):
        plan_answers(answers)
    assert plan_answers(answers, sample=40).brokers == 1


def test_a_slow_publisher_does_not_hold_up_a_plan() -> None:
    told = small()
    told.client("slow", "B1")
    id = told.publisher("slow", "B1", publications=2, bytes=20, window_ns=60 * SECOND, last=2)
    told._ids += 1
    vector = VectorInfo(id, 1, b"\x03")
    told.pieces["B2"].append(Piece(subscriptions=(SubscriptionInfo(told._ids, "c2", (vector,)),)))
    assert remaining_wait(make_picture(told.answers()).network, 100) is None


def test_without_traffic_there_is_nothing_to_plan_from() -> None:
    with pytest.raises(InputError, match="nobody has subscribed"):
        plan_answers(Told().answers())
    told = Told()
    told.client("c", "B1")
    told.subscription("c", "B1")
    with pytest.raises(InputError, match="nothing was delivered lately"):
        plan_answers(told.answers())


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(InputError, match="c2"):
        plan_answers(small(output=90).answers())
    plan = plan_answers(small(output=0).answers())
    assert any("no broker has a limit for its output" in note for note in plan.notes)


def test_publishers_that_have_left_do_not_count() -> None:
    told = small()
    told.subscription("c2", "B2", (999, 50))
    assert any(
        "1 publishers sent who have left" in note for note in plan_answers(told.answers()).notes
    )


def test_one_between_two_brokers_is_waited_for() -> None:
    told = small()
    told.publisher("", "B1", "going")
    with pytest.raises(NetworkError, match="going is just migrating: ask again"):
        plan_answers(told.answers())


def test_an_answer_that_makes_no_sense_is_the_brokers_mistake() -> None:
    with pytest.raises(PeerError, match="B1 answered something malformed"):
        Answers().take(Bia(1, "B1", b"\xc1"))


@pytest.mark.parametrize("algorithm", ["FBF", "BIN PACKING", "CRAM-IOU", "MANUAL"])
def test_every_algorithm_plans_clients(algorithm: str) -> None:
    plan = plan_answers(small().answers(), PlanOptions(algorithm))
    assert (plan.algorithm, set(plan.subscriptions)) == (algorithm, {"c2", "c3", "pub"})
