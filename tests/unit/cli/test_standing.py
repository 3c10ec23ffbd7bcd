"""What is said of a client's connection while it stands: lost once, back once, and whether something is missing."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from runnel.broker.losses import LINK_LOST
from runnel.cli.show.connection import ConnectionNotices, gap_as_line
from runnel.client.aio import State
from runnel.client.effects import Gap
from runnel.client.gaps import BROKER_LOST


class Fake:
    """A client whose fate the test decides."""

    def __init__(self) -> None:
        self.state = State.CONNECTED
        self.broker, self.address = "B1", "runnel://h:1"


def standing() -> tuple[Any, ConnectionNotices]:
    client: Any = Fake()
    return client, ConnectionNotices("events may be missing")


OWN = Gap("alice–B1", 10**18, reason=BROKER_LOST)
ELSEWHERE = Gap("B2–B3", 10**18, reason=LINK_LOST, publishers=("p",))


def test_nothing_is_said_while_all_is_well() -> None:
    client, one = standing()
    assert one.look(client) == one.look(client) == ""


def test_a_connection_that_comes_back_lost_nothing() -> None:
    client, one = standing()
    client.state = State.RECONNECTING
    assert one.look(client) == "lost B1 (runnel://h:1), trying again"
    assert one.look(client) == ""
    client.state = State.CONNECTED
    assert one.look(client) == "back at B1 (runnel://h:1); nothing was lost"
    assert one.look(client) == ""


def test_a_link_that_starts_anew_may_have_lost_something() -> None:
    client, one = standing()
    client.state = State.RECONNECTING
    one.look(client)
    one.note_gap(OWN)
    client.state, client.broker = State.CONNECTED, "B2"
    assert one.look(client) == "back at B2 (runnel://h:1); events may be missing"
    assert one.look(client) == ""


def test_a_gap_between_two_looks_is_told_all_the_same() -> None:
    client, one = standing()
    one.note_gap(OWN)
    said = one.look(client)
    assert said == "the connection broke: back at B1 (runnel://h:1); events may be missing"
    assert one.look(client) == ""


def test_a_gap_elsewhere_says_nothing_of_the_connection() -> None:
    client, one = standing()
    one.note_gap(ELSEWHERE)
    assert one.look(client) == ""


def test_the_end_of_a_gap_says_nothing_of_the_connection() -> None:
    client, one = standing()
    one.note_gap(replace(OWN, until_ns=2 * 10**18))
    assert one.look(client) == ""


def test_a_gap_is_one_line_when_it_begins_and_one_when_it_is_over() -> None:
    assert gap_as_line(ELSEWHERE) == (
        "events may be missing from 2001-09-09T01:46:40Z on, by p: "
        "B2–B3: the link was lost, and what was on its way"
    )
    assert gap_as_line(replace(ELSEWHERE, until_ns=10**18 + 10**6)) == (
        "events may be missing from 2001-09-09T01:46:40Z to 2001-09-09T01:46:40.001Z, by p: "
        "it is over; B2–B3: the link was lost, and what was on its way"
    )
    assert gap_as_line(replace(ELSEWHERE, is_ours=True)) == (
        "events published from 2001-09-09T01:46:40Z on may not reach all subscribers: "
        "B2–B3: the link was lost, and what was on its way"
    )


def test_a_gap_that_was_counted_is_one_line() -> None:
    counted = replace(ELSEWHERE, until_ns=10**18, count=1_234, reason="the queue was full")
    assert gap_as_line(counted) == (
        "1,234 events from 2001-09-09T01:46:40Z to 2001-09-09T01:46:40Z are missing, by p: "
        "B2–B3: the queue was full"
    )
