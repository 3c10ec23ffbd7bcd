"""The broker's side of a switch: it tells its clients how far to go, and answers how far they are.

Every broker of either generation has one, with the same orders: those of the coordinator, or as far as neighbours know
them. A client is told when its link begins, before any fence, and whenever the orders for it change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from runnel.broker.links import Link
from runnel.broker.module import Context, Module
from runnel.generations.messages import Switching
from runnel.inspection.ask import NAME_PREFIX
from runnel.inspection.questions import CloseGeneration, Generation, OpenGeneration, SetGoal
from runnel.wire import ID_MAX, Goal, Reached

OLD, BOTH, AHEAD, NEW = range(4)
"""The stages; client/crossing.py says what they mean."""


class Hosting(Protocol):
    """The process around a broker: it can have two of them, of two generations.

    `settled` is the one that it would have if it started anew.
    """

    settled: int

    def open(self, order: OpenGeneration) -> None:
        """Begin a generation; nothing happens if it is there."""
        ...

    def close(self, generation: int) -> None:
        """End one of two generations."""
        ...

    def receive_in(self, generation: int) -> None:
        """Clients that do not say where they belong belong there."""
        ...


class ClientReport(msgspec.Struct, frozen=True):
    """A client: whether it is connected, whether it publishes, how far it is, and if that is what it was told."""

    is_up: bool
    publishes: bool
    stage: int
    is_settled: bool


class Report(msgspec.Struct, frozen=True):
    """What the broker of one generation says. `about`: which generation its orders are for; 0 if it has none."""

    broker: str
    address: str
    generation: int
    about: int
    version: int
    stage: int
    links: list[str]  # neighbours that are connected
    clients: dict[str, ClientReport]
    reserve: dict[str, str] = {}  # brokers on standby, and where they are
    standby: str = ""  # it is one itself: where its clients are sent


class Generations(Module):
    """See the top of the file. `generation` is the broker's own.

    `standby`: where clients are sent to, if the broker has no place in the network.
    """

    name = "generations"
    messages = (Reached, Switching)

    def __init__(
        self, generation: int, hosting: Hosting, address: str = "", standby: str = ""
    ) -> None:
        self.generation = generation
        self.address = address
        self.standby = standby
        self.reserve: dict[str, str] = {}
        self._hosting = hosting
        self._orders: SetGoal | None = None
        self._is_hearsay = False  # the orders are as neighbours know them, not for single clients
        self._told: dict[Link, Goal] = {}
        self._reached: dict[Link, Reached] = {}

    # -- what the broker calls ------------------------------------------------------------------------

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """Whoever comes is told of a switch before anything else."""
        self.link_lost(context, link, now)
        if link.is_client:
            self._tell(context, link)
        elif self._orders is not None:
            context.send(link, _gossip(self._orders))

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """Nothing is known of who is gone."""
        self._told.pop(link, None)
        self._reached.pop(link, None)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """A client says how far it is, or a neighbour how far the switch is."""
        if isinstance(message, Reached):
            self._reached[link] = message
            is_over = message.generation == self.generation == self._hosting.settled
            if is_over and message.stage < NEW:  # it was away, and nobody else tells it any more
                context.send(link, Goal(self.generation, ID_MAX, NEW, ""))
        elif self._orders is None or _age(message) > _age(self._orders):
            self._is_hearsay = True
            self._take(context, self._as_heard(message))

    def _as_heard(self, told: Switching) -> SetGoal:
        """What a neighbour knows, with what is known here of single clients."""
        heard = SetGoal(told.generation, told.version, told.stage, told.address)
        known = self._orders
        if known is None or known.generation != told.generation:
            return heard
        return msgspec.structs.replace(heard, stages=known.stages, addresses=known.addresses)

    # -- orders ---------------------------------------------------------------------------------------

    def answers(self) -> Mapping[type[Any], Any]:
        """What it answers to questions and commands of the coordinator."""
        return {
            Generation: self._answer,
            OpenGeneration: self._open,
            SetGoal: self._set_goal,
            CloseGeneration: self._close,
        }

    def _answer(self, context: Context, _: Generation, now: int) -> dict[str, Any]:
        return msgspec.to_builtins(self.report(context))  # type: ignore[no-any-return]

    def _open(self, context: Context, order: OpenGeneration, now: int) -> dict[str, Any]:
        if order.generation == self.generation:
            self.reserve = order.reserve
        else:
            self._hosting.open(order)
        return {}

    def _set_goal(self, context: Context, order: SetGoal, now: int) -> dict[str, Any]:
        self.set_goal(context, order)
        return {}

    def _close(self, context: Context, order: CloseGeneration, now: int) -> dict[str, Any]:
        self._hosting.close(order.generation)
        return {}

    def set_goal(self, context: Context, order: SetGoal) -> None:
        """Orders of the coordinator."""
        if self._orders is None or _age(order) >= _age(self._orders):
            self._is_hearsay = False
            self._take(context, order)

    def _take(self, context: Context, orders: SetGoal) -> None:
        self._orders = orders
        context.arbiter.frozen = BOTH <= orders.stage < NEW
        if orders.stage == NEW:
            self._hosting.receive_in(orders.generation)
        for link in context.links.values():
            if link.is_client:
                self._tell(context, link)
            else:
                context.send(link, _gossip(orders))

    def _tell(self, context: Context, link: Link) -> None:
        orders = self._orders
        if self.standby:  # from where they are sent to they are taken further
            orders = SetGoal(self.generation, 1, NEW, self.standby)
        if orders is None or link.name.startswith(NAME_PREFIX):
            return
        stage = orders.stages.get(link.name, orders.stage)
        told = self._told.get(link)
        is_same = told is not None and (told.generation, told.stage) == (orders.generation, stage)
        if is_same and self._is_settled(link):
            return  # else it may be going where others had sent it before
        is_there = orders.generation == self.generation and not self.standby
        address = "" if is_there else orders.addresses.get(link.name, orders.address)
        version = 2 * orders.version + (not self._is_hearsay)  # orders outdo hearsay
        self._told[link] = Goal(orders.generation, version, stage, address)
        context.send(link, self._told[link])

    # -- the report -----------------------------------------------------------------------------------

    def report(self, context: Context) -> Report:
        """How far everybody is."""
        orders = self._orders
        publishing = {row.link for row in context.tables.srt.values() if row.link.is_client}
        clients = {
            link.name: ClientReport(
                link.established, link in publishing, self._stage(link), self._is_settled(link)
            )
            for link in context.links.values()
            if link.is_client and not link.name.startswith(NAME_PREFIX)
        }
        return Report(
            context.name,
            self.address,
            self.generation,
            orders.generation if orders is not None else 0,
            orders.version if orders is not None and not self._is_hearsay else 0,
            orders.stage if orders is not None else 0,
            [
                link.name
                for link in context.links.values()
                if not link.is_client and link.established
            ],
            clients,
            self.reserve,
            self.standby,
        )

    def _stage(self, link: Link) -> int:
        reached, orders = self._reached.get(link), self._orders
        if reached is None or orders is None or reached.generation != orders.generation:
            return OLD
        return reached.stage

    def _is_settled(self, link: Link) -> bool:
        told, reached = self._told.get(link), self._reached.get(link)
        if told is None or reached is None or told.generation != reached.generation:
            return False
        return reached.stage == told.stage and reached.version >= told.version


def _age(orders: SetGoal | Switching) -> tuple[int, int]:
    """By which of two orders the later one is known."""
    return orders.generation, orders.version


def _gossip(orders: SetGoal) -> Switching:
    return Switching(orders.generation, orders.version, orders.stage, orders.address)
