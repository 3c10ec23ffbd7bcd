"""Links: handshake, replay, window, lanes, bounds, acknowledgements and the clockwork; two ends, no broker."""

from __future__ import annotations

import pytest

from runnel.broker.links import Link, LinkConfig
from runnel.wire import (
    PROTOCOL,
    Ack,
    Decoder,
    Fence,
    Frame,
    Hello,
    Message,
    Publication,
    encode,
    make_publication,
)
from support.harness import MonitorProbe

BEAT = 1_000


class Pair:
    """Two ends of one link, A dialling B, and a wire between them that can be cut."""

    def __init__(self, **config: int) -> None:
        self.config = LinkConfig(
            **{"heartbeat_ns": BEAT, "resume_timeout_ns": 10 * BEAT, "ack_every": 1, **config}
        )
        self.a = self.new_end("b", 100)
        self.b = self.new_end("a", 200)
        self.tokens = 300

    def new_end(self, peer: str, token: int) -> Link:
        return Link(peer, "broker", 0, token, self.config, 0, {})

    def shake_hands(self, *, lose_answer: bool = False) -> bool:
        """One Hello each way, as brokers do it; whether the link was resumed."""
        hello = self.hello_of(self.a.hello("broker", "a"))
        fresh = not self.b.fits(hello)
        if fresh:
            self.tokens += 1
            self.b.start_fresh(hello.token, self.tokens)
        answer = self.hello_of(self.b.hello("broker", "b", resume=not fresh))
        if not fresh:
            self.b.resume(hello)
        self.b.up(2, 0)
        if lose_answer:
            self.cut()
            return not fresh
        assert self.a.fits(answer) is not fresh, "both sides must come to the same decision"
        if fresh:
            self.a.start_fresh(answer.token)
        else:
            self.a.resume(answer)
        self.a.up(1, 0)
        return not fresh

    @staticmethod
    def hello_of(frame: bytes) -> Hello:
        (hello,) = Decoder().feed(frame)
        assert isinstance(hello, Hello)
        return hello

    def cut(self, now: int = 0) -> None:
        self.a.down(now)
        self.b.down(now)

    @staticmethod
    def carry(
        source: Link, target: Link, now: int = 0, *, lose_after: int | None = None
    ) -> list[Frame]:
        """Take what one end wants to write and bring it to the other, or the first so many frames of it."""
        taken = source.take(now)[:lose_after]
        frames = Decoder().feed(b"".join(taken))
        for frame in frames:
            if isinstance(frame, Publication):
                target.count_publications(1)
            elif isinstance(frame, Ack):
                target.acknowledge(frame)
            else:
                target.count(frame)
        if frames:
            target.heard(sum(map(len, taken)), now)
        return frames


def numbers(frames: list[Frame]) -> list[int]:
    """The counters of publications and the tokens of messages, in order; acknowledgements apart."""
    return [
        f.counter if isinstance(f, Publication) else f.token  # type: ignore[attr-defined]
        for f in frames
        if not isinstance(f, Ack)
    ]


def publication(counter: int, size: int = 0) -> bytes:
    return make_publication(7, counter, {}, b"x" * size).frame()


@pytest.fixture
def pair() -> Pair:
    pair = Pair()
    assert not pair.shake_hands(), "the first time there is nothing to resume"
    return pair


# -- handshake -----------------------------------------------------------------------------------------


def test_a_first_handshake_is_fresh_and_exchanges_tokens(pair: Pair) -> None:
    assert pair.a.peer_token == pair.b.token
    assert pair.b.peer_token == pair.a.token
    assert pair.a.established and pair.b.established


def test_both_sides_resume_a_run_that_both_remember(pair: Pair) -> None:
    pair.cut()
    assert pair.shake_hands()


@pytest.mark.parametrize("who", ["a", "b"])
def test_a_side_that_lost_its_memory_makes_the_link_fresh(pair: Pair, who: str) -> None:
    pair.a.send(publication(1))
    pair.b.send(publication(1))
    pair.carry(pair.a, pair.b)
    pair.cut()
    setattr(pair, who, pair.new_end("b" if who == "a" else "a", 400))
    assert not pair.shake_hands()
    for end in (pair.a, pair.b):
        assert end.data.received == end.data.acknowledged == 0
    assert numbers(pair.carry(pair.a, pair.b) + pair.carry(pair.b, pair.a)) == []


def test_a_first_answer_that_is_lost() -> None:
    """B has begun a run that A knows nothing of: the next handshake begins another."""
    pair = Pair()
    pair.shake_hands(lose_answer=True)
    pair.b.send(publication(1))
    assert not pair.shake_hands()
    assert pair.carry(pair.b, pair.a) == [], "that was of a run that is over"


def test_a_resuming_answer_that_is_lost(pair: Pair) -> None:
    """B has resumed and replayed into the void: the next handshake resumes again."""
    pair.b.send(publication(1))
    pair.b.take(0)
    pair.cut()
    assert pair.shake_hands(lose_answer=True)
    assert pair.shake_hands()
    assert numbers(pair.carry(pair.b, pair.a)) == [1]


def test_an_answer_that_refuses_to_resume_is_lost(pair: Pair) -> None:
    pair.cut()
    pair.b = pair.new_end("a", 400)
    assert not pair.shake_hands(lose_answer=True)
    assert not pair.shake_hands(), "A's token of B is one that B does not have any more"


def test_no_token_never_fits() -> None:
    end = Pair().a
    assert not end.fits(Hello(PROTOCOL, "broker", "b", 0, end.token, 0, 0, 0))


# -- replay --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrived", range(6))
def test_what_did_not_arrive_is_replayed_once_and_in_order(pair: Pair, arrived: int) -> None:
    for counter in range(1, 6):
        pair.a.send(publication(counter))
    first = pair.carry(pair.a, pair.b, lose_after=arrived)
    pair.cut()
    pair.a.send(publication(6))
    assert pair.shake_hands()
    assert numbers(first + pair.carry(pair.a, pair.b)) == [1, 2, 3, 4, 5, 6]
    pair.carry(pair.b, pair.a)
    assert pair.a.waiting_bytes == pair.a.flying_bytes == 0


def test_both_lanes_and_both_directions_replay_on_their_own(pair: Pair) -> None:
    for end in (pair.a, pair.b):
        end.send(publication(1))
        end.send_message(MonitorProbe(10))
        end.take(0)
    pair.cut()
    assert pair.shake_hands()
    assert numbers(pair.carry(pair.a, pair.b)) == [10, 1]
    assert numbers(pair.carry(pair.b, pair.a)) == [10, 1]


@pytest.mark.parametrize(("arrived", "left"), [(0, [10, 1]), (1, [1]), (2, [])])
def test_bytes_are_counted_right_whichever_lane_is_replayed(
    pair: Pair, arrived: int, left: list[int]
) -> None:
    pair.a.send(publication(1))
    pair.a.send_message(MonitorProbe(10))
    pair.carry(pair.a, pair.b, lose_after=arrived)  # and the acknowledgement is lost
    pair.cut()
    assert pair.shake_hands()
    waiting = [*pair.a.monitor.waiting, *pair.a.data.waiting]
    assert (pair.a.waiting_bytes, pair.a.flying_bytes) == (sum(map(len, waiting)), 0)
    assert numbers(pair.carry(pair.a, pair.b)) == left
    pair.carry(pair.b, pair.a)
    assert (pair.a.waiting_bytes, pair.a.flying_bytes) == (0, 0)


def test_an_acknowledgement_of_one_lane_leaves_the_other_under_way(pair: Pair) -> None:
    pair.a.send(publication(1))
    pair.a.send_message(MonitorProbe(10))
    pair.a.take(0)
    pair.a.acknowledge(Ack(0, 1, 0, False))
    assert pair.a.flying_bytes == len(publication(1))
    pair.a.acknowledge(Ack(1, 1, 0, False))
    assert pair.a.flying_bytes == 0


def test_what_is_sent_while_the_link_is_down_waits(pair: Pair) -> None:
    pair.cut()
    pair.a.send(publication(1))
    assert pair.a.take(0) == []
    assert pair.shake_hands()
    assert numbers(pair.carry(pair.a, pair.b)) == [1]


def test_a_second_cut_before_any_acknowledgement(pair: Pair) -> None:
    seen: list[Frame] = []
    for counter in range(1, 4):
        pair.a.send(publication(counter))
    for lost_after in (1, 0, 1, None):
        seen += pair.carry(pair.a, pair.b, lose_after=lost_after)
        pair.cut()
        assert pair.shake_hands()
    assert numbers(seen) == [1, 2, 3]


# -- window, lanes, bounds -----------------------------------------------------------------------------


def test_no_more_than_the_window_is_under_way() -> None:
    size = len(publication(1, 100))
    pair = Pair(window_bytes=3 * size)
    pair.shake_hands()
    for counter in range(1, 8):
        pair.a.send(publication(counter, 100))
    assert numbers(pair.carry(pair.a, pair.b)) == [1, 2, 3]
    assert pair.a.take(0) == []
    pair.carry(pair.b, pair.a)
    assert numbers(pair.carry(pair.a, pair.b)) == [4, 5, 6]


def test_a_frame_larger_than_the_window_passes_alone() -> None:
    pair = Pair(window_bytes=50)
    pair.shake_hands()
    pair.a.send(publication(1, 500))
    pair.a.send(publication(2, 500))
    assert numbers(pair.carry(pair.a, pair.b)) == [1]
    pair.carry(pair.b, pair.a)
    assert numbers(pair.carry(pair.a, pair.b)) == [2]


def test_monitoring_overtakes_data_that_waits_and_keeps_its_own_order() -> None:
    pair = Pair(window_bytes=1)
    pair.shake_hands()
    for counter in range(1, 4):
        pair.a.send(publication(counter))
    assert numbers(pair.carry(pair.a, pair.b)) == [1]
    pair.a.send_message(MonitorProbe(10))
    pair.a.send_message(MonitorProbe(11))
    order = []
    for _ in range(4):
        pair.carry(pair.b, pair.a)
        order += numbers(pair.carry(pair.a, pair.b))
    assert order == [10, 11, 2, 3]


def test_a_message_takes_the_lane_of_its_kind(pair: Pair) -> None:
    pair.a.send_message(Fence(1))
    pair.a.send_message(MonitorProbe(1))
    pair.a.send_message(MonitorProbe(2))
    assert (len(pair.a.data.waiting), len(pair.a.monitor.waiting)) == (1, 2)


@pytest.mark.parametrize("bytes_max", [1_000, 100_000])
def test_a_run_of_publications_is_the_same_as_one_after_the_other(bytes_max: int) -> None:
    pair = Pair(queue_bytes_max=bytes_max)
    frames = [publication(counter, 100) for counter in range(1, 21)]
    for frame in frames:
        pair.a.send(frame)
    pair.b.send_publications(frames)
    assert list(pair.a.data.waiting) == list(pair.b.data.waiting)
    assert pair.a.waiting_bytes == pair.b.waiting_bytes
    assert pair.a.dropped == pair.b.dropped


def test_the_oldest_publications_are_dropped_and_counted_control_never() -> None:
    size = len(publication(1, 100))
    pair = Pair(queue_bytes_max=4 * size)
    for counter in (1, 2):
        pair.a.send(publication(counter, 100))
    pair.a.send_message(Fence(50))
    for counter in range(3, 7):
        pair.a.send(publication(counter, 100))
    pair.a.send_message(Fence(51))
    assert pair.a.waiting_bytes <= 4 * size
    assert (pair.a.dropped, pair.a.dropped_untold) == (3, 3)
    assert not pair.a.overflowed


def test_what_is_left_after_a_drop_goes_out_in_order() -> None:
    size = len(publication(1, 100))
    pair = Pair(queue_bytes_max=3 * size)
    pair.shake_hands()
    for counter in (1, 2):
        pair.a.send(publication(counter, 100))
    pair.a.send_message(Fence(50))
    for counter in (3, 4):
        pair.a.send(publication(counter, 100))
    assert numbers(pair.carry(pair.a, pair.b)) == [50, 3, 4]
    assert pair.a.dropped == 2


def test_what_may_not_be_dropped_overflows_and_the_link_is_dead() -> None:
    frame = encode(Fence(1))
    pair = Pair(queue_bytes_max=3 * len(frame))
    for _ in range(3):
        pair.a.send(frame)
    assert not pair.a.overflowed
    pair.a.send(publication(1))
    assert not pair.a.overflowed, "the publication went"
    pair.a.send(frame)
    assert pair.a.overflowed
    assert len(pair.a.data.waiting) == 4


def test_a_link_half_full_says_so() -> None:
    pair = Pair(queue_bytes_max=1_000)
    pair.a.send(publication(1, 400))
    assert not pair.a.is_half_full
    pair.a.send(publication(2, 100))
    assert pair.a.is_half_full


# -- acknowledgements and the clockwork ----------------------------------------------------------------


def acks(frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if isinstance(frame, Ack)]


def test_counted_frames_are_acknowledged_once_and_acknowledgements_never(pair: Pair) -> None:
    pair.a.send(publication(1))
    pair.a.send_message(Fence(1))
    pair.carry(pair.a, pair.b)
    answer = pair.carry(pair.b, pair.a)
    assert acks(answer) == [Ack(data=2, monitor=0, credit=0, congested=False)]
    assert pair.a.flying_bytes == 0
    assert pair.carry(pair.a, pair.b) == [], "else two idle ends would acknowledge for ever"
    assert pair.carry(pair.b, pair.a) == []


def test_several_frames_are_acknowledged_at_once_and_the_rest_at_the_next_tick() -> None:
    pair = Pair(ack_every=4)
    pair.shake_hands()
    for counter in range(1, 7):
        pair.a.send(publication(counter))
        pair.carry(pair.a, pair.b)
        assert len(acks(pair.carry(pair.b, pair.a))) == (counter == 4)
    pair.b.heartbeat(1)
    assert acks(pair.carry(pair.b, pair.a)) == [Ack(6, 0, 0, False)]
    pair.b.heartbeat(2)
    assert pair.carry(pair.b, pair.a) == [], "nothing new, and a sign of life was given"


def test_few_but_large_frames_are_acknowledged_before_the_window_is_full() -> None:
    pair = Pair(ack_every=1_000, window_bytes=1_000)
    pair.shake_hands()
    for counter in range(1, 31):
        pair.a.send(publication(counter, 100))
        pair.carry(pair.a, pair.b)
        pair.carry(pair.b, pair.a)
    assert pair.b.data.received == 30, "it never came to a stop"


def test_an_acknowledgement_is_cumulative_and_an_old_one_harmless(pair: Pair) -> None:
    for counter in range(1, 4):
        pair.a.send(publication(counter))
    pair.a.take(0)
    pair.a.acknowledge(Ack(2, 0, 0, False))
    assert len(pair.a.data.unacknowledged) == 1
    pair.a.acknowledge(Ack(1, 0, 0, False))
    assert len(pair.a.data.unacknowledged) == 1
    pair.a.acknowledge(Ack(3, 0, 0, True))
    assert pair.a.flying_bytes == 0
    assert pair.a.congested


def test_a_heartbeat_goes_out_unless_an_acknowledgement_did(pair: Pair) -> None:
    pair.a.heartbeat(BEAT - 1)
    assert pair.a.take(BEAT - 1) == []
    pair.a.heartbeat(BEAT)
    assert len(acks(pair.carry(pair.a, pair.b, BEAT))) == 1
    pair.a.send(publication(1))
    assert len(pair.a.take(BEAT + 500)) == 1
    pair.a.heartbeat(2 * BEAT - 1)
    assert pair.a.take(2 * BEAT - 1) == []
    pair.a.heartbeat(2 * BEAT)
    assert len(acks(pair.carry(pair.a, pair.b, 2 * BEAT))) == 1  # only that carries a watermark


def test_no_heartbeat_on_a_link_that_is_down(pair: Pair) -> None:
    pair.cut()
    pair.a.heartbeat(5 * BEAT)
    assert pair.a.take(5 * BEAT) == []


def test_silence_is_more_than_three_heartbeats(pair: Pair) -> None:
    assert not pair.a.has_been_silent(3 * BEAT)
    assert pair.a.has_been_silent(3 * BEAT + 1)
    pair.a.heard(0, 2 * BEAT)
    assert not pair.a.has_been_silent(5 * BEAT)


def test_a_link_expires_when_it_has_been_down_too_long_and_only_then(pair: Pair) -> None:
    assert not pair.a.is_expired(1_000 * BEAT)
    pair.cut(now=BEAT)
    assert not pair.a.is_expired(11 * BEAT)
    assert pair.a.is_expired(11 * BEAT + 1)


def test_a_link_with_something_to_write_is_in_the_outbox() -> None:
    outbox: dict[Link, None] = {}
    link = Link("b", "broker", 0, 1, LinkConfig(), 0, outbox)
    for act in (
        lambda: link.send(publication(1)),
        lambda: link.send_publications([publication(2), publication(3)]),
        lambda: link.acknowledge(Ack(0, 0, 0, False)),
        link.owe_ack,
    ):
        outbox.clear()
        act()
        assert list(outbox) == [link]


def test_a_control_message_is_not_counted(pair: Pair) -> None:
    message: Message = Ack(0, 0, 0, False)
    pair.a.count(message)
    pair.a.count(Fence(1))
    pair.a.count(MonitorProbe(1))
    pair.a.count(MonitorProbe(2))
    assert (pair.a.data.received, pair.a.monitor.received) == (1, 2)
