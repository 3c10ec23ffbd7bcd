"""Bugs planted in the migration of publishers; see mutations.py."""

from __future__ import annotations

from typing import Any

from runnel.client.publishing import Advertiser
from runnel.modules.placement import migration
from runnel.routing.tree import TreeRouting
from runnel.wire import Mcm, Mum
from runnel.wire.registry import REGISTRY, Lane
from simulation.mutations import Patch, mutation


@mutation
def stale_subscriptions_go_with_the_mum(patch: Patch) -> None:
    """What the paper prints as operation #2."""
    true = TreeRouting.turn

    def turn(self: TreeRouting, link: Any, id: int, epoch: int, ttl: int) -> None:
        true(self, link, id, epoch, ttl)
        left = self.tables.leaving[id].link
        if left in self._outbound:
            selection = self.tables.srt[id].selection
            for subscription in list(self.tables.subscriptions_intersecting(selection)):
                self._unwant(left, subscription)

    patch(TreeRouting, "turn", turn)


@mutation
def subscriptions_do_not_follow_the_publisher(patch: Patch) -> None:
    patch(
        TreeRouting, "turn", lambda self, *a: self.tables.turn_advertisement(*_turned(a)) and None
    )


def _turned(a: tuple[Any, ...]) -> tuple[Any, ...]:
    link, id, epoch, ttl = a
    return id, link, epoch, ttl


@mutation
def stale_subscriptions_stay(patch: Patch) -> None:
    patch(TreeRouting, "settle", lambda self, leaving: self.tables.settle(leaving.row.id))


@mutation
def what_another_publisher_needs_goes_too(patch: Patch) -> None:
    def unwant_all(self: TreeRouting, link: Any, row: Any) -> None:
        if link in self._outbound and self.config.advertisements:
            for subscription in list(self.tables.subscriptions_intersecting(row.selection)):
                self._unwant(link, subscription)

    patch(TreeRouting, "_unwant_all", unwant_all)


@mutation
def a_lost_source_is_waited_for(patch: Patch) -> None:
    def link_lost(self: Any, context: Any, link: Any, now: int) -> None:
        for leaving in list(context.tables.leaving.values()):
            if leaving.link is link:
                context.strategy.settle(leaving)

    patch(migration.Migration, "link_lost", link_lost)


@mutation
def the_mcm_overtakes_data(patch: Patch) -> None:
    patch(REGISTRY, "_lanes", REGISTRY._lanes | {Mcm: Lane.MONITOR})


@mutation
def the_mum_is_answered_by_the_target(patch: Patch) -> None:
    true = migration.Migration._update

    def update(self: Any, context: Any, link: Any, mum: Mum) -> None:
        true(self, context, link, mum)
        if link.is_client and mum.id in context.tables.leaving:
            context.send(link, Mcm(mum.id, mum.epoch))

    patch(migration.Migration, "_update", update)


@mutation
def publishing_goes_on_while_it_migrates(patch: Patch) -> None:
    true = Advertiser.pause

    def pause(self: Advertiser, id: int) -> int:
        sent = true(self, id)
        self.publishers[id].paused = False
        return sent

    patch(Advertiser, "pause", pause)


@mutation
def the_source_need_not_have_everything(patch: Patch) -> None:
    patch(Advertiser, "has_taken", lambda self, sent: True)


@mutation
def counters_start_again_at_the_target(patch: Patch) -> None:
    true = Advertiser.adopt

    def adopt(self: Advertiser, id: int, source: Advertiser) -> None:
        true(self, id, source)
        assert self._homes.home is not None
        self._homes.home.counters[id] = 0

    patch(Advertiser, "adopt", adopt)


@mutation
def one_that_is_back_goes_on_at_once(patch: Patch) -> None:
    true = Advertiser.take_back

    def take_back(self: Advertiser, id: int) -> None:
        true(self, id)
        self.publishers[id].paused = False

    patch(Advertiser, "take_back", take_back)


@mutation
def one_that_is_back_keeps_its_id(patch: Patch) -> None:
    patch(Advertiser, "take_back", lambda self, id: self.resume(id))


@mutation
def readiness_is_told_from_where_it_was(patch: Patch) -> None:
    def pause(self: Advertiser, id: int) -> int:
        self.publishers[id].paused = True
        home = self._homes.home
        assert home is not None
        return home.outstanding[-1] if home.outstanding else 0

    patch(Advertiser, "pause", pause)


@mutation
def a_broken_path_counts_as_whole(patch: Patch) -> None:
    true = Advertiser.report_migrated
    patch(
        Advertiser,
        "report_migrated",
        lambda self, home, mcm: true(self, home, Mcm(mcm.id, mcm.epoch)),
    )
