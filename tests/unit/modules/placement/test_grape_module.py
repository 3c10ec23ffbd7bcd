"""GRAPE's messages at one broker, and what it does when the network does not keep still."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.events import TimerFired
from runnel.language import parse
from runnel.modules.placement.config import PlacementConfig, PublisherSettings
from runnel.modules.placement.grape import Metric
from runnel.modules.placement.grape_module import UNANSWERED, Grape
from runnel.modules.placement.messages import SPAN, BrokerTrace, Ping, Pong, Tia, Tir, session_of
from runnel.modules.placement.placing import KEPT_MAX
from runnel.quantities import SECOND
from runnel.wire import (
    Advertise,
    PingAnswer,
    PingRequest,
    Publication,
    Subscribe,
    Unadvertise,
    make_publication,
    raw_selection,
)
from support.door import ALL, Door
from support.placed import PlacementWorld

UP, LEFT, ALICE = 1, 2, 4
FIRST = 100
SESSION = session_of(FIRST)


class GrapeDoor(Door):
    """A broker B: publisher P of advertisement 7 is upstream; Alice wants a > 0, the neighbour on the left all."""

    def __init__(self, **parameters: Any) -> None:
        self.grape = Grape(PlacementConfig(**parameters), address="here")
        super().__init__(modules=(self.grape,))
        self.connect(UP, "up", "broker")
        self.connect(LEFT, "left", "broker")
        self.connect(ALICE, "alice")
        self.arrive(UP, Advertise(7, ALL, "P", 9))
        self.arrive(LEFT, Subscribe(1, ALL, 9))
        self.arrive(ALICE, Subscribe(2, raw_selection(parse("a > 0")), 9))
        self.received(UP)

    def traced(self, *values: int, first: int = FIRST, session: int = SESSION) -> None:
        for n, value in enumerate(values):
            flags = session << 1
            self.arrive(UP, make_publication(7, first + n, {"a": value}, flags=flags, ttl=9))

    def messages_to(self, conn: int) -> list[Any]:
        """Requests and answers; link times are another matter."""
        return [frame for frame in self.received(conn) if isinstance(frame, (Tir, Tia))]

    def late(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)
        self.event(TimerFired("grape:deadline"))


def far(broker: str, bits: bytes = b"") -> BrokerTrace:
    return BrokerTrace(broker, "", bits, 3, 0, 0, 0, ())


def test_a_broker_asks_on_then_answers_for_all_and_forgets() -> None:
    door = GrapeDoor()
    door.traced(1, 0, 1)
    door.arrive(UP, Tir(7, SESSION, 3, 2))
    assert door.messages_to(LEFT) == [Tir(7, SESSION, 3, 3)] and door.messages_to(UP) == []
    door.arrive(LEFT, Tia(7, SESSION, (far("left"), far("further")), True))
    (answer,) = door.messages_to(UP)
    own, *others = answer.reports
    assert (own.broker, own.address, own.bits, own.deliveries) == ("B", "here", b"\x05", 2)
    assert [hop.broker for hop in own.hops] == ["up", "left"]
    assert others == [far("left"), far("further")] and answer.complete
    assert door.grape.session(7) is None and not door.grape._deadlines._until


def test_a_request_that_overtakes_the_session_waits_for_it() -> None:
    door = GrapeDoor()
    door.arrive(UP, Tir(7, SESSION, 3, 1))
    door.traced(1)
    assert door.messages_to(LEFT) == door.messages_to(UP) == []
    door.traced(1, 1, first=FIRST + 1)
    assert door.messages_to(LEFT) == [Tir(7, SESSION, 3, 2)], "as many as were sent on"
    door.arrive(LEFT, Tia(7, SESSION, (), True))
    (answer,) = door.messages_to(UP)
    assert answer.reports[0].bits == b"\x07"


def test_a_publication_of_a_session_that_was_answered_is_no_part_of_it() -> None:
    door = GrapeDoor()
    door.traced(1)
    door.arrive(UP, Tir(7, SESSION, 1, 1))
    door.traced(1, first=FIRST + 1)
    door.arrive(LEFT, Tia(7, SESSION, (), True))
    (answer,) = door.messages_to(UP)
    assert answer.reports[0].bits == b"\x01"


def test_a_new_session_takes_the_place_of_the_old() -> None:
    door = GrapeDoor()
    door.traced(1, 1, 1)
    door.traced(1, first=200, session=session_of(200))
    door.arrive(UP, Tir(7, session_of(200), 1, 1))
    door.arrive(LEFT, Tia(7, SESSION, (far("old"),), True), Tia(7, session_of(200), (), True))
    (answer,) = door.messages_to(UP)
    assert answer.reports[0].bits == b"\x01" and len(answer.reports) == 1


def test_whoever_does_not_answer_spoils_the_session() -> None:
    door = GrapeDoor(answer_timeout_s=10)
    door.traced(1)
    door.arrive(UP, Tir(7, SESSION, 1, 1))
    door.late(7.9)
    assert door.messages_to(UP) == []
    door.late(0.2)
    (answer,) = door.messages_to(UP)
    assert not answer.complete and len(answer.reports) == 1
    door.arrive(LEFT, Tia(7, SESSION, (), True))
    assert door.messages_to(UP) == []


def test_publications_that_never_come_spoil_it_too() -> None:
    door = GrapeDoor(answer_timeout_s=10)
    door.traced(1)
    door.arrive(UP, Tir(7, SESSION, 5, 0))
    door.late(10)
    (answer,) = door.messages_to(UP)
    assert not answer.complete and door.messages_to(LEFT) == []


def test_only_those_who_were_asked_are_heard() -> None:
    door = GrapeDoor()
    door.traced(1)
    door.arrive(UP, Tir(7, SESSION, 1, 1), Tia(7, SESSION, (far("up"),), True))
    assert door.messages_to(UP) == []
    door.arrive(LEFT, Tia(7, SESSION, (far("left"),), True))
    (answer,) = door.messages_to(UP)
    assert [report.broker for report in answer.reports] == ["B", "left"]


def test_a_link_is_measured_by_one_ping_after_the_other() -> None:
    door = GrapeDoor(ping_samples=2)
    door.now = 50
    door.traced(1, 1)
    assert [frame for frame in door.received(LEFT) if isinstance(frame, Ping)] == [Ping(50)]
    door.now = 90
    door.arrive(LEFT, Pong(49))
    assert door.received(LEFT) == [], "an answer to another question"
    door.arrive(LEFT, Pong(50))
    assert door.received(LEFT) == [Ping(90)]
    door.now = 120
    door.arrive(LEFT, Pong(90), Pong(90))
    assert door.received(LEFT) == []
    door.arrive(UP, Tir(7, SESSION, 2, 1))
    door.arrive(LEFT, Tia(7, SESSION, (), True))
    (answer,) = door.messages_to(UP)
    assert [hop.link_ns for hop in answer.reports[0].hops] == [0, 15], "half of the shorter one"


def test_one_that_cannot_answer_spoils_it_for_all() -> None:
    door = GrapeDoor()
    door.traced(1)
    door.arrive(UP, Tir(7, SESSION, 1, 1))
    door.arrive(LEFT, Tia(7, SESSION, (), False))
    assert [answer.complete for answer in door.messages_to(UP)] == [False]


def test_a_lost_link_has_nothing_to_say_and_spoils_nothing() -> None:
    door = GrapeDoor()
    door.traced(1)
    door.arrive(UP, Tir(7, SESSION, 1, 1))
    door.connect(20, "left", "broker")  # it has lost its memory
    (answer,) = door.messages_to(UP)
    assert answer.complete and [hop.broker for hop in answer.reports[0].hops] == ["up"]


def test_an_answer_for_an_advertisement_that_is_not_known() -> None:
    door = GrapeDoor()
    door.arrive(UP, Tir(99, 5, 1, 1))
    assert door.messages_to(UP) == [Tia(99, 5, (), False)]
    door.arrive(LEFT, Tir(7, SESSION, 1, 1))
    assert door.messages_to(LEFT) == [Tia(7, SESSION, (), False)], "the publisher is not there"


@pytest.mark.parametrize(
    "message", [Tia(7, SESSION, (), True), Tia(9, 1, (far("x"),), True), Pong(5), Ping(5)]
)
def test_strange_messages_do_nothing(message: Any) -> None:
    door = GrapeDoor()
    door.traced(1)
    for conn in (UP, LEFT):
        door.arrive(conn, message)
        assert not door.closed
        assert door.messages_to(conn) == []
    door.arrive(ALICE, message)
    assert list(door.closed) == [ALICE], "clients have no part in this"


def test_everything_goes_with_the_advertisement() -> None:
    door = GrapeDoor()
    door.traced(1)
    door.arrive(UP, Tir(7, SESSION, 1, 1), Unadvertise(7))
    assert door.grape.session(7) is None and not door.grape._deadlines._until
    door.traced(1)
    assert door.grape.session(7) is None, "nor is it begun anew"


def test_nothing_grows_for_ever() -> None:
    door = GrapeDoor()
    for id in range(1_000, 1_000 + KEPT_MAX + 5):
        door.arrive(UP, Advertise(id, ALL, "P", 0), make_publication(id, 1, {}, flags=4))
    assert len(door.grape._sessions) == KEPT_MAX


# -- a publisher's broker ------------------------------------------------------------------------------


def publishers_door(**parameters: Any) -> GrapeDoor:
    """A publisher Q of advertisement 8 at B."""
    door = GrapeDoor(algorithm="grape", **parameters)
    door.connect(5, "Q")
    door.arrive(5, Advertise(8, ALL, "Q", 9))
    door.received(LEFT)
    return door


def publish(door: GrapeDoor, *counters: int) -> list[int]:
    """Publish in one go; the sessions, as they are on the frames that leave."""
    door.arrive(5, *(make_publication(8, counter, {"a": 1}) for counter in counters))
    frames = door.received(LEFT)
    return [frame.flags >> 1 for frame in frames if isinstance(frame, Publication)]


def test_a_session_is_g_threshold_consecutive_publications_and_never_two_at_once() -> None:
    door = publishers_door(g_threshold=3)
    assert publish(door, 1, 2, 3, 4, 5) == [session_of(1)] * 3 + [0, 0]
    assert publish(door, 6) == [0], "the first is not decided yet"
    door.arrive(LEFT, Tia(8, session_of(1), (), True))
    assert publish(door, 7, 8) == [session_of(7)] * 2
    assert [trace.data["publications"] for trace in door.traces if trace.kind == "placement"] == [3]


def test_a_session_that_nobody_answers_is_given_up_and_another_begins() -> None:
    door = publishers_door(g_threshold=2, answer_timeout_s=10)
    assert publish(door, 1, 2) == [session_of(1)] * 2
    door.late(9.9)
    assert publish(door, 3) == [0]
    door.late(0.1)
    assert publish(door, 4) == [session_of(4)]
    outcomes = [trace.data["outcome"] for trace in door.traces if trace.kind == "placement"]
    assert outcomes == [UNANSWERED]


def test_a_gap_too_large_for_the_bit_vector_ends_a_session() -> None:
    door = publishers_door(g_threshold=10)
    assert publish(door, 5, 5 + SPAN - 1, 5 + SPAN) == [session_of(5)] * 2 + [0]
    door.arrive(LEFT, Tia(8, session_of(5), (far("left"),), True))
    assert publish(door, 5 + SPAN + 1) == [session_of(6)]
    (decided,) = [trace.data for trace in door.traces if trace.kind == "placement"]
    assert decided["publications"] == 2


def test_a_counter_that_goes_back_ends_a_session() -> None:
    door = publishers_door(g_threshold=10)
    assert publish(door, 50, 51) == [session_of(50)] * 2
    assert publish(door, 3) == [0]


# -- a network that does not keep still ----------------------------------------------------------------

LINKS = (("A", "B"), ("B", "C"), ("B", "D"), ("D", "E"))


def network(**parameters: Any) -> PlacementWorld:
    """P at A; E wants everything, C a little."""
    placed = PlacementWorld(LINKS, PlacementConfig("grape", **{"g_threshold": 10, **parameters}))
    placed.subscribers("E", 2)
    placed.subscribers("C", 1, "a < 3")
    placed.publisher("P", "A")
    return placed


def test_publications_in_one_go_are_all_counted() -> None:
    placed = network()
    placed.publish("P", range(10), every_s=0)
    (decided,) = placed.decisions("grape")
    assert (decided["load"], decided["load_there"]) == (4 * 10 + 3, 10 + 3 + 3 + 3)
    assert (decided["to"], decided["outcome"], decided["candidates"]) == ("E", "moves", 5)


def test_a_link_lost_in_the_middle_takes_what_was_behind_it() -> None:
    placed = network()
    placed.publish("P", range(5))
    placed.cut("D", "E")
    placed.run(15)
    placed.publish("P", range(5))
    (decided,) = placed.decisions("grape")
    assert decided["candidates"] == 4 and decided["outcome"] != UNANSWERED
    assert decided["to"] == "C", "the only subscriber that is left"


def test_a_link_lost_while_answers_are_under_way() -> None:
    placed = network()
    placed.publish("P", range(10), every_s=0, then_s=0.0045)  # E has the request
    placed.cut("D", "E")
    placed.run(15)
    assert [decided["outcome"] for decided in placed.decisions("grape")] == [UNANSWERED]
    placed.publish("P", range(10))
    assert placed.decisions("grape")[-1]["to"] == "C"
    assert all(not module._sessions for module in placed.grapes.values())


def test_a_broker_restarted_in_the_middle_takes_part_again() -> None:
    placed = network(answer_timeout_s=2)
    placed.publish("P", range(5))
    placed.world.crash(placed.world.hosts["D"])
    placed.run(1)
    placed.start("D")
    placed.run(15)
    placed.publish("P", range(25))
    assert placed.decisions("grape")[-1]["to"] == "E"


def test_subscribers_that_come_and_go_in_the_middle_count_for_what_they_got() -> None:
    placed = network()
    placed.publish("P", [5] * 5)
    placed.subscribers("A", 1)
    placed.publish("P", [5] * 5)
    (decided,) = placed.decisions("grape")
    assert decided["load"] == 10 + 10 + 10 + 10  # A, B, D, E
    assert decided["load_there"] == 10 + 5 + 5 + 5


def test_publishers_have_sessions_of_their_own_and_settings_of_their_own() -> None:
    config = PlacementConfig(
        publishers={
            "P": PublisherSettings("grape", "load", 100.0),
            "Q": PublisherSettings("grape", "delay", 100.0),
        },
        g_threshold=10,
    )
    placed = PlacementWorld(LINKS, config)
    placed.subscribers("E", 1)  # all of it, but one subscriber
    placed.subscribers("C", 5, "a < 5")  # half of it, five times
    for name in ("P", "Q"):
        placed.publisher(name, "A")
    for n in range(10):
        placed.publish("P", [n])
        placed.publish("Q", [n])
    assert {d["publisher"]: (d["metric"], d["to"]) for d in placed.decisions("grape")} == {
        "P": ("load", "E"),
        "Q": ("delay", "C"),
    }


@pytest.mark.parametrize(("least", "outcome"), [(0.0, "moves"), (30.0, "not worth a move")])
def test_a_small_gain_is_not_worth_a_move(least: float, outcome: str) -> None:
    """A and B both have everything: the load is the same, the delay a quarter less."""
    placed = PlacementWorld(
        (("A", "B"),), PlacementConfig("grape", g_threshold=4, gain_percent_min=least)
    )
    placed.subscribers("A", 3)
    placed.subscribers("B", 4)
    placed.publisher("P", "A")
    placed.publish("P", range(4))
    (decided,) = placed.decisions("grape")
    assert (decided["to"], decided["outcome"]) == ("B", outcome)
    assert decided["gain_percent"] == 25.0


@pytest.mark.parametrize(("to_b_ms", "best"), [(1.0, "B"), (50.0, "A")])
def test_the_publisher_measures_how_far_brokers_are(to_b_ms: float, best: str) -> None:
    """Most of it is wanted at B, but the publisher's own way there counts, too."""
    placed = PlacementWorld(
        (("A", "B"),),
        PlacementConfig("grape", g_threshold=4, metric="delay", gain_percent_min=0),
        latencies_ms={("P", "B"): to_b_ms},
    )
    placed.subscribers("A", 3)
    placed.subscribers("B", 6)
    placed.publisher("P", "A")
    placed.publish("P", range(4))
    (decided,) = placed.decisions("grape")
    assert decided["to"] == best
    assert placed.messages_in("PingAnswer") == {"A": 1}
    placed.publish("P", range(4))
    assert placed.messages_in("PingAnswer") == {"A": 1}, "it was measured a moment ago"


@pytest.mark.parametrize(
    ("metric", "weight", "asked"),
    [("load", 100.0, False), ("load", 50.0, True), ("delay", 1.0, True)],
)
def test_pings_are_asked_for_only_where_the_delay_matters(
    metric: Metric, weight: float, asked: bool
) -> None:
    config = PlacementConfig("grape", g_threshold=4, metric=metric, weight_percent=weight)
    placed = PlacementWorld((("A", "B"),), config)
    placed.subscribers("A", 3)
    placed.subscribers("B", 4)
    placed.publisher("P", "A")
    placed.publish("P", range(4))
    (decided,) = placed.decisions("grape")
    assert bool(placed.messages_in("PingAnswer")) is asked
    assert decided["pinged"] == (2 if asked else 0) and (decided["pings_s"] > 0) is asked
    assert decided["selection_s"] > 0


class PublisherDoor(Door):
    """A broker B with the publisher P of advertisement 7, and a neighbour that wants all."""

    def __init__(self) -> None:
        self.grape = Grape(PlacementConfig("grape", g_threshold=2, metric="delay"), address="here")
        super().__init__(modules=(self.grape,))
        self.connect(LEFT, "left", "broker")
        self.connect(ALICE, "alice")
        self.arrive(ALICE, Advertise(7, ALL, "P", 9))
        self.arrive(LEFT, Subscribe(1, ALL, 9))
        self.trace_session(1)

    def trace_session(self, first: int) -> PingRequest | None:
        """Publish a session, let the neighbour report, and return what the publisher is asked."""
        self.received(ALICE), self.received(LEFT)
        for counter in (first, first + 1):
            self.arrive(ALICE, make_publication(7, counter, {"a": 1}, ttl=9))
        session = session_of(first)
        report = BrokerTrace("left", "there", b"\x03", 2, 0, 0, 0, ())
        self.arrive(LEFT, Tia(7, session, (report,), True))
        asked = [frame for frame in self.received(ALICE) if isinstance(frame, PingRequest)]
        return asked[0] if asked else None

    @property
    def decided_for(self) -> str | None:
        decision = self.grape.decision(7)
        return decision.to if decision else None


def test_a_publisher_is_asked_and_an_answer_to_another_question_is_none() -> None:
    door = PublisherDoor()
    assert door.decided_for is None and door.grape.progress(7).is_deciding
    door.arrive(ALICE, PingAnswer(7, 99, (1, 1)))
    door.arrive(ALICE, PingAnswer(7, 1, (1,)))
    assert door.decided_for is None
    door.arrive(ALICE, PingAnswer(7, 1, (1, 10 * SECOND)))
    assert door.decided_for == "B", "left is nearer to who wants it, but ten seconds away"
    assert not door.grape.progress(7).is_deciding and not door.grape._deadlines._until


def test_a_publisher_that_does_not_answer_is_placed_without_its_times() -> None:
    door = PublisherDoor()
    door.now += 11 * SECOND
    door.event(TimerFired("grape:deadline"))
    assert door.decided_for == "left"
    assert door.trace_session(3) is not None, "it is asked again"
    door.arrive(ALICE, Unadvertise(7))
    assert not door.grape._undecided and not door.grape._deadlines._until


def test_nobody_wants_anything_and_nothing_happens() -> None:
    placed = PlacementWorld((("A", "B"),), PlacementConfig("grape", g_threshold=4))
    placed.publisher("P", "A")
    placed.publish("P", range(9))
    assert [(d["to"], d["outcome"]) for d in placed.decisions("grape")] == [("A", "stays")] * 2
    assert placed.messages_in("Tir") == {}
