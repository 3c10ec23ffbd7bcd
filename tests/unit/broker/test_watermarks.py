"""Watermarks: what peers promise each other about what has come, and when a promise counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from runnel.broker.links import Link, LinkConfig
from runnel.broker.watermarks import CLOCK_BEHIND_NS_MAX, Watermarks
from runnel.quantities import HOUR, SECOND
from runnel.wire import Ack, Decoder, Fence, encode, make_publication
from support.harness import StepNetwork

NOW = 500_000 * SECOND
BEAT = SECOND


@dataclass
class OneBroker:
    """The links of one broker, and its clock."""

    now: int = NOW
    links: dict[str, Link] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watermarks = Watermarks(self.links, lambda: self.now)

    def link(self, name: str, kind: str = "broker", watermark_ns: int = 0) -> Link:
        """A link that is up, with a peer that has promised this."""
        number = len(self.links)
        link = self.links[name] = Link(name, kind, number, 1, LinkConfig(), 0, {})
        link.start_fresh(7)
        link.up(number + 1, 0)
        if watermark_ns:
            hear(link, watermark_ns)
        return link

    def rise(self) -> dict[str, int]:
        """What every peer is promised with a tick."""
        self.watermarks.rise()
        return {name: link.promised_ns for name, link in self.links.items()}


def hear(link: Link, watermark_ns: int, sent: int = 0) -> bool:
    """The peer acknowledges, with a watermark; whether that is its first, or has fallen."""
    return link.acknowledge(
        Ack(data=0, monitor=0, credit=1, congested=False, watermark_ns=watermark_ns, sent=sent)
    )


def next_ack(link: Link) -> Ack:
    """The acknowledgement that goes out next."""
    link.owe_ack()
    *_, ack = Decoder().feed(b"".join(link.take(0)))
    assert isinstance(ack, Ack)
    return ack


def at(seconds: int) -> int:
    return NOW - seconds * SECOND


# -- what is promised -----------------------------------------------------------------------------------


def test_a_client_is_promised_no_more_than_it_has_said_itself() -> None:
    """It may subscribe to what it publishes, and that may be on its way to the broker for long."""
    side = OneBroker()
    side.link("B1", watermark_ns=at(3))
    client = side.link("c1", "client", watermark_ns=at(5))
    assert side.rise() == {"B1": at(5), "c1": at(5)}
    hear(client, at(9))
    side.watermarks.fall(client)
    assert client.promised_ns == at(9)


def test_every_peer_is_promised_the_lowest_of_all_others() -> None:
    side = OneBroker()
    for name, seconds in {"B1": 30, "B2": 20, "B3": 10}.items():
        side.link(name, watermark_ns=at(seconds))
    assert side.rise() == {"B1": at(20), "B2": at(30), "B3": at(30)}


def test_with_nobody_else_the_own_clock_is_promised() -> None:
    side = OneBroker()
    side.link("B1", watermark_ns=at(30))
    assert side.rise() == {"B1": NOW}
    side.now += SECOND
    assert side.rise() == {"B1": NOW + SECOND}


def test_two_that_are_equally_low_hold_each_other() -> None:
    side = OneBroker()
    side.link("B1", watermark_ns=at(30))
    side.link("B2", watermark_ns=at(30))
    side.link("B3", watermark_ns=at(10))
    assert side.rise() == {"B1": at(30), "B2": at(30), "B3": at(30)}


def test_behind_a_neighbour_that_has_promised_nothing_nothing_new_is_promised() -> None:
    side = OneBroker()
    side.link("B1", watermark_ns=at(30))
    assert side.rise() == {"B1": NOW}
    side.link("B2")
    assert side.rise() == {"B1": NOW, "B2": at(30)}  # what B1 was promised stands
    side.now += SECOND
    assert side.rise() == {"B1": NOW, "B2": at(30)}
    assert next_ack(side.links["B1"]).watermark_ns == NOW
    assert next_ack(side.links["B1"]).watermark_ns == 0  # and it is not said again


def test_a_lower_watermark_is_told_at_once_to_all_others_who_were_promised_more() -> None:
    side = OneBroker()
    one, other = side.link("B1", watermark_ns=at(30)), side.link("B2", watermark_ns=at(20))
    side.rise()
    for link in (one, other):
        next_ack(link)
        link.outbox.clear()
    assert hear(other, at(90))
    side.watermarks.fall(other)
    assert one.promised_ns == at(90)
    assert one in one.outbox
    (frame,) = Decoder().feed(b"".join(one.take(0)))
    assert isinstance(frame, Ack)
    assert frame.watermark_ns == at(90)
    assert other.promised_ns == at(30)
    assert other not in other.outbox


def test_a_neighbour_is_told_the_first_watermark_of_a_link_as_soon_as_it_is_known() -> None:
    """Not with a heartbeat: until then nobody would know how old is what comes over the link."""
    side = OneBroker()
    known = side.link("B1", watermark_ns=at(30))
    side.rise()
    known.take(0)
    late, new = side.link("B2"), side.link("B3")
    for link in (late, new):
        side.watermarks.link_up(link)
    assert (late.promised_ns, new.promised_ns) == (0, 0)  # neither knows what is behind the other
    assert hear(late, at(20))
    side.watermarks.fall(late)
    (frame,) = Decoder().feed(b"".join(new.take(0)))
    assert isinstance(frame, Ack)
    assert frame.watermark_ns == at(30)
    known.take(0)
    hear(new, at(10))
    again = side.link("B4", watermark_ns=at(40))
    side.watermarks.link_up(again)
    assert (again.promised_ns, again.ack_due) == (at(30), True)
    assert not known.ack_due  # this one was told before


def test_who_was_promised_less_is_not_told() -> None:
    side = OneBroker()
    one, other = side.link("B1", watermark_ns=at(30)), side.link("B2", watermark_ns=at(20))
    side.rise()
    one.outbox.clear()
    next_ack(one)
    one.outbox.clear()
    side.watermarks.fall(other)
    assert one not in one.outbox
    assert next_ack(one).watermark_ns == 0


def test_who_cannot_publish_and_who_is_gone_is_not_waited_for() -> None:
    side = OneBroker()
    side.link("B1", watermark_ns=at(30))
    gone = side.link("B2", watermark_ns=at(90))
    gone.forget_peer()
    side.link("watcher", "operator", watermark_ns=at(80))
    assert side.rise()["B1"] == NOW
    assert gone.promised_ns == 0


def test_a_link_that_is_down_and_may_resume_is_waited_for() -> None:
    side = OneBroker()
    side.link("B1", watermark_ns=at(30))
    down = side.link("B2", watermark_ns=at(90))
    down.down(5)
    assert side.rise()["B1"] == at(90)


# -- clocks of clients ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        (NOW - 5 * SECOND, NOW - 5 * SECOND),
        (NOW - HOUR, NOW - HOUR),
        (NOW - HOUR - 1, NOW - HOUR),
        (1, NOW - HOUR),
        (NOW + 1, NOW),
        (NOW + 24 * HOUR, NOW),
    ],
)
def test_a_client_is_an_hour_late_at_most_and_never_early(said: int, taken: int) -> None:
    assert CLOCK_BEHIND_NS_MAX == HOUR
    side = OneBroker()
    side.link("B1", watermark_ns=at(1))
    side.link("c", "client", watermark_ns=said)
    assert side.rise()["B1"] == taken


def test_a_client_that_has_said_nothing_yet_has_published_nothing_before_it_came() -> None:
    """Its first acknowledgement may be lost, or wait for frames: meanwhile it may have published something."""
    side = OneBroker()
    side.link("B1", watermark_ns=at(1))
    client = side.link("c", "client")
    side.watermarks.link_up(client)
    side.now += 5 * SECOND
    assert side.rise()["B1"] == NOW
    assert not hear(client, NOW + SECOND, sent=1)
    assert side.rise()["B1"] == NOW
    receive(client)
    hear(client, 0)
    assert side.rise()["B1"] == NOW + SECOND


def test_a_client_of_which_nothing_is_heard_any_more_is_an_hour_late_at_most() -> None:
    side = OneBroker()
    side.link("B1", watermark_ns=at(1))
    side.link("c", "client", watermark_ns=NOW)
    side.now += 3 * HOUR
    assert side.rise()["B1"] == side.now - HOUR


# -- when it counts -------------------------------------------------------------------------------------


def receive(link: Link, count: int = 1) -> None:
    for _ in range(count):
        link.count(Fence(1))


def test_a_watermark_waits_for_the_frames_that_it_speaks_of() -> None:
    link = OneBroker().link("B1")
    assert not hear(link, at(9), sent=3)
    assert link.watermark_ns == 0
    receive(link, 2)
    assert not hear(link, 0)
    assert link.watermark_ns == 0
    receive(link)
    assert hear(link, 0)  # with the next acknowledgement, whatever that says
    assert link.watermark_ns == at(9)


def test_of_two_that_wait_the_first_is_taken_first() -> None:
    """Else a peer that sends without pause would never be taken at its word."""
    link = OneBroker().link("B1")
    hear(link, at(9), sent=2)
    hear(link, at(8), sent=5)
    receive(link, 2)
    hear(link, at(7), sent=6)
    assert link.watermark_ns == at(9)
    receive(link, 4)
    hear(link, 0)
    assert link.watermark_ns == at(7)


def test_a_lower_watermark_counts_at_once_and_what_waited_is_void() -> None:
    link = OneBroker().link("B1", watermark_ns=at(9))
    hear(link, at(5), sent=4)
    assert hear(link, at(60), sent=6)
    assert link.watermark_ns == at(60)
    receive(link, 6)
    hear(link, 0)
    assert link.watermark_ns == at(60)


def test_a_lower_one_replaces_a_higher_one_that_waits() -> None:
    link = OneBroker().link("B1", watermark_ns=at(90))
    hear(link, at(5), sent=2)
    hear(link, at(50), sent=4)
    receive(link, 2)
    hear(link, 0)
    assert link.watermark_ns == at(90)
    receive(link, 2)
    hear(link, 0)
    assert link.watermark_ns == at(50)


def test_what_is_said_counts_all_that_is_queued_before() -> None:
    link = OneBroker().link("B1")
    link.send(encode(Fence(1)))
    link.send_publications([make_publication(1, n, {"a": n}).raw for n in (1, 2)])
    link.promise_watermark(at(3))
    assert next_ack(link).sent == 3
    link.send(encode(Fence(2)))
    link.promise_watermark(at(2))
    ack = next_ack(link)
    assert (ack.watermark_ns, ack.sent) == (at(2), 4)


def test_a_watermark_holds_behind_the_message_that_tells_of_drops() -> None:
    """Else the interval of a link that is lost before that message has passed would begin after what was dropped."""
    limits = LinkConfig(queue_bytes_max=1)
    link = Link("B2", "broker", 0, 1, limits, 0, {})
    link.start_fresh(7)
    link.up(1, 0)
    frames = [make_publication(1, n, {"a": n}).raw for n in (1, 2)]
    assert link.send_at_once(frames[0])
    link.send_publications(frames[1:])
    assert (link.dropped_untold, link.waiting_bytes) == (1, 0)
    assert link.data.count == 1
    link.promise_watermark(at(3))
    assert next_ack(link).sent == 2


def test_a_resumed_link_keeps_what_was_promised_and_a_fresh_one_does_not() -> None:
    link = OneBroker().link("B1", watermark_ns=at(9))
    link.promise_watermark(at(4))
    link.down(1)
    link.up(9, 2)
    assert (link.watermark_ns, link.promised_ns) == (at(9), at(4))
    link.start_fresh(8)
    assert (link.watermark_ns, link.promised_ns) == (0, 0)
    assert next_ack(link).watermark_ns == 0


# -- in a network ---------------------------------------------------------------------------------------


def chain(count: int) -> StepNetwork:
    net = StepNetwork(now=NOW)
    names = [f"B{n}" for n in range(1, count + 1)]
    for number, name in reversed(list(enumerate(names))):
        net.broker(name, *names[number + 1 : number + 2], accepts=tuple(names[:number][-1:]))
    net.settle()
    return net


def of(net: StepNetwork) -> Callable[[str, str], int]:
    return lambda broker, peer: int(net.nodes[broker].links[peer].watermark_ns)


def test_watermarks_rise_with_time_from_one_edge_to_the_other() -> None:
    net = chain(5)
    net.publisher("p", "B5", "a > 0")
    net.subscriber("s", "B1", "a > 0")
    net.advance(20 * BEAT)
    before = net.nodes["s"].home.link.watermark_ns
    net.advance(20 * BEAT)
    after = net.nodes["s"].home.link.watermark_ns
    assert after - before == 20 * BEAT
    assert net.now - after <= 6 * BEAT  # one for each hop at most


def test_when_routes_are_there_all_have_a_watermark() -> None:
    net = chain(4)
    watermark = of(net)
    for one, other in (("B1", "B2"), ("B2", "B3"), ("B3", "B4")):
        assert watermark(one, other) == watermark(other, one) == NOW


def test_a_client_that_is_cut_off_holds_up_the_watermark_and_lets_go_when_it_is_forgotten() -> None:
    net = chain(2)
    net.publisher("p", "B2", "a > 0")
    net.advance(10 * BEAT)
    watermark = of(net)
    net.crash("p")
    net.advance(5 * BEAT)
    held = watermark("B1", "B2")
    assert held <= NOW + 10 * BEAT
    net.advance(3 * BEAT)
    assert watermark("B1", "B2") == held
    net.advance(20 * BEAT)  # B2 has forgotten the client
    assert net.now - watermark("B1", "B2") <= 2 * BEAT


def test_a_client_whose_clock_is_slow_lowers_the_watermark_of_the_whole_network_at_once() -> None:
    net = chain(3)
    net.advance(5 * BEAT)
    watermark = of(net)
    assert net.now - watermark("B1", "B2") <= 3 * BEAT
    session = net.session("slow", behind_ns=600 * SECOND)
    session.connect("B3", net.now)
    net.settle()  # no time passes
    assert watermark("B1", "B2") == net.now - 600 * SECOND


# -- what has been handed on ----------------------------------------------------------------------------


def test_a_broker_says_how_far_others_have_what_a_neighbour_sent() -> None:
    side = OneBroker()
    neighbour = side.link("B1", watermark_ns=at(3))
    client = side.link("c1", "client", watermark_ns=NOW)
    side.rise()
    assert next_ack(neighbour).handed_ns == at(3), "not more than has come"
    client.send_publications([make_publication(1, 1, {"n": 1}, b"", time_ns=at(2)).raw])
    client.take(0)
    hear(neighbour, at(1))
    for _ in range(2):
        side.rise()
        assert next_ack(neighbour).handed_ns == at(3), "the client has not got it"
    client.acknowledge(Ack(data=1, monitor=0, credit=1, congested=False))
    side.rise()
    assert next_ack(neighbour).handed_ns == at(1)


def test_what_a_neighbour_has_handed_on_counts_behind_what_it_tells_of() -> None:
    side = OneBroker()
    link = side.link("B1")
    link.promise_watermark(at(1))

    def say(handed_ns: int, sent: int) -> int:
        ack = Ack(0, 0, 1, False, watermark_ns=NOW, sent=sent, handed_ns=handed_ns)
        link.acknowledge(ack)
        return link.handed_ns

    assert say(at(5), 0) == at(5)
    assert say(at(4), 1) == at(5), "a loss may be told in the frame that has not come"
    link.count(Fence(1))
    assert say(at(4), 1) == at(4)
    assert say(at(9), 1) == at(9), "it may fall"
    assert say(at(0), 1) == at(1), "what may still be sent nobody can have handed on"
    link.promise_watermark(at(7))
    assert link.handed_ns == at(7)
