"""Every rule holds on every way by which a publication, a subscription or a client can come to a broker."""

from __future__ import annotations

from itertools import product

import pytest

from runnel.broker.access import BY_RULE, UNKNOWN
from runnel.broker.broker import REVOKED
from runnel.broker.events import AccessChanged
from runnel.broker.permits import Quota
from runnel.client.effects import Deliver, MoveGivenUp
from runnel.client.migration import MigrationStep
from runnel.language import Attributes, parse
from runnel.quantities import SECOND
from runnel.wire import Stage
from support.guarded import (
    PUBLISHER,
    SUBSCRIBER,
    TRACED,
    WAYS,
    GuardedNetwork,
    migrate,
    permit,
    take,
)

MAY_ALL = permit(PUBLISHER, publish="TRUE"), permit(SUBSCRIBER, subscribe="TRUE")

SUBSCRIBE_RULES = ("a > 0", "a > 0 AND b = 1", "a > 5", "b = 1 OR b = 2")
SUBSCRIPTIONS = ("a > 0", "a > 7", "a > 0 AND b = 1", "b = 2 AND a > 9", "TRUE", "b = 3")
PUBLISH_RULES = ("a > 0", "a > 5", "a > 0 AND b = 1", "b = 1 OR b = 2")
EVENTS = ({"a": 3, "b": 1}, {"a": 9, "b": 1}, {"a": 9, "b": 2}, {"a": 9, "b": 3}, {"a": 6})


@pytest.mark.parametrize(("way", "rule"), [*product(WAYS, SUBSCRIBE_RULES)])
def test_a_subscription_is_taken_if_the_rule_covers_it(way: str, rule: str) -> None:
    for text in SUBSCRIPTIONS:
        there = take(way, MAY_ALL[0], permit(SUBSCRIBER, subscribe=rule))
        rows = there.net.rows("prt")
        id = there.subscriber.subscribe(parse(text))
        there.net.settle()
        is_allowed = parse(rule).covers(parse(text))
        assert bool(there.net.refusals(SUBSCRIBER)) is not is_allowed, (rule, text)
        assert (id in there.subscriber.subscriptions) is is_allowed
        assert (there.net.rows("prt") > rows) is is_allowed
        there.publish(a=10, b=2)
        wanted = is_allowed and parse(text).matches({"a": 10, "b": 2})
        assert len(there.net.effects(SUBSCRIBER, Deliver)) == wanted


@pytest.mark.parametrize(("way", "rule"), [*product(WAYS, PUBLISH_RULES)])
def test_a_publication_is_taken_if_the_rule_matches_it(way: str, rule: str) -> None:
    there = take(way, permit(PUBLISHER, publish=rule), MAY_ALL[1])
    there.subscriber.subscribe(parse("TRUE"))
    there.net.settle()
    for event in EVENTS:
        there.publish(**event)
    allowed = [event for event in EVENTS if parse(rule).matches(event)]
    got = [one.publication.attributes for one in there.net.effects(SUBSCRIBER, Deliver)]
    assert got == allowed
    assert there.net.refused(there.publishing_as) == len(EVENTS) - len(allowed)
    assert there.net.nodes[there.home].meter.refused[BY_RULE] == len(EVENTS) - len(allowed)
    if way == "traced":
        check_trace(there.net, [(n, e) for n, e in enumerate(EVENTS, 1) if e in allowed])


def check_trace(net: GuardedNetwork, allowed: list[tuple[int, Attributes]]) -> None:
    """Both brokers have routed and recorded what was allowed, by counter and event, and nothing else."""
    events = [event for _, event in allowed]
    for broker in ("A#1", "B#1"):
        recorder = net.recorders[broker]
        assert recorder.routed_events == events, broker
        assert recorder.flags == [TRACED] * len(events)
    traced = net.traced_rows()
    assert traced["publications"] == [("A#1", event) for event in events]
    assert traced["deliveries"] == [("B#1", counter) for counter, _ in allowed]


@pytest.mark.parametrize("way", WAYS)
def test_an_advertisement_must_meet_a_rule(way: str) -> None:
    there = take(way, permit(PUBLISHER, publish="a > 0"), MAY_ALL[1])
    rows = there.net.rows("srt")
    session = there.publisher
    refused = session.advertise(PUBLISHER, parse("a < 0"))
    in_anothers_name = session.advertise("somebody", parse("a > 0"))
    taken = session.advertise(PUBLISHER, parse("TRUE"))
    there.net.settle()
    assert there.net.refusals(PUBLISHER) == [
        "p may publish only: a > 0",
        "p may not be called 'somebody' here; names it may have: p",
    ]
    assert not {refused, in_anothers_name} & set(session.publishers)
    assert taken in session.publishers
    assert there.net.rows("srt") > rows


@pytest.mark.parametrize("way", WAYS)
def test_who_has_no_rule_may_do_nothing(way: str) -> None:
    there = take(way, *MAY_ALL)
    there.net.permits |= {"nobody": permit("nobody")}
    for broker in ("at://A", "at://B"):
        there.net.nodes.pop("nobody", None)
        session = there.net.session("nobody", broker)
        for text in ("TRUE", "a > 0", "a > 0 AND a < 0"):
            assert session.subscribe(parse(text))
            assert session.advertise("nobody", parse(text))
        there.net.settle()
        assert not session.subscriptions and not session.publishers
        assert len(there.net.refusals("nobody")) == 6
        assert not there.net.denials("nobody")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("broker", ["at://A", "at://B"])
def test_who_is_nobody_is_not_let_in(way: str, broker: str) -> None:
    there = take(way, *MAY_ALL)
    stranger = there.net.session("stranger", broker)
    assert there.net.denials("stranger") == [UNKNOWN]
    assert stranger.home is None  # and does not come back
    there.net.advance(30 * SECOND)
    assert there.net.denials("stranger") == [UNKNOWN]


@pytest.mark.parametrize("way", WAYS)
def test_a_user_has_its_own_names_only(way: str) -> None:
    there = take(way, *MAY_ALL)
    net = there.net
    mallory = permit("mallory", subscribe="TRUE", publish="TRUE")
    net.elsewhere = {("bob", broker): mallory for broker in net.modules}
    for broker in ("at://A", "at://B"):
        net.nodes.pop("bob", None)
        net.session("bob", broker)
        assert net.denials("bob") == [
            "mallory may not be called 'bob' here; names it may have: mallory"
        ]


@pytest.mark.parametrize("way", WAYS)
def test_a_quota_holds_where_the_user_is(way: str) -> None:
    quota = Quota(subscriptions=2, predicates=2, connections=2)
    there = take(way, MAY_ALL[0], permit(SUBSCRIBER, subscribe="TRUE", quota=quota))
    for text in ("a > 1", "a > 1 AND a < 5 AND b = 1", "a > 2", "a > 3"):
        there.subscriber.subscribe(parse(text))
    there.net.settle()
    assert there.net.refusals(SUBSCRIBER) == [
        "a filter of s may have 2 predicates by its quota, and this has 3",
        "s has 2 subscriptions here, as many as its quota allows",
    ]
    first = next(iter(there.subscriber.subscriptions))
    there.subscriber.unsubscribe(first)
    there.net.settle()
    there.subscriber.subscribe(parse("a > 4"))
    there.net.settle()
    assert len(there.subscriber.subscriptions) == 2
    assert len(there.net.refusals(SUBSCRIBER)) == 2


@pytest.mark.parametrize("way", WAYS)
def test_what_is_revoked_is_gone_on_every_way(way: str) -> None:
    there = take(way, *MAY_ALL)
    net = there.net
    wide, narrow = (there.subscriber.subscribe(parse(text)) for text in ("a > 0", "a > 5"))
    net.settle()
    there.publish(a=7)
    assert len(net.effects(SUBSCRIBER, Deliver)) == 1
    net.permits = {
        PUBLISHER: permit(PUBLISHER, publish="a > 8"),
        SUBSCRIBER: permit(SUBSCRIBER, subscribe="a > 3"),
    }
    review(net)
    assert set(there.subscriber.subscriptions) == {narrow}
    assert len(net.refusals(SUBSCRIBER)) == 1 and wide not in there.subscriber.subscriptions
    there.publish(a=7)
    there.publish(a=9)
    assert [one.publication.attributes["a"] for one in net.effects(SUBSCRIBER, Deliver)] == [7, 9]
    assert net.refused(there.publishing_as) == 1
    net.permits = {}
    review(net)
    for session in (there.publishing_as, SUBSCRIBER):
        assert net.denials(session) == [REVOKED]
        assert net.nodes[session].home is None
    net.settle()
    net.advance(SECOND)
    assert net.rows("prt") == net.rows("srt") == 0


def review(net: GuardedNetwork) -> None:
    """Tell all brokers that the rules have changed."""
    for broker in net.modules:
        net.event(broker, AccessChanged(lambda one: net.permits.get(one.user)))
    net.settle()


# -- ways to a broker where a user may less ---------------------------------------------------------------


def test_a_move_to_a_broker_that_does_not_let_it_in_is_given_up_and_nothing_is_lost() -> None:
    there = take("forwarded", *MAY_ALL)
    there.net.elsewhere[SUBSCRIBER, "A#1"] = None
    there.subscriber.subscribe(parse("a > 0"))
    there.net.settle()
    there.subscriber.move_to("at://A", there.net.now)
    there.net.settle()
    assert there.net.effects(SUBSCRIBER, MoveGivenUp)
    there.publish(a=1)
    assert len(there.net.effects(SUBSCRIBER, Deliver)) == 1


def test_a_publisher_does_not_migrate_to_where_it_may_not_publish() -> None:
    for elsewhere in (None, permit(PUBLISHER), permit(PUBLISHER, publish="a < 0")):
        there = take("forwarded", *MAY_ALL)
        there.net.elsewhere[PUBLISHER, "B#1"] = elsewhere
        there.subscriber.subscribe(parse("a > 0"))
        there.net.settle()
        step = migrate(there.net, there.publisher, there.id, "at://B")
        assert step is MigrationStep.UNDONE
        there.net.advance(SECOND)
        there.publish(a=1)
        assert len(there.net.effects(SUBSCRIBER, Deliver)) == 1


def test_a_subscription_that_moves_is_looked_at_by_the_rules_of_its_new_home() -> None:
    there = take("forwarded", *MAY_ALL)
    there.net.elsewhere[SUBSCRIBER, "A#1"] = permit(SUBSCRIBER, subscribe="a > 5")
    for text in ("a > 0", "a > 6"):
        there.subscriber.subscribe(parse(text))
    there.net.settle()
    there.subscriber.move_to("at://A", there.net.now)
    there.net.settle()
    assert there.net.refusals(SUBSCRIBER) == ["s may subscribe only to what is within: a > 5"]
    there.publish(a=3)
    there.publish(a=7)
    got = [one.publication.attributes["a"] for one in there.net.effects(SUBSCRIBER, Deliver)]
    assert got == [7]


def test_the_next_generation_asks_again_who_one_is() -> None:
    there = take("forwarded", *MAY_ALL)
    there.net.elsewhere |= {(SUBSCRIBER, "A#2"): None, (SUBSCRIBER, "B#2"): None}
    there.net.goal(Stage.BOTH)
    assert there.net.denials(SUBSCRIBER) == [UNKNOWN]
    assert not there.net.denials(PUBLISHER)
