"""Planted bugs of the announcement of losses: something is lost, and whoever misses it is not told, or told wrongly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runnel.broker.links import Drops, Link
from runnel.broker.losses import Losses, OpenLoss, Told
from runnel.broker.watermarks import Watermarks
from runnel.client.gaps import GapKeeper
from runnel.client.home import Home
from runnel.wire import Ack, Loss
from simulation.mutations import Patch, mutation

# -- brokers --------------------------------------------------------------------------------------------


@mutation
def losses_are_not_passed_on(patch: Patch) -> None:
    patch(Losses, "_pass_on", lambda self, source, loss: None)


@mutation
def only_one_client_is_told_of_a_loss(patch: Patch) -> None:
    true = Losses._concerned

    def concerned(self: Losses, rows: Iterable[Any]) -> Told:
        return dict(list(true(self, rows).items())[:1])

    patch(Losses, "_concerned", concerned)


@mutation
def a_loss_begins_when_it_is_noticed(patch: Patch) -> None:
    true = Losses._begin

    def begin(self: Losses, link: Link, loss: Loss, lost: Any, published: Any) -> None:
        late = Loss(loss.link, self._time_of_day(), 0, loss.reason)
        true(self, link, late, lost, published)

    patch(Losses, "_begin", begin)


@mutation
def a_neighbour_is_not_told_what_was_dropped(patch: Patch) -> None:
    true = Losses.tell_drops

    def tell_drops(self: Losses, link: Link) -> None:
        true(self, link)
        link.waiting_bytes -= len(link.data.waiting.popleft())

    patch(Losses, "tell_drops", tell_drops)


@mutation
def only_the_last_drop_is_told(patch: Patch) -> None:
    true = Drops.add

    def add(self: Drops, frame: bytes) -> None:
        self.count = 0
        true(self, frame)

    patch(Drops, "add", add)


@mutation
def a_loss_ends_although_another_link_is_missing_behind(patch: Patch) -> None:
    patch(Losses, "_continue", lambda self, loss, link: None)


@mutation
def a_loss_never_ends(patch: Patch) -> None:
    patch(Losses, "check_whole", lambda self: None)


@mutation
def a_loss_ends_and_nobody_is_told(patch: Patch) -> None:
    def end(self: Losses, loss: OpenLoss) -> None:
        del self.open[loss.link]

    patch(Losses, "_end", end)


@mutation
def publishers_are_told_from_when_a_loss_is_noticed(patch: Patch) -> None:
    true = Losses._begin

    def begin(self: Losses, link: Link, loss: Loss, lost: Any, published: Any) -> None:
        late = Loss(loss.link, self._time_of_day(), 0, loss.reason)
        true(self, link, late if published else loss, lost, published)

    patch(Losses, "_begin", begin)


@mutation
def publishers_far_away_are_not_told(patch: Patch) -> None:
    true = Losses.heard

    def heard(self: Losses, link: Link, loss: Loss) -> None:
        if not loss.published:
            true(self, link, loss)

    patch(Losses, "heard", heard)


# -- watermarks -----------------------------------------------------------------------------------------


@mutation
def every_watermark_is_the_present(patch: Patch) -> None:
    def rise(self: Watermarks) -> None:
        for link in self._sources():
            link.promise_watermark(self._time_of_day())

    patch(Watermarks, "rise", rise)


@mutation
def neighbours_are_left_out_of_watermarks(patch: Patch) -> None:
    true = Watermarks._of

    def of(link: Link, now: int) -> int:
        return now if link.is_neighbour else true(link, now)

    patch(Watermarks, "_of", staticmethod(of))


@mutation
def a_watermark_counts_before_what_it_speaks_of(patch: Patch) -> None:
    def take_watermark(self: Link, ack: Ack) -> None:
        self.watermark_ns = ack.watermark_ns or self.watermark_ns

    patch(Link, "_take_watermark", take_watermark)


@mutation
def links_that_are_down_are_left_out_of_watermarks(patch: Patch) -> None:
    true = Watermarks._sources

    def sources(self: Watermarks) -> list[Link]:
        return [link for link in true(self) if link.established]

    patch(Watermarks, "_sources", sources)


# -- sessions -------------------------------------------------------------------------------------------


@mutation
def a_broker_without_memory_makes_no_gap(patch: Patch) -> None:
    def memory_lost(self: GapKeeper, home: Home, watermark_ns: int, *, is_next: bool) -> None:
        pass

    patch(GapKeeper, "memory_lost", memory_lost)


@mutation
def a_broker_that_is_lost_makes_no_gap(patch: Patch) -> None:
    true = GapKeeper.home_left

    def home_left(
        self: GapKeeper, left: Home, stays: Home, *, lost: bool, missing: Any = ()
    ) -> None:
        true(self, left, stays, lost=False, missing=missing)

    patch(GapKeeper, "home_left", home_left)


@mutation
def a_gap_begins_when_the_broker_is_back(patch: Patch) -> None:
    true = GapKeeper.memory_lost

    def memory_lost(self: GapKeeper, home: Home, watermark_ns: int, *, is_next: bool) -> None:
        true(self, home, self._time_of_day(), is_next=is_next)

    patch(GapKeeper, "memory_lost", memory_lost)


@mutation
def what_a_broker_without_memory_told_is_forgotten(patch: Patch) -> None:
    true = GapKeeper.memory_lost

    def memory_lost(self: GapKeeper, home: Home, watermark_ns: int, *, is_next: bool) -> None:
        if (gaps := self._by_home.get(home)) is not None:
            gaps.told.clear()
        true(self, home, watermark_ns, is_next=is_next)

    patch(GapKeeper, "memory_lost", memory_lost)


@mutation
def the_gaps_of_a_home_that_was_left_are_forgotten(patch: Patch) -> None:
    def take_over(self: GapKeeper, left: Home, stays: Home) -> None:
        self._by_home.pop(left, None)

    patch(GapKeeper, "_take_over", take_over)


@mutation
def a_move_says_nothing_of_missing_links(patch: Patch) -> None:
    patch(GapKeeper, "_go_on", lambda self, home, missing, since_ns: None)


@mutation
def a_gap_is_over_before_routes_are_complete(patch: Patch) -> None:
    true = GapKeeper.home_registered

    def home_registered(self: GapKeeper, home: Home) -> None:
        true(self, home)
        if (gaps := self._by_home.get(home)) is not None:
            found, gaps.found = gaps.found, {}
            for link in found:
                self._report_over(link, self._time_of_day())

    patch(GapKeeper, "home_registered", home_registered)


@mutation
def a_gap_is_over_although_its_link_is_missing(patch: Patch) -> None:
    true = GapKeeper.take_fence

    def take_fence(self: GapKeeper, home: Home, missing: tuple[str, ...], now: int) -> None:
        true(self, home, (), now)

    patch(GapKeeper, "take_fence", take_fence)


@mutation
def publishing_goes_on_before_routes_are_complete(patch: Patch) -> None:
    patch(GapKeeper, "is_pausing", lambda self, home: False)
