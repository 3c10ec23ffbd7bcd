"""What is said of a client's connection while it stands: lost once, back once, and whether something is missing."""

from __future__ import annotations

from typing import Any

from runnel.cli.standing import Standing
from runnel.client.aio import State


class Fake:
    """A client whose fate the test decides."""

    def __init__(self) -> None:
        self.state = State.CONNECTED
        self.broker, self.address = "B1", "runnel://h:1"
        self.gaps = 0


def standing() -> tuple[Any, Standing]:
    client: Any = Fake()
    return client, Standing(client, "events may be missing")


def test_nothing_is_said_while_all_is_well() -> None:
    _, one = standing()
    assert one.look() == one.look() == ""


def test_a_connection_that_comes_back_lost_nothing() -> None:
    client, one = standing()
    client.state = State.RECONNECTING
    assert one.look() == "lost B1 (runnel://h:1), trying again"
    assert one.look() == ""
    client.state = State.CONNECTED
    assert one.look() == "back at B1 (runnel://h:1); nothing was lost"
    assert one.look() == ""


def test_a_link_that_starts_anew_may_have_lost_something() -> None:
    client, one = standing()
    client.state = State.RECONNECTING
    one.look()
    client.state, client.gaps, client.broker = State.CONNECTED, 1, "B2"
    assert one.look() == "back at B2 (runnel://h:1); events may be missing"
    assert one.look() == ""


def test_a_gap_between_two_looks_is_told_all_the_same() -> None:
    client, one = standing()
    client.gaps = 1
    said = one.look()
    assert said == "the connection broke: back at B1 (runnel://h:1); events may be missing"
    assert one.look() == ""
