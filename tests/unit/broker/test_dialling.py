"""Links that modules open and close while the broker runs, and connections that cross."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runnel.broker.broker import Broker
from runnel.broker.effects import Connect
from runnel.broker.events import Connected, Disconnected, TimerFired
from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.language import parse
from runnel.quantities import SECOND
from runnel.sim.world import World
from runnel.wire import PROTOCOL, Ack, Bye, Hello, Subscribe
from support.door import ALL, Door
from support.harness import StepNetwork

GO = TimerFired("switchboard:go")


class Switchboard(Module):
    """Dials and hangs up when its timer goes off, as it was last told."""

    name = "switchboard"
    timers = ("switchboard:go",)

    def __init__(self) -> None:
        self.do: Callable[[Context], None] = lambda context: None
        self.lost: list[str] = []

    def timer(self, context: Context, timer: str, now: int) -> None:
        self.do(context)

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        if link.established or link.peer_token:
            self.lost.append(link.name)


class Wired(StepNetwork):
    """Brokers A and B, who know nothing of each other, with a switchboard each."""

    def __init__(self, *dialled_by_b: str) -> None:
        super().__init__()
        self.boards = {"A": Switchboard(), "B": Switchboard()}
        self.broker("A", modules=(self.boards["A"],))
        self.broker("B", *dialled_by_b, modules=(self.boards["B"],))
        self.settle()

    def order(self, name: str, do: Callable[[Context], None]) -> None:
        self.boards[name].do = do
        self.event(name, GO)

    def dial(self, name: str, peer: str, address: str = "") -> None:
        self.order(name, lambda context: context.dial(peer, address))
        self.settle()

    def hang_up(self, name: str, peer: str, *, drained: bool = False) -> None:
        self.order(name, lambda context: context.hang_up(peer, "enough", drained=drained))

    def linked(self) -> bool:
        """Whether both have the link; never only one of them once all has settled."""
        ups = [
            other in self.nodes[name].links and self.nodes[name].links[other].established
            for name, other in (("A", "B"), ("B", "A"))
        ]
        assert ups[0] == ups[1]
        return ups[0]


@pytest.fixture
def net() -> Wired:
    return Wired()


# -- dialling -----------------------------------------------------------------------------------------


def test_a_link_opened_at_run_time_carries_what_a_configured_one_does(net: Wired) -> None:
    net.session("sub", "B").subscribe(parse("a > 0"))
    publisher, id = net.publisher("pub", "A", "a > 0")
    assert not net.linked()
    net.dial("A", "B")
    assert net.linked()
    publisher.publish(id, {"a": 1})
    net.settle()
    assert net.delivered("sub") == [1]


def test_it_is_dialled_until_it_answers_and_again_when_it_is_gone(net: Wired) -> None:
    net.unreachable["B"] = None
    net.dial("A", "B")
    net.advance(20 * SECOND)
    assert "B" not in net.nodes["A"].links
    del net.unreachable["B"]
    net.advance(SECOND)
    assert net.linked()
    net.cut("A", "B")
    net.advance(SECOND)
    assert net.linked()


def test_the_dialler_is_told_where_a_broker_is_that_nobody_configured() -> None:
    door = Door("N", modules=(board := Switchboard(),))
    board.do = lambda context: context.dial("M", "runnel://there:7001")
    asked = [
        (effect.peer, effect.address)
        for effect in door.broker.handle(GO, 0)
        if isinstance(effect, Connect)
    ]
    assert asked == [("M", "runnel://there:7001")]


def test_in_the_simulator_a_host_is_an_address(net: Wired) -> None:
    world = World(1)
    for name in ("A", "B"):
        broker = net.nodes[name]
        world.start(world.host(f"host of {name}"), broker)
    net.boards["A"].do = lambda context: context.dial("B", "host of B")
    world.perform(world.hosts["host of A"], net.nodes["A"].handle(GO, 0))
    world.run(SECOND)
    assert net.linked()


# -- hanging up ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["A", "B"])
def test_after_a_farewell_routes_are_gone_and_nobody_dials(net: Wired, who: str) -> None:
    net.publisher("pub", "B", "a > 0")
    net.dial("A", "B")
    assert net.nodes["A"].tables.srt
    net.hang_up(who, "B" if who == "A" else "A")
    net.settle()
    assert not net.nodes["A"].links and "A" not in net.nodes["B"].links
    assert not net.nodes["A"].tables.srt
    assert [net.boards[name].lost for name in ("A", "B")] == [["B"], ["A"]]
    net.advance(30 * SECOND)
    assert not net.linked()
    net.dial("A", "B")
    assert net.linked(), "a farewell is not for ever"


def test_who_is_configured_to_dial_dials_again() -> None:
    net = Wired("A")
    assert net.linked()
    net.hang_up("A", "B")
    net.settle()
    assert not net.linked()
    net.advance(SECOND)
    assert net.linked()
    net.hang_up("B", "A")
    net.advance(30 * SECOND)
    assert not net.linked(), "it was told at run time to stop"


def test_what_is_discarded_is_counted(net: Wired) -> None:
    net.session("sub", "B").subscribe(parse("a > 0"))
    net.dial("A", "B")
    publisher, id = net.publisher("pub", "A", "a > 0")
    net.hold("A", "B")
    for value in (1, 2, 3):
        publisher.publish(id, {"a": value})
    net.flush()
    while net.nodes["A"].meter.publications_in < 3:
        net.step()
    net.hang_up("A", "B")
    # They were sent.
    assert (net.nodes["A"].meter.discarded, net.nodes["A"].meter.in_doubt) == (
        0,
        3,
    )
    net.release("A", "B")
    net.settle()
    assert net.delivered("sub") == [1, 2, 3], "they were written before the farewell"


def test_drained_it_ends_when_all_is_acknowledged(net: Wired) -> None:
    net.session("sub", "B").subscribe(parse("a > 0"))
    net.dial("A", "B")
    publisher, id = net.publisher("pub", "A", "a > 0")
    net.hold("A", "B")
    for value in (1, 2, 3):
        publisher.publish(id, {"a": value})
    net.flush()
    while net.nodes["A"].meter.publications_in < 3:
        net.step()
    net.hang_up("A", "B", drained=True)
    net.cut("A", "B")  # what was under way comes again, by the next connection
    net._held.clear()
    net.advance(3 * SECOND)
    assert net.delivered("sub") == [1, 2, 3]
    assert net.nodes["A"].meter.discarded == 0
    assert not net.linked() and not net.nodes["A"].dials


def test_drained_it_ends_with_a_peer_that_is_gone(net: Wired) -> None:
    net.session("sub", "B").subscribe(parse("a > 0"))
    net.dial("A", "B")
    publisher, id = net.publisher("pub", "A", "a > 0")
    net.crash("B")
    publisher.publish(id, {"a": 1})
    net.settle()
    net.hang_up("A", "B", drained=True)
    assert net.nodes["A"].links["B"].waiting_bytes
    net.advance(20 * SECOND)
    assert "B" not in net.nodes["A"].links and not net.nodes["A"].dials
    assert net.nodes["A"].meter.discarded == 1


def test_dialling_takes_back_that_a_link_is_to_end(net: Wired) -> None:
    net.dial("A", "B")

    def change_of_mind(context: Context) -> None:
        context.hang_up("B", "enough")
        context.dial("B")

    net.order("A", change_of_mind)
    net.advance(SECOND)
    assert net.linked() and not net.boards["A"].lost


def test_a_peer_that_was_away_hears_of_it_when_it_comes_back(net: Wired) -> None:
    net.dial("B", "A")
    net.unreachable["A"] = None
    net.cut("A", "B")
    net.advance(SECOND)
    net.hang_up("A", "B")
    del net.unreachable["A"]
    net.advance(5 * SECOND)
    assert not net.linked() and not net.nodes["B"].links and not net.nodes["B"].dials
    assert len(net.of_kind("A", "B", Bye)) == 1
    net.dial("B", "A")
    assert net.linked(), "that is another link"


def test_a_dial_that_is_under_way_comes_to_nothing() -> None:
    door = Door(modules=(board := Switchboard(),))
    board.do = lambda context: context.dial("N")
    door.event(GO)
    board.do = lambda context: context.hang_up("N", "enough")
    door.event(GO)
    door.event(Connected(5, "N"))
    assert list(door.closed) == [5] and not door.broker.links
    assert 5 not in door.got, "not even a Hello"


# -- connections that cross ---------------------------------------------------------------------------
#
# The broker behind the door is called B.


def hello(name: str, token: int, peer_token: int = 0) -> Hello:
    return Hello(PROTOCOL, "broker", name, token, peer_token, 0, 0, 0)


def test_the_dial_of_the_smaller_name_is_the_one_that_stays() -> None:
    door = Door("C")
    door.event(Connected(1, "C"))
    door.event(Connected(2))
    door.arrive(2, hello("C", 7))
    assert 2 not in door.got and not door.closed, "it waits"
    door.arrive(1, hello("C", 8))
    assert list(door.closed) == [2]
    assert door.broker.links["C"].conn == 1


def test_the_larger_name_takes_what_it_was_dialled_by() -> None:
    door = Door("A")
    door.event(Connected(1, "A"))
    door.event(Connected(2))
    door.arrive(2, hello("A", 7))
    assert list(door.closed) == [1]
    assert door.broker.links["A"].conn == 2


def test_a_hello_takes_the_place_of_a_dial_that_fails() -> None:
    door = Door("C")
    door.event(Connected(1, "C"))
    door.event(Connected(2))
    door.arrive(2, hello("C", 7))
    door.event(Disconnected(1))
    assert door.broker.links["C"].conn == 2


def test_a_hello_waits_two_heartbeats_for_a_dial_that_is_not_answered() -> None:
    door = Door("C")
    door.event(Connected(1, "C"))
    door.event(Connected(2))
    door.arrive(2, hello("C", 7))
    door.pass_time(2 * SECOND)
    assert not door.closed
    door.pass_time(SECOND // 2)
    assert list(door.closed) == [1]
    assert door.broker.links["C"].conn == 2


def crossed_late(door: Door) -> Hello:
    """Link C up on connection 1; the Hello by which C would resume it."""
    door.event(Connected(1, "C"))
    mine = next(frame for frame in door.got[1] if isinstance(frame, Hello))
    door.arrive(1, hello("C", 7, mine.token))
    return hello("C", 7, mine.token)


def test_a_hello_that_comes_late_does_not_disturb_the_link() -> None:
    door = Door("C")
    resuming = crossed_late(door)
    for conn, late in ((2, hello("C", 6)), (3, resuming)):
        door.event(Connected(conn))
        door.arrive(conn, late)
    assert list(door.closed) == [2], "a peer has one dial at a time"
    assert door.broker.links["C"].conn == 1
    door.event(Disconnected(3))
    door.pass_time(SECOND)
    assert door.broker.links["C"].conn == 1 and list(door.closed) == [2]


def test_it_is_taken_when_the_link_has_lost_its_connection() -> None:
    door = Door("C")
    resuming = crossed_late(door)
    door.event(Connected(2))
    door.arrive(2, resuming)
    door.event(Disconnected(1))
    assert door.broker.links["C"].conn == 2
    ups = [trace.data["fresh"] for trace in door.traces if trace.kind == "link-up"]
    assert ups == [True, False]


def test_a_peer_that_has_begun_anew_does_not_wait() -> None:
    door = Door("C")
    crossed_late(door)
    door.event(Connected(2))
    door.arrive(2, hello("C", 1_000_000))
    assert list(door.closed) == [1]
    assert door.broker.links["C"].conn == 2


def test_a_dial_that_comes_too_late_is_closed_without_a_word() -> None:
    door = Door("C")
    door.connect(2, "C", "broker")
    door.event(Connected(1, "C"))
    assert list(door.closed) == [1] and 1 not in door.got
    assert door.broker.links["C"].conn == 2


@pytest.mark.parametrize("more", [Ack(0, 0, 0, False), hello("C", 7)])
def test_who_waits_has_nothing_to_say(more: Ack | Hello) -> None:
    door = Door("C")
    crossed_late(door)
    door.event(Connected(2))
    door.arrive(2, hello("C", 6), more)
    assert list(door.closed) == [2] and "did not wait" in door.closed[2]
    assert door.broker.links["C"].conn == 1


def test_what_follows_a_hello_that_is_refused_is_not_looked_at() -> None:
    door = Door()
    door.connect(1, "alice")
    door.arrive(1, Subscribe(20, ALL, 9))
    outgrown = Hello(PROTOCOL, "client", "alice", door._token, 0, 0, 0, 0)
    door.event(Connected(2))
    door.arrive(2, outgrown, Ack(0, 0, 0, False))
    assert list(door.closed) == [2]
    assert isinstance(door.broker, Broker) and 20 in door.broker.tables.prt
