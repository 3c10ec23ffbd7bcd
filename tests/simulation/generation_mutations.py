"""Bugs planted in the switch from one generation to another; see mutations.py."""

from __future__ import annotations

from typing import Any

from runnel.client.crossing import Crossing, CrossingEvent, Position
from runnel.client.order import OrderKeeper
from runnel.modules.generations.module import Generations
from runnel.operate.switch import Switch
from runnel.wire import Stage
from runnel.wire.messages import About
from simulation.mutations import Patch, mutation

DRYING_OR_LEAVING = (
    *(Position.DRYING_OLD, Position.DRYING_NEW),
    *(Position.LEAVING_OLD, Position.LEAVING_NEW),
)

# -- the session ----------------------------------------------------------------------------------------


@mutation
def unknown_advertisements_are_not_held(patch: Patch) -> None:
    patch(OrderKeeper, "hold_back", lambda self, home, publication: False)


@mutation
def a_fence_for_one_advertisement_lets_out_all(patch: Patch) -> None:
    def link_drained(self: OrderKeeper, home: Any, token: int) -> None:
        other = self._homes.other(home)
        if other is not None:
            self.stop_waiting(other)

    patch(OrderKeeper, "link_drained", link_drained)


@mutation
def what_is_held_is_forgotten_when_a_home_is_left(patch: Patch) -> None:
    true = OrderKeeper.stop_waiting

    def stop_waiting(self: OrderKeeper, *homes: Any) -> None:
        for home in homes:
            for publications in home.held.by.values():
                publications.clear()
        true(self, *homes)

    patch(OrderKeeper, "stop_waiting", stop_waiting)


@mutation
def the_outlet_changes_before_the_old_network_is_dry(patch: Patch) -> None:
    patch(Crossing, "_wait_until_dry", lambda self: self._finish_step(CrossingEvent.DRY))


@mutation
def publishing_goes_on_while_the_old_network_dries(patch: Patch) -> None:
    true = Crossing._wait_until_dry

    def dry(self: Crossing) -> None:
        true(self)
        self.pausing = False

    patch(Crossing, "_wait_until_dry", dry)


@mutation
def the_old_network_counts_as_dry_when_the_broker_says_so(patch: Patch) -> None:
    true = Crossing._begin

    def begin(
        self: Crossing, event: CrossingEvent, home: Any, about: About = "advertisement"
    ) -> None:
        true(self, event, home, "link" if event is CrossingEvent.READY else about)

    patch(Crossing, "_begin", begin)


@mutation
def fences_that_are_lost_are_waited_for(patch: Patch) -> None:
    true = Crossing.home_registered

    def home_registered(self: Crossing, home: Any) -> None:
        if self.position in DRYING_OR_LEAVING:
            self._report(home)
        else:
            true(self, home)

    patch(Crossing, "home_registered", home_registered)


@mutation
def homes_that_do_not_come_back_are_waited_for(patch: Patch) -> None:
    patch(Crossing, "tick", lambda self, now: None)


# -- the coordinator ------------------------------------------------------------------------------------


@mutation
def it_is_never_too_late_to_turn_back(patch: Patch) -> None:
    true = Switch._catch_up

    def turn_back(self: Switch) -> bool:
        self._back = True
        return True

    def next_orders(self: Switch, reports: Any) -> Any:
        self.waits_for = []
        true(self, reports)
        return list(self._backward(reports) if self._back else self._forward(reports))

    patch(Switch, "turn_back", turn_back)
    patch(Switch, "next_orders", next_orders)


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
        return told.stage if told is not None else Stage.OLD

    patch(Generations, "_stage", stage)


@mutation
def clients_on_standby_are_left_alone(patch: Patch) -> None:
    true = Generations._send_goal

    def tell(self: Generations, context: Any, link: Any) -> None:
        if not self.standby:
            true(self, context, link)

    patch(Generations, "_send_goal", tell)


@mutation
def newcomers_belong_to_the_generation_that_ends(patch: Patch) -> None:
    true = Generations._adopt

    def take(self: Generations, context: Any, orders: Any) -> None:
        hosting = self._hosting
        before = hosting.receives_in  # type: ignore[attr-defined]
        true(self, context, orders)
        if orders.stage == Stage.NEW:
            hosting.receive_in(before)

    patch(Generations, "_adopt", take)
