"""The worked example of balance §2.3 and Fig. 3, step by step on real brokers.

           publisher (a>1)
                │
               B1
                │
               B2
              /  \\
    sub2 (a>9)    sub1 (a>5)
         at B3    at B4
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from runnel.client.session import Session
from runnel.language import Filter, parse
from runnel.routing.tree import TreeConfig
from runnel.wire import (
    Advertise,
    Publication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    decode_selection,
)
from support.harness import StepNetwork

BROKERS = ("B1", "B2", "B3", "B4")
LINKS = (("B1", "B2"), ("B2", "B3"), ("B2", "B4"))
BOTH_WAYS = LINKS + tuple((b, a) for a, b in LINKS)


@dataclass(slots=True)
class BalanceFigure3:
    """The network of the figure, and who is connected to it."""

    net: StepNetwork
    publisher: Session
    sub1: Session
    sub2: Session
    advertised: int = 0
    subscribed1: int = 0
    subscribed2: int = 0

    def step_1(self) -> None:
        """The publisher advertises a>1 to B1."""
        self.advertised = self.publisher.advertise("publisher", parse("[a,>,1]"))
        self.net.settle()

    def step_2(self) -> None:
        """sub1 issues its subscription a>5 to B4."""
        self.subscribed1 = self.sub1.subscribe(parse("[a,>,5]"))
        self.net.settle()

    def step_3(self) -> None:
        """sub2 issues its subscription a>9 to B3."""
        self.subscribed2 = self.sub2.subscribe(parse("[a,>,9]"))
        self.net.settle()

    def step_4(self, *values: int) -> None:
        """The publisher publishes."""
        for value in values:
            self.publisher.publish(self.advertised, {"a": value})
        self.net.settle()

    def messages(self, *kinds: type) -> dict[tuple[str, str], list[str]]:
        """What went over the links between brokers: kinds and filters, in order, link by link."""
        found = {
            link: [describe(f) for f in self.net.between(*link) if not kinds or type(f) in kinds]
            for link in BOTH_WAYS
        }
        return {link: frames for link, frames in found.items() if frames}

    def prt(self, broker: str) -> list[tuple[str, str]]:
        """A publication routing table as the figure shows it: next hop and filter."""
        rows = self.net.nodes[broker].tables.prt.values()
        return sorted((row.link.name, text(row.selection)) for row in rows)

    def srt(self, broker: str) -> list[tuple[str, str]]:
        rows = self.net.nodes[broker].tables.srt.values()
        return sorted((row.link.name, text(row.selection)) for row in rows)


def text(selection: object) -> str:
    assert isinstance(selection, Filter)
    return " and ".join(f"{p.attribute}{p.op.value}{p.value}" for p in selection.predicates)


def describe(frame: object) -> str:
    if isinstance(frame, (Advertise, Subscribe)):
        return f"{type(frame).__name__} {text(decode_selection(frame.selection))}"
    if isinstance(frame, Publication):
        return f"Publication a={frame.attributes['a']}"
    return type(frame).__name__


def make_figure(tree: TreeConfig | None = None) -> BalanceFigure3:
    net = StepNetwork(tree or TreeConfig())
    for name in reversed(BROKERS):
        net.broker(name, *(b for a, b in LINKS if a == name))
    net.settle()
    clients = [net.session(n, at) for n, at in (("pub", "B1"), ("sub1", "B4"), ("sub2", "B3"))]
    net.forget_sent()
    return BalanceFigure3(net, *clients)  # type: ignore[arg-type]


@pytest.fixture
def figure() -> BalanceFigure3:
    return make_figure()


def test_step_1_the_advertisement_is_flooded_to_all_brokers(figure: BalanceFigure3) -> None:
    figure.step_1()
    assert figure.messages() == {link: ["Advertise a>1"] for link in LINKS}
    assert figure.srt("B1") == [("pub", "a>1")]
    assert figure.srt("B2") == [("B1", "a>1")]
    assert figure.srt("B3") == figure.srt("B4") == [("B2", "a>1")]
    # "Subscribers never receive advertisements"
    assert figure.net.between("B4", "sub1") == figure.net.between("B3", "sub2") == []


def test_step_2_a_subscription_takes_the_reverse_path(figure: BalanceFigure3) -> None:
    figure.step_1()
    figure.net.forget_sent()
    figure.step_2()
    assert figure.messages() == {("B4", "B2"): ["Subscribe a>5"], ("B2", "B1"): ["Subscribe a>5"]}
    assert figure.prt("B4") == [("sub1", "a>5")]
    assert figure.prt("B2") == [("B4", "a>5")]
    assert figure.prt("B1") == [("B2", "a>5")]
    assert figure.prt("B3") == []
    # "the publisher does not receive the subscription"
    assert figure.net.between("B1", "pub") == []


def test_step_3_a_covered_subscription_stops_at_b2(figure: BalanceFigure3) -> None:
    figure.step_1()
    figure.step_2()
    figure.net.forget_sent()
    figure.step_3()
    assert figure.messages() == {("B3", "B2"): ["Subscribe a>9"]}


def test_step_4_publications_reach_both_by_the_tables_of_the_figure(figure: BalanceFigure3) -> None:
    figure.step_1()
    figure.step_2()
    figure.step_3()
    assert figure.prt("B1") == [("B2", "a>5")]
    assert figure.prt("B2") == [("B3", "a>9"), ("B4", "a>5")]
    assert figure.prt("B3") == [("sub2", "a>9")]
    assert figure.prt("B4") == [("sub1", "a>5")]
    figure.net.forget_sent()
    figure.step_4(3, 6, 10)
    assert figure.net.delivered("sub1") == [6, 10]
    assert figure.net.delivered("sub2") == [10]
    # Nobody carries what nobody wants, and each link carries a publication once.
    assert figure.messages() == {
        ("B1", "B2"): ["Publication a=6", "Publication a=10"],
        ("B2", "B3"): ["Publication a=10"],
        ("B2", "B4"): ["Publication a=6", "Publication a=10"],
    }


def all_set_up(tree: TreeConfig | None = None) -> BalanceFigure3:
    figure = make_figure(tree)
    figure.step_1()
    figure.step_2()
    figure.step_3()
    figure.net.forget_sent()
    return figure


def test_unsubscription_b2_sends_sub2_before_it_withdraws_sub1() -> None:
    figure = all_set_up()
    figure.sub1.unsubscribe(figure.subscribed1)
    figure.net.settle()
    assert figure.messages() == {
        ("B4", "B2"): ["Unsubscribe"],
        ("B2", "B1"): ["Subscribe a>9", "Unsubscribe"],
    }
    assert figure.prt("B1") == [("B2", "a>9")]
    assert figure.prt("B2") == [("B3", "a>9")]
    assert figure.prt("B3") == [("sub2", "a>9")]
    assert figure.prt("B4") == []


def test_unsubscription_interrupts_nothing() -> None:
    figure = all_set_up()
    net, value = figure.net, 10
    figure.sub1.unsubscribe(figure.subscribed1)
    net.flush()
    going = True
    while going:  # a publication sets out between any two things that happen
        if figure.publisher.credit and value < 30:
            figure.publisher.publish(figure.advertised, {"a": value})
            net.flush()
            value += 1
        going = net.step()
    assert value == 30
    assert net.delivered("sub2") == list(range(10, 30))


def test_unsubscription_of_the_covered_one_stays_between_b3_and_b2() -> None:
    figure = all_set_up()
    figure.sub2.unsubscribe(figure.subscribed2)
    figure.net.settle()
    assert figure.messages() == {("B3", "B2"): ["Unsubscribe"]}
    figure.step_4(10)
    assert figure.net.delivered("sub1") == [10]
    assert figure.net.delivered("sub2") == []


def test_unadvertisement_takes_every_subscription_back_to_its_own_broker() -> None:
    figure = all_set_up()
    figure.publisher.unadvertise(figure.advertised)
    figure.net.settle()
    assert figure.messages(Unadvertise) == {link: ["Unadvertise"] for link in LINKS}
    assert all(figure.srt(broker) == [] for broker in BROKERS)
    assert figure.prt("B1") == figure.prt("B2") == []
    assert figure.prt("B3") == [("sub2", "a>9")]
    assert figure.prt("B4") == [("sub1", "a>5")]


def test_the_order_of_subscribing_does_not_matter_to_who_gets_what() -> None:
    figure = make_figure()
    figure.step_3()
    figure.step_2()
    assert figure.messages() == {}, "without a publisher, no subscription leaves its broker"
    figure.step_1()
    figure.step_4(3, 6, 10)
    assert figure.net.delivered("sub1") == [6, 10]
    assert figure.net.delivered("sub2") == [10]


def test_everybody_leaves_and_nothing_is_left() -> None:
    figure = all_set_up()
    for session in (figure.sub1, figure.publisher, figure.sub2):
        session.close()
        figure.net.settle()
    assert all(figure.srt(broker) == figure.prt(broker) == [] for broker in BROKERS)


# -- the two switches --------------------------------------------------------------------------------------


def test_covering_off_sub2_goes_all_the_way() -> None:
    figure = make_figure(TreeConfig(covering=False))
    figure.step_1()
    figure.step_2()
    figure.net.forget_sent()
    figure.step_3()
    assert figure.messages() == {("B3", "B2"): ["Subscribe a>9"], ("B2", "B1"): ["Subscribe a>9"]}
    assert figure.prt("B1") == [("B2", "a>5"), ("B2", "a>9")]
    figure.net.forget_sent()
    figure.step_4(3, 6, 10)
    assert figure.net.delivered("sub1") == [6, 10]
    assert figure.net.delivered("sub2") == [10]
    # Two subscriptions behind one hop, and still the link carries a publication once.
    assert figure.messages()["B1", "B2"] == ["Publication a=6", "Publication a=10"]


def test_covering_off_unsubscription_brings_nothing_with_it() -> None:
    figure = all_set_up(TreeConfig(covering=False))
    figure.sub1.unsubscribe(figure.subscribed1)
    figure.net.settle()
    assert figure.messages() == {("B4", "B2"): ["Unsubscribe"], ("B2", "B1"): ["Unsubscribe"]}
    assert figure.prt("B1") == [("B2", "a>9")]


def test_without_advertisements_subscriptions_go_everywhere() -> None:
    figure = make_figure(TreeConfig(advertisements=False))
    figure.step_2()
    assert figure.messages() == {
        ("B4", "B2"): ["Subscribe a>5"],
        ("B2", "B1"): ["Subscribe a>5"],
        ("B2", "B3"): ["Subscribe a>5"],
    }
    figure.net.forget_sent()
    figure.step_3()
    # B2 keeps sub2 back from B1, which has sub1's from it already; B4 had nothing from B2 yet.
    assert figure.messages() == {("B3", "B2"): ["Subscribe a>9"], ("B2", "B4"): ["Subscribe a>9"]}
    assert figure.prt("B1") == [("B2", "a>5")]
    assert figure.prt("B4") == [("B2", "a>9"), ("sub1", "a>5")]


def test_without_advertisements_publications_and_unsubscription_are_the_same() -> None:
    figure = make_figure(TreeConfig(advertisements=False))
    figure.step_2()
    figure.step_3()
    figure.step_1()
    figure.step_4(3, 6, 10)
    assert figure.net.delivered("sub1") == [6, 10]
    assert figure.net.delivered("sub2") == [10]
    figure.net.forget_sent()
    figure.sub1.unsubscribe(figure.subscribed1)
    figure.net.settle()
    assert figure.messages(Subscribe, Unsubscribe) == {
        ("B4", "B2"): ["Unsubscribe"],
        ("B2", "B1"): ["Subscribe a>9", "Unsubscribe"],
        ("B2", "B3"): ["Unsubscribe"],
    }
    figure.step_4(11)
    assert figure.net.delivered("sub2") == [10, 11]
    assert figure.net.delivered("sub1") == [6, 10]
