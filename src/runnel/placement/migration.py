"""Publisher migration at brokers: placement §III-C, operations #1 to #3, made lossless by data order.

    publisher ─ MUM ─▶ target ─ MUM ─▶ … ─ MUM ─▶ source        along the advertisement's own route
    publisher ◀─ MCM ─ target ◀─ MCM ─ … ◀─ MCM ─ source        behind everything that was under way

The publisher has paused, and the source has all it published. It connects to the target and sends a MUM, the paper's
migration advertisement. A broker that a MUM reaches turns the advertisement towards where the MUM came from
(operation #1), sends the subscriptions that it concerns there (#3), and passes the MUM on to where the publisher was.
The source answers. Where the MCM passes, everything published at the source has passed before, and every subscription
has arrived that the target must know of; only then subscriptions leave the old direction (#2, which the paper does at
the MUM), unless another publisher there concerns them. Nobody but the brokers on the path is told anything.

What a broker knows of a migration under way is in its tables: `Leaving`, with the direction that the MUM came from
and the MCM goes to, and the one that it went to and the MCM comes from. It is the same for every fault:

- The way to the source is lost, or the advertisement is not known (the source has crashed): nobody can say what is
  still under way, so the MCM says that it is broken, and the publisher goes back.
- The way to the target is lost, or the publisher withdrew: the advertisement is gone with it, as with every link; but
  what is under way from the source still comes. The publisher, if it lives, goes back.

To go back is to set up another advertisement at the source. So a migration is finished or undone, and never half;
parts of the network that were cut off meanwhile learn the later place by its epoch (routing/tree.py).
"""

from __future__ import annotations

from typing import Any

from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.broker.tables import Leaving
from runnel.wire import Mcm, Mum, Relocate


class Migration(Module):
    """The module "migration"."""

    name = "migration"
    messages = (Mum, Mcm)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """A MUM on its way to the source, or an MCM on its way back."""
        if isinstance(message, Mum):
            self._update(context, link, message)
        else:
            self._complete(context, link, message)

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """Nothing comes from there any more: whoever waits for it need not. Or nobody waits there any more."""
        for leaving in list(context.tables.leaving.values()):
            if leaving.told_by is link:
                leaving.told_by = None
            if leaving.link is link:
                self._settle(context, leaving, broken=True)

    def relocate(self, context: Context, advertisement: int, broker: str, address: str) -> bool:
        """Ask a publisher of this broker to migrate; whether it is one."""
        row = context.tables.srt.get(advertisement)
        if row is None or not row.link.is_client or advertisement in context.tables.leaving:
            return False
        context.send(row.link, Relocate(advertisement, broker, address))
        return True

    def _update(self, context: Context, link: Link, mum: Mum) -> None:
        row = context.tables.srt.get(mum.id)
        if link.is_client:
            self._note(context, "migration-begins", mum)
        if row is None or row.link is link or row.epoch >= mum.epoch:
            context.send(link, Mcm(mum.id, mum.epoch, broken=True))
            return
        source = row.link
        context.strategy.turn(link, mum.id, mum.epoch, mum.ttl)
        if source.is_client or not mum.ttl:
            self._note(context, "migration-ends", mum)
            self._settle(context, context.tables.leaving[mum.id])
        else:
            context.send(source, Mum(mum.id, mum.selection, mum.publisher, mum.ttl - 1, mum.epoch))

    def _complete(self, context: Context, link: Link, mcm: Mcm) -> None:
        leaving = context.tables.leaving.get(mcm.id)
        if leaving is not None and leaving.link is link and leaving.epoch == mcm.epoch:
            self._settle(context, leaving, broken=mcm.broken)

    def _settle(self, context: Context, leaving: Leaving, *, broken: bool = False) -> None:
        context.strategy.settle(leaving)
        if leaving.told_by is not None:
            context.send(leaving.told_by, Mcm(leaving.row.id, leaving.epoch, broken))

    @staticmethod
    def _note(context: Context, kind: str, mum: Mum) -> None:
        context.trace(kind, {"id": mum.id, "publisher": mum.publisher, "broker": context.name})
