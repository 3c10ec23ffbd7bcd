"""Publisher migration at brokers: placement §III-C, operations #1 to #3, made lossless by data order.

    publisher ─ MUM ─▶ target ─ MUM ─▶ … ─ MUM ─▶ source        along the advertisement's own route
    publisher ◀─ MCM ─ target ◀─ MCM ─ … ◀─ MCM ─ source        behind everything that was under way

The publisher has paused, and the source has everything that it published. It connects to the target and sends a MUM,
the paper's migration advertisement. A broker that gets a MUM turns the advertisement to the direction that the MUM came
from (operation #1), sends the subscriptions that it concerns there (#3), and passes the MUM on in the old direction.
The source answers with an MCM. When a broker gets the MCM, everything published at the source has passed it, and every
subscription that the target needs has arrived there. Only then the subscriptions leave the old direction (#2, which the
paper does at the MUM), unless another publisher there concerns them. Only the brokers on the path take part.

The state of a migration is a row of the broker's tables, `Leaving`: the direction that the MUM came from and the MCM
goes to, and the direction that the MUM went to and the MCM comes from. Faults are handled like this:

- The path to the source is lost, or the advertisement is not known (the source has crashed): it is unknown what is
  still under way. So the MCM says `broken`, and the publisher goes back.
- The path to the target is lost, or the publisher withdrew: the advertisement is withdrawn, as with every lost link,
  but publications under way from the source still arrive. The publisher, if it is alive, goes back.

To go back, a publisher sets up another advertisement at the source. So a migration is either finished or undone; parts
of the network that were cut off meanwhile learn the later place by its epoch (routing/tree/strategy.py).
"""

from __future__ import annotations

from typing import Any

from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.broker.tables import Leaving
from runnel.wire import Mcm, Mum, Relocate


def relocate(context: Context, advertisement: int, broker: str, address: str, now: int) -> bool:
    """Ask a publisher of this broker to migrate; False if there is no such publisher, or it migrates already."""
    row = context.tables.srt.get(advertisement)
    if row is None or not row.link.is_client or advertisement in context.tables.leaving:
        return False
    context.send(row.link, Relocate(advertisement, broker, address))
    return True


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
        """A lost link: end the migrations that wait for an MCM from it, and send no MCM to it."""
        context.tables.forget_waiting(link)
        for leaving in list(context.tables.leaving.values()):
            if leaving.link is link:
                self._settle(context, leaving, broken=True)

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
