"""POP's messages at one broker, and what it does when the network does not keep still."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.broker.events import TimerFired
from runnel.errors import PeerError
from runnel.language import parse
from runnel.modules.placement.config import PlacementConfig, PublisherSettings
from runnel.modules.placement.messages import SUBSCRIBERS_MAX, TRACED, Ram, Rrm, Trm
from runnel.modules.placement.placing import KEPT_MAX, LESS_PER_HOP
from runnel.modules.placement.pop import LOCAL
from runnel.modules.placement.pop_module import Pop
from runnel.quantities import SECOND
from runnel.wire import (
    Advertise,
    Decoder,
    Publication,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    encode,
    make_publication,
    raw_selection,
)
from support.door import ALL, Door
from support.placed import PlacementWorld

UP, LEFT, RIGHT, ALICE = 1, 2, 3, 4


class PopDoor(Door):
    """A broker B: publisher P of advertisement 7 is upstream, two neighbours and Alice want everything."""

    def __init__(self, **parameters: Any) -> None:
        self.pop = Pop(PlacementConfig(**parameters), address="here")
        super().__init__(modules=(self.pop,))
        for conn, name in ((UP, "up"), (LEFT, "left"), (RIGHT, "right")):
            self.connect(conn, name, "broker")
        self.connect(ALICE, "alice")
        self.arrive(UP, Advertise(7, ALL, "P", 9))
        for id, conn in enumerate((LEFT, RIGHT, ALICE)):
            self.arrive(conn, Subscribe(id, ALL, 9))
        self.received(UP)

    def traced(self, counter: int, *, id: int = 7, ttl: int = 9) -> None:
        self.arrive(UP, make_publication(id, counter, {}, flags=TRACED, ttl=ttl))

    def messages_to(self, conn: int = UP) -> list[Any]:
        return [frame for frame in self.received(conn) if isinstance(frame, (Trm, Rrm, Ram))]

    def late(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)
        self.event(TimerFired("pop:deadline"))


def test_a_result_waits_for_all_neighbours_and_is_the_sum() -> None:
    door = PopDoor()
    door.traced(1)
    door.arrive(LEFT, Trm(7, 1, 5))
    assert door.messages_to() == []
    door.arrive(RIGHT, Trm(7, 1, 3))
    assert door.messages_to() == [Trm(7, 1, 9)]
    table = door.pop.table(7)
    assert table is not None and table.rows == {LOCAL: 1, "left": 5, "right": 3}


def test_results_of_several_publications_are_told_apart() -> None:
    door = PopDoor()
    door.traced(1)
    door.traced(2)
    door.arrive(LEFT, Trm(7, 2, 0), Trm(7, 1, 5))
    door.arrive(RIGHT, Trm(7, 2, 0), Trm(7, 1, 3))
    assert door.messages_to() == [Trm(7, 2, 1), Trm(7, 1, 9)]


def test_a_publication_that_nobody_wants_answers_0() -> None:
    door = Door(modules=(Pop(),))
    door.connect(1, "up", "broker")
    door.arrive(1, Advertise(7, ALL, "P", 9), make_publication(7, 1, {}, flags=TRACED))
    assert door.received(1) == [Trm(7, 1, 0)]


def test_a_publication_with_no_hop_left_waits_for_nobody() -> None:
    door = PopDoor()
    door.traced(1, ttl=0)
    assert door.messages_to() == [Trm(7, 1, 1)]


def test_a_client_with_several_subscriptions_counts_for_those_that_want_it() -> None:
    door = PopDoor()
    for id, selection in ((10, "a > 0"), (11, "a > 5")):
        door.arrive(ALICE, Subscribe(id, raw_selection(parse(selection)), 0))
    counts = []
    for counter, value in enumerate((0, 3, 9), start=1):
        door.arrive(UP, make_publication(7, counter, {"a": value}, flags=TRACED, ttl=0))
        counts += [result.subscribers for result in door.messages_to()]
    assert counts == [1, 2, 3]
    door.arrive(ALICE, Unsubscribe(10), Unsubscribe(11))
    door.traced(4, ttl=0)
    assert door.messages_to() == [Trm(7, 4, 1)]


def test_an_unmarked_publication_is_not_traced() -> None:
    door = PopDoor()
    door.arrive(UP, make_publication(7, 1, {}))
    assert door.messages_to() == [] and door.pop.table(7) is None


def test_a_link_that_is_lost_has_nobody_behind_it() -> None:
    door = PopDoor()
    door.traced(1)
    door.arrive(LEFT, Trm(7, 1, 5))
    door.connect(30, "right", "broker")  # it has lost its memory
    assert door.messages_to() == [Trm(7, 1, 6)]
    table = door.pop.table(7)
    assert table is not None and table.rows == {LOCAL: 1, "left": 5}


def test_an_answer_that_is_late_leaves_the_average_as_it_was() -> None:
    door = PopDoor(answer_timeout_s=10)
    door.traced(1)
    door.arrive(LEFT, Trm(7, 1, 8))
    door.arrive(RIGHT, Trm(7, 1, 3))
    door.traced(2)
    door.arrive(RIGHT, Trm(7, 2, 7))
    door.messages_to()
    door.late(9.9)
    assert door.messages_to() == []
    door.late(0.2)
    assert door.messages_to() == [Trm(7, 2, 16)]
    door.arrive(LEFT, Trm(7, 2, 100))
    table = door.pop.table(7)
    assert table is not None and table.rows == {LOCAL: 1, "left": 8, "right": 4}


def test_whoever_is_further_from_the_publisher_waits_less() -> None:
    door = PopDoor(answer_timeout_s=10)
    door.traced(1)
    assert door.timers["pop:deadline"] == 10 * SECOND
    near = make_publication(7, 2, {}, flags=TRACED)
    far = Publication(9, 3, TRACED, 7, 2, 0, near.attributes_length, near.raw)
    door.arrive(UP, far.forwarded())  # the fourth hop
    assert door.timers["pop:deadline"] == round(10 * SECOND * LESS_PER_HOP**4)


@pytest.mark.parametrize(
    "message",
    [
        Trm(7, 99, 5),
        Trm(8, 1, 5),
        Rrm(8, 5.0, ("up",)),
        Rrm(7, 5.0, ("up",)),  # there is no table: perhaps this broker was restarted
        Rrm(7, 5.0, ("B", "up")),
        Rrm(7, 5.0, ()),
        Ram(7, ("x", "y"), ""),
        Ram(7, ("x", "B"), ""),
        Ram(7, ("B",), ""),
        Ram(7, ("x", "B", "alice"), ""),
        Ram(7, ("x", "B", "left", "B", "left"), ""),  # it would go to and fro for ever
        Ram(7, (), ""),
    ],
)
def test_strange_messages_do_nothing(message: Any) -> None:
    door = PopDoor()
    for conn in (UP, LEFT):
        door.arrive(conn, message)
        assert not door.closed and door.messages_to(conn) == []
    door.arrive(ALICE, message)
    assert list(door.closed) == [ALICE], "clients have no part in this"


def test_numbers_beyond_all_reason_do_no_harm() -> None:
    door = PopDoor()
    door.traced(1)
    most = 2**63 - 1
    door.arrive(LEFT, Trm(7, 1, most))
    door.arrive(RIGHT, Trm(7, 1, most))
    assert door.messages_to() == [Trm(7, 1, most)]
    door.arrive(UP, Rrm(7, SUBSCRIBERS_MAX, ("up",)))
    assert len(door.messages_to() + door.messages_to(LEFT) + door.messages_to(RIGHT)) == 1
    for count in (float("nan"), float("inf"), -1.0, 2 * SUBSCRIBERS_MAX):
        with pytest.raises(PeerError, match="malformed Rrm"):
            Decoder().feed(encode(Rrm(7, count, ("up",))))


def test_a_publication_that_comes_twice_is_answered_twice() -> None:
    door = PopDoor()
    door.traced(1)
    door.traced(1)
    assert door.messages_to() == [Trm(7, 1, 0)]


def test_a_request_is_passed_on_answered_and_its_answer_passed_back() -> None:
    door = PopDoor()
    door.traced(1)
    door.arrive(LEFT, Trm(7, 1, 9))
    door.arrive(RIGHT, Trm(7, 1, 2))
    door.messages_to()
    door.arrive(UP, Rrm(7, 1.0, ("up", "first")))
    assert door.messages_to(LEFT) == [Rrm(7, 4.0, ("B", "up", "first"))]
    answer = Ram(7, ("left", "B", "up", "first"), "there")
    door.arrive(LEFT, answer)
    assert door.messages_to() == [answer]
    door.arrive(UP, Rrm(7, 8.0, ("up", "first")))
    assert door.messages_to() == [Ram(7, ("B", "up", "first"), "here")]
    door.arrive(UP, Rrm(7, 8.0, ("up", "B")))
    assert door.messages_to() == [], "it has been here"


def test_a_request_that_does_not_come_from_the_publisher_is_not_answered() -> None:
    door = PopDoor()
    door.traced(1, ttl=0)
    door.messages_to()
    door.arrive(LEFT, Rrm(7, 5.0, ("left",)))
    assert door.messages_to(LEFT) == []


def test_everything_goes_with_the_advertisement() -> None:
    door = PopDoor()
    door.traced(1)
    door.arrive(LEFT, Trm(7, 1, 5))
    door.traced(2)
    door.arrive(UP, Unadvertise(7))
    assert door.pop.table(7) is None and not door.pop._pending and not door.pop._deadlines._until
    door.arrive(LEFT, Trm(7, 2, 5))
    assert door.messages_to() == []


def test_nothing_grows_for_ever() -> None:
    door = PopDoor()
    for counter in range(KEPT_MAX + 10):
        door.traced(counter + 1)
    assert len(door.pop._pending) == KEPT_MAX
    assert len(door.messages_to()) == 10, "the oldest are answered with what is there"


# -- a publisher's broker ------------------------------------------------------------------------------


def tagged(door: Door, *publications: Publication) -> int:
    door.received(2)
    door.arrive(1, *publications)
    frames = [frame for frame in door.received(2) if isinstance(frame, Publication)]
    assert len(frames) == len(publications)
    return sum(frame.flags for frame in frames)


def publishers_door(chance: float, **parameters: Any) -> Door:
    door = Door(modules=(Pop(PlacementConfig("pop", **parameters), chance=lambda: chance),))
    door.connect(1, "P")
    door.connect(2, "alice")
    door.arrive(1, Advertise(7, ALL, "P", 9), Advertise(8, ALL, "Q", 9))
    door.arrive(2, Subscribe(1, ALL, 9))
    return door


def test_no_more_than_n_are_traced_in_a_window_and_each_publisher_has_its_own() -> None:
    door = publishers_door(0.0, n=10, w_s=60, p_threshold=10_000)
    assert tagged(door, *(make_publication(7, n, {}) for n in range(1, 40))) == 10
    assert tagged(door, *(make_publication(8, n, {}) for n in range(1, 40))) == 10
    door.now += 59 * SECOND
    assert tagged(door, make_publication(7, 50, {})) == 0
    door.now += SECOND
    assert tagged(door, *(make_publication(7, n, {}) for n in range(51, 90))) == 10


def test_the_first_of_a_window_is_traced_whatever_chance_says() -> None:
    door = publishers_door(0.999, n=50)
    assert tagged(door, *(make_publication(7, n, {}) for n in range(1, 10))) == 1


def test_the_probability_falls_as_the_window_fills() -> None:
    door = publishers_door(0.5, n=50, p_threshold=10_000)
    assert tagged(door, *(make_publication(7, n, {}) for n in range(1, 1_000))) == 25


def test_nothing_is_traced_while_a_decision_is_under_way() -> None:
    door = publishers_door(0.0, p_threshold=2)
    door.connect(3, "left", "broker")
    door.arrive(3, Subscribe(2, ALL, 9))
    assert tagged(door, *(make_publication(7, n, {}) for n in range(1, 6))) == 2
    door.received(3)
    door.arrive(3, Trm(7, 2, 5))
    assert door.received(3) == [] and tagged(door, make_publication(7, 6, {})) == 0
    door.arrive(3, Trm(7, 1, 5))
    assert [f for f in door.received(3) if isinstance(f, Rrm)] == [Rrm(7, 1.0, ("B",))]
    assert tagged(door, make_publication(7, 7, {})) == 0
    door.arrive(3, Ram(7, ("left", "B"), "there"))
    assert [t.data["to"] for t in door.traces if t.kind == "placement"] == ["left"]
    assert tagged(door, make_publication(7, 8, {})) == 1


# -- a network that does not keep still ----------------------------------------------------------------

LINE = (("A", "B"), ("B", "C"))


def line(**parameters: Any) -> tuple[PlacementWorld, int]:
    """P at A, three subscribers at C."""
    placed = PlacementWorld(LINE, PlacementConfig("pop", **{"p_threshold": 1, **parameters}))
    placed.subscribers("C", 3)
    return placed, placed.publisher("P", "A")


def outcomes(placed: PlacementWorld) -> list[str]:
    return [decided["outcome"] for decided in placed.decisions("pop")]


def asking(placed: PlacementWorld, id: int) -> bool:
    return placed.pops["A"]._publishers[id].is_asking


def test_a_request_without_an_answer_costs_one_decision() -> None:
    placed, id = line()
    # Results are in, and the request is under way.
    placed.publish("P", [1], every_s=0.0055, then_s=0)
    assert asking(placed, id)
    placed.pops["C"].forget(id)
    placed.run(9)
    assert asking(placed, id)
    placed.run(2)
    assert not asking(placed, id) and outcomes(placed) == []
    placed.publish("P", [2])
    assert [decided["to"] for decided in placed.decisions("pop")] == ["C"]


def test_a_link_lost_while_a_request_is_under_way_costs_one_decision() -> None:
    placed, id = line()
    placed.publish("P", [1], every_s=0.0055, then_s=0)
    assert asking(placed, id)
    placed.cut("B", "C")
    placed.run(30)
    assert not asking(placed, id) and outcomes(placed) == []
    placed.subscribers("B", 2)
    placed.publish("P", [2])
    assert [decided["to"] for decided in placed.decisions("pop")] == ["B"]


def test_a_restarted_broker_takes_part_again() -> None:
    placed, _ = line(p_threshold=2)
    placed.publish("P", [1])
    placed.world.crash(placed.world.hosts["B"])
    placed.run(1)
    placed.start("B")
    placed.run(15)
    placed.publish("P", range(20), every_s=1)
    assert placed.decisions("pop")[-1]["to"] == "C"


def test_subscribers_that_come_and_go_change_the_averages() -> None:
    placed, id = line(p_threshold=4, n=30_000)
    placed.publish("P", [1])
    placed.subscribers("A", 12)
    placed.publish("P", [2])
    table = placed.pops["A"].table(id)
    assert table is not None and table.rows == {LOCAL: 3.0, "B": 3.0}
    placed.publish("P", range(30))
    assert [decided["to"] for decided in placed.decisions("pop")][-1] == "A"


def test_publishers_are_placed_each_by_itself() -> None:
    config = PlacementConfig("pop", p_threshold=2, publishers={"off": PublisherSettings("off")})
    placed = PlacementWorld(LINE, config)
    placed.subscribers("C", 1, "a < 10")
    placed.subscribers("A", 1, "a >= 10")
    for name, home in (("P", "A"), ("Q", "C"), ("off", "A")):
        placed.publisher(name, home)
    for _ in range(6):
        placed.publish("P", [1])
        placed.publish("Q", [11])
        placed.publish("off", [1])
    last = {d["publisher"]: (d["at"], d["to"]) for d in placed.decisions("pop")}
    assert last == {"P": ("A", "C"), "Q": ("C", "A")}


# -- what becomes of a decision ------------------------------------------------------------------------


def test_a_dry_run_decides_and_moves_nobody() -> None:
    placed, _ = line(dry_run=True)
    placed.publish("P", [1])
    assert outcomes(placed) == ["dry run"] and placed.moves == []
    (decision,) = placed.pops["A"].decisions
    assert (decision.to, decision.address) == ("C", "sim://C")


def test_a_publisher_that_is_being_moved_is_not_moved_again() -> None:
    placed, _ = line()
    placed.publish("P", [1, 2])
    assert outcomes(placed) == ["moves", "is being moved"]
    assert len(placed.moves) == 1


def test_a_publisher_that_was_moved_rests() -> None:
    placed, _ = line()
    placed.publish("P", [1])
    placed.broker("A").arbiter.release("publisher:P", "placement", placed.world.now)
    placed.publish("P", [2])
    placed.run(30)
    placed.publish("P", [3])
    assert outcomes(placed) == ["moves", "rests", "moves"]


def test_what_cannot_be_moved_is_given_back() -> None:
    placed, _ = line()
    placed.pops["A"].migrate = lambda *_: False
    placed.publish("P", [1, 2])
    assert outcomes(placed) == ["cannot move", "cannot move"]
    assert placed.broker("A").arbiter.owner("publisher:P", placed.world.now) is None


def test_a_publisher_that_has_come_rests_and_starts_from_nothing() -> None:
    placed, id = line()
    placed.publish("P", [1])
    broker, pop = placed.broker("A"), placed.pops["A"]
    row = broker.tables.srt[id]
    broker.arbiter.release("publisher:P", "placement", placed.world.now, moved=False)
    pop.turned(broker, row.link, row, placed.world.now)
    assert pop.table(id) is None and pop.decisions == []
    placed.publish("P", [2])
    assert outcomes(placed) == ["moves", "rests"]


def test_damping_keeps_a_publisher_where_one_subscriber_more_would_take_it() -> None:
    chosen = []
    for damping in (0, 1):
        placed = PlacementWorld(
            (("A", "B"),), PlacementConfig("pop", p_threshold=1, damping=damping)
        )
        placed.subscribers("A", 5)
        placed.subscribers("B", 6)
        placed.publisher("P", "A")
        placed.publish("P", [1])
        chosen += [decided["to"] for decided in placed.decisions("pop")]
    assert chosen == ["B", "A"]
