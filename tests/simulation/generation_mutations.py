"""Bugs planted in the switch from one generation to another; see mutations.py."""

from __future__ import annotations

from typing import Any

from runnel.client.crossing import Crossing, Stage, Step
from runnel.generations.module import NEW, Generations
from runnel.generations.switch import Switch
from simulation.mutations import Patch, mutation

# -- the session ----------------------------------------------------------------------------------------


@mutation
def unknown_advertisements_are_not_held(patch: Patch) -> None:
    patch(Crossing, "_must_wait", lambda self, home, publication: False)


@mutation
def a_fence_for_one_advertisement_lets_out_all(patch: Patch) -> None:
    def brought(self: Crossing, home: Any, token: int) -> None:
        other = self.home if home is self.ahead else self.ahead
        if other is not None:
            self._let_out(other)

    patch(Crossing, "_brought", brought)


@mutation
def what_is_held_is_forgotten_when_a_home_is_left(patch: Patch) -> None:
    true = Crossing._let_out

    def let_out(self: Crossing, *homes: Any) -> None:
        for home in homes:
            for publications in home.held_by.values():
                publications.clear()
        true(self, *homes)

    patch(Crossing, "_let_out", let_out)


@mutation
def the_outlet_changes_before_the_old_network_is_dry(patch: Patch) -> None:
    def dry(self: Crossing) -> None:
        self._reach(Stage.AHEAD if self.stage == Stage.BOTH else Stage.BOTH)

    patch(Crossing, "_dry", dry)


@mutation
def publishing_goes_on_while_the_old_network_dries(patch: Patch) -> None:
    true = Crossing._dry

    def dry(self: Crossing) -> None:
        true(self)
        self.pausing = False

    patch(Crossing, "_dry", dry)


@mutation
def the_old_network_counts_as_dry_when_the_broker_says_so(patch: Patch) -> None:
    true = Crossing._wait_for

    def wait_for(self: Crossing, step: Step, home: Any, about: str = "advertisement") -> None:
        true(self, step, home, "link" if step is Step.DRYING else about)

    patch(Crossing, "_wait_for", wait_for)


@mutation
def fences_that_are_lost_are_waited_for(patch: Patch) -> None:
    true = Crossing._is_known

    def is_known(self: Crossing, home: Any) -> None:
        if self.ahead is not None and self._step in (Step.DRYING, Step.LEAVING):
            self._report(home)
        else:
            true(self, home)

    patch(Crossing, "_is_known", is_known)


@mutation
def homes_that_do_not_come_back_are_waited_for(patch: Patch) -> None:
    patch(Crossing, "_look_for_lost", lambda self, now: None)


# -- the coordinator ------------------------------------------------------------------------------------


@mutation
def it_is_never_too_late_to_turn_back(patch: Patch) -> None:
    true = Switch._catch_up

    def turn_back(self: Switch) -> bool:
        self._back = True
        return True

    def orders(self: Switch, reports: Any) -> Any:
        self.waits_for = []
        true(self, reports)
        return list(self._backward(reports) if self._back else self._forward(reports))

    patch(Switch, "turn_back", turn_back)
    patch(Switch, "orders", orders)


@mutation
def a_new_coordinator_begins_at_the_beginning(patch: Patch) -> None:
    patch(Switch, "_catch_up", lambda self, reports: None)


# -- the broker -----------------------------------------------------------------------------------------


@mutation
def whoever_comes_is_not_told(patch: Patch) -> None:
    def link_up(self: Generations, context: Any, link: Any, now: int) -> None:
        self.link_lost(context, link, now)

    patch(Generations, "link_up", link_up)


@mutation
def what_was_told_counts_as_reached(patch: Patch) -> None:
    def stage(self: Generations, link: Any) -> int:
        told = self._told.get(link)
        return told.stage if told is not None else 0

    patch(Generations, "_stage", stage)


@mutation
def clients_on_standby_are_left_alone(patch: Patch) -> None:
    true = Generations._tell

    def tell(self: Generations, context: Any, link: Any) -> None:
        if not self.standby:
            true(self, context, link)

    patch(Generations, "_tell", tell)


@mutation
def newcomers_belong_to_the_generation_that_ends(patch: Patch) -> None:
    true = Generations._take

    def take(self: Generations, context: Any, orders: Any) -> None:
        hosting = self._hosting
        before = hosting.receives_in  # type: ignore[attr-defined]
        true(self, context, orders)
        if orders.stage == NEW:
            hosting.receive_in(before)

    patch(Generations, "_take", take)
