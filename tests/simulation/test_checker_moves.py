"""What the checker demands when a publisher moves: all, unless routes of the home that it left had been disturbed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from runnel.client.effects import Confirmed, Gap, Moved
from runnel.client.session import Session
from runnel.quantities import SECOND
from runnel.sim.campaign import draw_plan
from runnel.sim.checkers import SILENT, Checker, Violation
from runnel.sim.model import Tree, Want
from runnel.sim.run import simulate
from runnel.sim.world import World
from runnel.wire.publication import make_publication

EVERYTHING = Want(((),))
ADVERTISEMENT, SUBSCRIPTION = 1, 2
NEVER_GOT = "never got"


class MovingPublisher:
    """A checker that is told step by step of `pub`, which moves from B1 to B2, and of `sub` at B4, in a chain of four.

    Nothing of what is published arrives.
    """

    def __init__(self) -> None:
        edges = [("B1", "B2"), ("B2", "B3"), ("B3", "B4")]
        self.checker = Checker(Tree(edges, ["B1", "B2", "B3", "B4"]), SECOND)
        self.world = self.checker.world = World(1, self.checker)
        for client, home in (("pub", "B1"), ("sub", "B4")):
            self.world.host(client)
            self.checker.note_opened(client)
            self._note_home(client, home)
        self.checker.note_advertisement("pub", ADVERTISEMENT, EVERYTHING)
        self.checker.note_subscription("sub", SUBSCRIPTION, EVERYTHING)
        self.take("ready")

    def _note_home(self, client: str, broker: str) -> None:
        homes = SimpleNamespace(home=SimpleNamespace(broker=broker), next=None, ahead=None)
        self.checker.note_homes(client, cast(Session, homes))

    def take(self, step: str) -> None:
        """Take one step, a second after the one before."""
        self.world.now += SECOND
        match step.split():
            case ["ready"]:
                for id in (ADVERTISEMENT, SUBSCRIPTION):
                    self.checker.promise(id).asked = self.world.now
            case ["advertised"]:  # everywhere, again
                self.checker.promise(ADVERTISEMENT).asked = self.world.now
            case ["disturb", *element]:
                self.checker.disturb(*element)
            case ["move"]:
                self.checker.handle_effect(self.world.hosts["pub"], Moved("B2"))
                self._note_home("pub", "B2")
            case ["publish"]:
                self._note_home("sub", "B4")  # as ever
                broker = list(self.checker.homes["pub"])[-1]
                made = make_publication(ADVERTISEMENT, 1, {})
                self.checker.note_publication("pub", broker, ADVERTISEMENT, made, {})
                self.checker.handle_effect(self.world.hosts["pub"], Confirmed(1))
            case ["gap"]:
                gap = Gap("B1–B2", since_ns=1, reason="the link was lost")  # not over yet
                self.checker.handle_effect(self.world.hosts["sub"], gap)

    def found(self, *steps: str) -> str:
        """What the checker finds at rest, after some steps."""
        for step in steps:
            self.take(step)
        try:
            self.checker.at_rest({})
        except Violation as violation:
            return str(violation)
        return ""


@pytest.mark.parametrize("element", ["B1", "B1 B2", "B1 pub"])
def test_routes_of_the_home_that_a_publisher_left_were_disturbed(element: str) -> None:
    """B3 withdrew its subscriptions from B2 with the old advertisement, and has not yet heard of the new one."""
    assert MovingPublisher().found(f"disturb {element}", "move", "publish", "gap") == ""


def test_what_is_lost_after_such_a_move_is_told() -> None:
    assert SILENT in MovingPublisher().found("disturb B1 B2", "move", "publish")


@pytest.mark.parametrize(
    "steps",
    [
        ("move", "publish", "gap"),
        # The new advertisement was handed on before the old one was withdrawn.
        ("move", "disturb B1 B2", "publish", "gap"),
        # Readiness was told for all routes since then.
        ("disturb B1 B2", "advertised", "move", "publish", "gap"),
        ("disturb B1 B2", "move", "advertised", "publish", "gap"),
        ("disturb B1", "ready", "move", "publish", "gap"),
        # Nothing went over that link.
        ("disturb B1 other", "move", "publish", "gap"),
    ],
    ids=lambda steps: ", ".join(steps),
)
def test_nothing_else_about_the_old_home_excuses_a_loss(steps: tuple[str, ...]) -> None:
    assert NEVER_GOT in MovingPublisher().found(*steps)


def test_a_rest_ends_the_excuse() -> None:
    publisher = MovingPublisher()
    assert publisher.found("disturb B1", "move", "publish", "gap") == ""
    assert NEVER_GOT in publisher.found("publish", "gap")


def test_a_publisher_moves_while_its_home_has_just_begun_anew() -> None:
    """In this seed c4 moves from B9#2, which has crashed, to B8#2, before routes to its advertisement are back."""
    assert simulate(draw_plan(601668)).violation == ""
