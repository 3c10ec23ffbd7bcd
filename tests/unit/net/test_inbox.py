"""The inbox: data wait in order, everything else goes in at once, whatever the chunks are cut like."""

from __future__ import annotations

import pytest

from runnel.broker.events import Connected, Disconnected, FramesArrived, StopAsked
from runnel.modules.placement.messages import Ping
from runnel.net.inbox import Inbox
from runnel.wire import Ack, Bye, Decoder, encode, make_publication

ACK = encode(Ack(data=1, monitor=2, credit=3, congested=False))
PING = encode(Ping(7))
BYE = encode(Bye("enough"))


def publication(counter: int) -> bytes:
    return make_publication(5, counter, {"a": counter}, b"payload").raw


def frames_arrived(conn: int, *frames: bytes) -> FramesArrived:
    return FramesArrived(conn, b"".join(frames))


def test_a_chunk_with_both_kinds_is_cut_between_frames() -> None:
    inbox = Inbox()
    chunk = frames_arrived(1, PING, publication(1), BYE, publication(2), ACK)
    assert inbox.put(chunk) == frames_arrived(1, PING, ACK)
    assert (inbox.publications, inbox.begins_with_publication) == (2, True)
    assert inbox.waiting_bytes == len(publication(1) + BYE + publication(2))
    assert inbox.take(1) == (frames_arrived(1, publication(1)), 1)
    assert inbox.take() == (frames_arrived(1, BYE, publication(2)), 1)
    assert (bool(inbox), inbox.publications, inbox.waiting_bytes) == (False, 0, 0)


def test_connections_wait_in_the_order_in_which_their_data_arrived() -> None:
    inbox = Inbox()
    for conn, counter in ((1, 1), (2, 1), (1, 2)):
        assert inbox.put(frames_arrived(conn, publication(counter))) == frames_arrived(conn)
    taken = [inbox.take()[0] for _ in range(3)]
    assert taken == [frames_arrived(c, publication(n)) for c, n in ((1, 1), (2, 1), (1, 2))]


@pytest.mark.parametrize("size", [1, 3, 5, 40])
def test_frames_stay_whole_however_they_arrive(size: int) -> None:
    inbox, at_once, waited = Inbox(), Decoder(), Decoder()
    stream = b"".join((PING, publication(1), ACK, publication(2), BYE, PING, publication(3)))
    first, last = [], []
    for start in range(0, len(stream), size):
        told = inbox.put(FramesArrived(1, stream[start : start + size]))
        assert isinstance(told, FramesArrived)
        first += at_once.feed(told.chunk)
        assert not at_once.waiting_bytes, "a frame was torn"
        while inbox:
            event, _ = inbox.take()
            assert isinstance(event, FramesArrived)
            last += waited.feed(event.chunk)
            assert not waited.waiting_bytes, "a frame was torn"
    assert [type(frame).__name__ for frame in first] == ["Ping", "Ack", "Ping"]
    assert [type(frame).__name__ for frame in last] == [
        *("Publication", "Publication", "Bye", "Publication")
    ]


def test_a_peer_that_hangs_up_has_what_it_sent_taken_in_before() -> None:
    inbox = Inbox()
    assert inbox.put(Connected(1)) == Connected(1)
    assert inbox.put(Disconnected(0, "B2")) == Disconnected(0, "B2")
    inbox.put(frames_arrived(1, publication(1)))
    assert inbox.put(Disconnected(2)) == Disconnected(2), "nothing of that one waits"
    assert inbox.put(Disconnected(1)) is None
    assert inbox.take() == (frames_arrived(1, publication(1)), 1)
    assert inbox.take() == (Disconnected(1), 0)
    assert not inbox


def test_what_a_closed_connection_sent_is_forgotten() -> None:
    inbox = Inbox()
    inbox.put(frames_arrived(1, publication(1), publication(2)[:9]))
    inbox.put(frames_arrived(2, publication(1)))
    inbox.put(Disconnected(1))
    inbox.forget(1)
    assert inbox.publications == 1
    assert inbox.take() == (frames_arrived(2, publication(1)), 1)
    assert not inbox
    assert inbox.put(frames_arrived(1, ACK)) == frames_arrived(1, ACK), (
        "the beginning of a frame went, too"
    )


def test_an_event_can_be_put_behind_all_that_is_here() -> None:
    inbox = Inbox()
    inbox.put(frames_arrived(1, publication(1)))
    inbox.put_last(StopAsked())
    inbox.put(frames_arrived(1, publication(2)))
    assert [inbox.take()[0] for _ in range(3)] == [
        frames_arrived(1, publication(1)),
        StopAsked(),
        frames_arrived(1, publication(2)),
    ]


def test_what_is_no_frame_is_left_to_the_broker_to_find() -> None:
    inbox = Inbox()
    inbox.put(frames_arrived(1, publication(1), bytes(20)))
    event, count = inbox.take()
    assert (event, count) == (frames_arrived(1, publication(1), bytes(20)), 1)


def test_whole_chunks_pass_while_nothing_waits() -> None:
    inbox = Inbox()
    whole = frames_arrived(1, PING, publication(1))
    assert inbox.lets_pass(whole)
    assert not inbox.lets_pass(frames_arrived(1, PING, publication(1)[:-1]))
    inbox.put(frames_arrived(1, PING[:3]))
    assert not inbox.lets_pass(frames_arrived(1, PING[3:])), "its beginning is here"
    assert inbox.lets_pass(frames_arrived(2, PING))
    inbox.put(frames_arrived(1, PING[3:], publication(1)))
    assert not inbox.lets_pass(frames_arrived(2, PING))
