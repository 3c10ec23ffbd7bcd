"""What a broker answers when it is asked, joined to others in memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
import pytest

from runnel.broker.gauges import Gauges
from runnel.broker.links import Link, LinkConfig
from runnel.broker.module import Module
from runnel.broker.questions import Answers, Question
from runnel.modules.inspection.messages import Answer, Ask, split_answer
from runnel.modules.inspection.module import Inspection
from runnel.modules.inspection.questions import Route, Status, StoryOf, Subscriptions, TableRows
from runnel.modules.placement.questions import Publishers
from runnel.wire import Listens
from support.door import Door
from support.harness import StepNetwork

YHOO: dict[str, Any] = {"symbol": "YHOO", "volume": 7}


def put(door: Door, question: Question) -> dict[str, Any]:
    argument = msgspec.Raw(msgspec.msgpack.encode(question))
    return raw_put(door, question.asked_as, argument)


def raw_put(door: Door, question: str, argument: msgspec.Raw) -> dict[str, Any]:
    door.got.pop(99, None)
    if not any(link.name == "asker" for link in door.broker.links.values()):
        door.connect(99, "asker", "operator")
    door.arrive(99, Ask(5, question, argument))
    answers = [frame for frame in door.received(99) if isinstance(frame, Answer)]
    assert answers and all(answer.token == 5 for answer in answers)
    assert [answer.more for answer in answers] == [True] * (len(answers) - 1) + [False]
    found: dict[str, Any] = msgspec.msgpack.decode(b"".join(a.body for a in answers))
    return found


def chain() -> StepNetwork:
    network = StepNetwork()
    for name, dials in (("B1", ["B2"]), ("B2", ["B3"]), ("B3", [])):
        at = f"runnel://{name}:1"
        network.broker(name, *dials, modules=(Inspection(at),), address=at)
    network.advance(2_000_000_000)
    return network


def ask(network: StepNetwork, broker: str, question: Question) -> dict[str, Any]:
    """Ask through the module itself; the harness checks the broker's invariants all along."""
    answered: dict[str, Any] = (
        network.nodes[broker]
        .modules["inspection"]
        ._answer(
            network.nodes[broker],
            Link("asker", "operator", 0, 1, LinkConfig(), 0, {}),
            Ask(1, question.asked_as, msgspec.Raw(msgspec.msgpack.encode(question))),
            network.now,
        )
    )
    return answered


def test_status_tells_of_links_and_tables_but_not_of_who_asks() -> None:
    door = Door(modules=(Inspection("runnel://here:1"),))
    door.connect(1, "alice")
    status = put(door, Status())
    assert (status["name"], status["address"]) == ("B", "runnel://here:1")
    assert [(link["name"], link["kind"], link["up"]) for link in status["links"]] == [
        ("alice", "client", True)
    ]
    put(door, TableRows())
    assert put(door, Status())["meter"]["messages_in"]["Ask"] >= 2


def test_status_tells_what_the_driver_measures() -> None:
    told = Gauges(cpu_ns=7, memory_bytes=1 << 20, waiting_publications=3)
    door = Door(modules=(Inspection("runnel://here:1"),), gauges=lambda: told)
    door.connect(1, "alice")
    assert put(door, Status())["gauges"] == asdict(told)


def test_neighbours_tell_each_other_where_they_listen() -> None:
    network = chain()
    links = {link["name"]: link["address"] for link in ask(network, "B2", Status())["links"]}
    assert links == {"B1": "runnel://B1:1", "B3": "runnel://B3:1"}


def test_clients_are_not_told_where_brokers_listen() -> None:
    network = chain()
    network.session("alice", "B1")
    assert network.of_kind("B1", "B2", Listens)
    assert not network.of_kind("B1", "alice", Listens)


def test_status_counts_publications_per_link() -> None:
    network = chain()
    network.subscriber("alice", "B3", "volume > 5")
    publisher, id = network.publisher("quotes", "B1", "volume > 0")
    for volume in (3, 7, 9):
        publisher.publish(id, {"volume": volume})
    network.settle()
    links = {link["name"]: link for link in ask(network, "B2", Status())["links"]}
    assert (links["B1"]["publications_in"], links["B3"]["publications_out"]) == (2, 2)
    assert (links["B1"]["publications_out"], links["B3"]["publications_in"]) == (0, 0)


def test_route_names_next_hops_and_who_wants_it() -> None:
    network = chain()
    network.publisher("quotes", "B1", "symbol = 'YHOO'")
    network.subscriber("alice", "B3", "volume > 5")
    at_b1 = ask(network, "B1", Route(YHOO, "quotes"))
    assert [hop["name"] for hop in at_b1["hops"]] == ["B2"]
    assert [row["publisher"] for row in at_b1["advertised_by"]] == ["quotes"]
    at_b3 = ask(network, "B3", Route(YHOO, "B2"))
    assert [(hop["name"], hop["kind"]) for hop in at_b3["hops"]] == [("alice", "client")]
    assert [row["filter"] for row in at_b3["wanted_by"]] == ["volume > 5"]


def test_asking_for_a_route_sends_and_counts_nothing() -> None:
    network = chain()
    network.publisher("quotes", "B1", "symbol = 'YHOO'")
    network.subscriber("alice", "B1", "volume > 5")
    before = network.nodes["B1"].meter.copy()
    assert ask(network, "B1", Route(YHOO, "quotes"))["hops"]
    network.settle()
    assert network.nodes["B1"].meter.publications_in == before.publications_in
    assert network.delivered("alice") == []


def test_a_route_never_leads_back_to_the_broker_it_comes_from() -> None:
    network = chain()
    network.publisher("quotes", "B3", "symbol = 'YHOO'")
    network.subscriber("alice", "B1", "volume > 5")
    assert [hop["name"] for hop in ask(network, "B2", Route(YHOO, "B3"))["hops"]] == ["B1"]
    assert ask(network, "B2", Route(YHOO, "B1"))["hops"] == []


def test_subscriptions_of_a_client_say_which_predicate_fails() -> None:
    network = chain()
    network.subscriber("alice", "B3", "symbol = 'YHOO' AND volume > 10")
    [row] = ask(network, "B3", Subscriptions("alice", YHOO))["subscriptions"]
    assert not row["matches"]
    [[failure]] = row["failures"]
    assert (failure["predicate"], failure["value"]) == ("volume > 10", 7)


def test_tables_can_be_asked_for_one_peer_and_in_part() -> None:
    network = chain()
    network.subscriber("alice", "B3", "volume > 10")
    network.subscriber("bob", "B3", "volume > 20")
    mine = ask(network, "B3", TableRows(peer="alice"))
    assert [row["filter"] for row in mine["subscriptions"]] == ["volume > 10"]
    part = ask(network, "B3", TableRows(rows_max=1))
    assert (len(part["subscriptions"]), part["subscriptions_in_all"]) == (1, 2)


def test_a_story_is_told_where_stories_are_kept() -> None:
    network = StepNetwork()
    network.broker("B1", modules=(Inspection(),), tell_stories=True)
    publisher, id = network.publisher("quotes", "B1", "volume > 0")
    publication = publisher.publish(id, {"volume": 7})
    network.settle()
    lines = ask(network, "B1", StoryOf(*publication.identity))["lines"]
    assert len(lines) == 1 and "quotes published" in lines[0]


def test_a_neighbour_that_was_lost_is_remembered_until_it_is_back() -> None:
    network = chain()
    assert ask(network, "B2", Status())["gone"] == []
    network.cut("B1", "B2")
    network.crash("B1")
    network.advance(60_000_000_000)
    put_now = ask(network, "B2", Status())
    assert [link["name"] for link in put_now["links"]] == ["B3"]
    assert [(one["name"], one["address"]) for one in put_now["gone"]] == [("B1", "runnel://B1:1")]


@pytest.mark.parametrize(
    ("question", "argument", "said"),
    [
        ("weather", {}, "there is no question 'weather'"),
        ("route", {"event": {"a": [1]}}, "route: "),
        ("route", {"event": {"a": 1}, "from": "x"}, "unknown field `from`"),
        ("route", {"event": {"a": 1}, "peer": "nobody"}, "has no link to 'nobody'"),
        ("subscriptions", {"client": "nobody"}, "has no client 'nobody'"),
        ("story", {"id": 4}, "keeps no stories"),
        ("tables", {"rows_max": 10**9}, "rows_max"),
    ],
)
def test_nonsense_is_answered_with_an_error(question: str, argument: Any, said: str) -> None:
    door = Door(modules=(Inspection(),))
    answer = raw_put(door, question, msgspec.Raw(msgspec.msgpack.encode(argument)))
    assert said in answer["error"]
    assert not door.closed


def test_a_long_answer_comes_in_pieces() -> None:
    door = Door(modules=(Inspection(),))
    door.connect(1, "alice")
    for number in range(1100):
        name = f"client-{number}-" + "x" * 200
        door.connect(100 + number, name)
    status = put(door, Status())
    assert (len(status["links"]), status["clients"]) == (1000, 1101)
    assert len(split_answer(1, status)) > 1


class Answering(Module):
    name = "answering"

    def answers(self) -> Answers:
        return {
            Publishers: lambda context, asked, now: {"here": context.name, "of": asked.publisher}
        }


def test_what_nobody_answers_is_no_question() -> None:
    """A broker without placement is not asked about it; one with it answers by itself."""
    assert (
        "there is no question 'publishers'"
        in put(Door(modules=(Inspection(),)), Publishers())["error"]
    )
    door = Door(modules=(Inspection(), Answering()))
    assert put(door, Publishers("quotes")) == {"here": "B", "of": "quotes"}


def test_an_argument_that_is_no_text_is_an_error_and_no_more() -> None:
    door = Door(modules=(Inspection(),))
    answer = raw_put(door, "tables", msgspec.Raw(b"\x81\xa4peer\xa1\x92"))
    assert answer["error"].startswith("tables: ") and not door.closed
