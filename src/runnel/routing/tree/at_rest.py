"""What a tree must look like at rest, by brute force: the oracle of the strategy `tree`, which shares no code with it.

Every broker knows every advertisement, in the direction of its publisher. A subscription is known on the paths
from its subscriber to the publishers that it concerns, or everywhere where advertisements do not steer. A publication
goes towards all who want it, and never back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runnel.routing.strategy import EntryAtRest, HopsById, Overlay


class TreeAtRest:
    """The tables and decisions of all brokers, recomputed from scratch."""

    def __init__(self, *, covering: bool, advertisements: bool) -> None:
        self._covering = covering
        self._by_advertisement = advertisements

    def tables(
        self,
        overlay: Overlay,
        advertisements: Sequence[EntryAtRest],
        subscriptions: Sequence[EntryAtRest],
    ) -> tuple[dict[str, HopsById], dict[str, HopsById] | None]:
        """SRT and PRT of every broker; with covering a PRT may be any part of that which answers the same."""
        srt: dict[str, HopsById] = {broker: {} for broker in overlay.brokers}
        prt: dict[str, HopsById] = {broker: {} for broker in overlay.brokers}
        for entry in advertisements:
            toward = overlay.toward(entry.home)
            for broker in overlay.part(entry.home):
                srt[broker][entry.id] = toward.get(broker, entry.client)
        for entry in subscriptions:
            toward = overlay.toward(entry.home)
            for broker in self._brokers_that_know(overlay, entry, advertisements):
                prt[broker][entry.id] = toward.get(broker, entry.client)
        return srt, None if self._covering else prt

    def _brokers_that_know(
        self, overlay: Overlay, entry: EntryAtRest, advertisements: Sequence[EntryAtRest]
    ) -> dict[str, None]:
        """The brokers that know a subscription."""
        if not self._by_advertisement:
            return dict.fromkeys(overlay.part(entry.home))
        reached = {entry.home: None}
        targets = dict.fromkeys(a.home for a in advertisements if a.want.intersects(entry.want))
        for target in targets:
            reached.update(dict.fromkeys(overlay.path(entry.home, target)))
        return reached

    def hops(
        self,
        overlay: Overlay,
        broker: str,
        publisher: EntryAtRest,
        attributes: dict[str, Any],
        wanted_by: Sequence[EntryAtRest],
    ) -> list[str]:
        """Towards all who want it, but not back to where it came from."""
        back = overlay.toward(publisher.home).get(broker)
        hops = {overlay.toward(entry.home).get(broker, entry.client): None for entry in wanted_by}
        hops.pop(back or "", None)
        return sorted(hops)
