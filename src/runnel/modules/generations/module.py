"""The broker's side of a switch: it passes the orders to its clients, and reports how far they are.

Every broker of both generations has this module. Its orders come from the coordinator, or from neighbours (*hearsay*,
which lacks the orders for single clients). A client gets its goal when its link begins, before any fence, and whenever
the orders for it change.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from runnel.broker.links import Link
from runnel.broker.module import Context, Module, ModuleKind, Surroundings
from runnel.broker.questions import Answers, Reply
from runnel.modules.generations.messages import Switching
from runnel.modules.generations.questions import (
    CloseGeneration,
    Generation,
    OpenGeneration,
    SetGoal,
)
from runnel.wire import ID_MAX, Goal, Reached, Stage


class Hosting(Protocol):
    """The process around a broker: it can host brokers of two generations.

    `settled` is the generation that it would host after a restart.
    """

    settled: int

    def open(self, order: OpenGeneration) -> None:
        """Begin a generation; does nothing if it exists."""
        ...

    def close(self, generation: int) -> None:
        """End one of two generations."""
        ...

    def receive_in(self, generation: int) -> None:
        """Assign clients that name no generation to this one."""
        ...


class ClientReport(msgspec.Struct, frozen=True):
    """A client: whether it is connected and publishes, its stage, and whether it has reached the goal it was sent."""

    is_up: bool
    publishes: bool
    stage: Stage
    is_settled: bool


class GenerationReport(msgspec.Struct, frozen=True):
    """What the broker of one generation reports. `about`: the generation that its orders are for; 0 without orders."""

    broker: str
    address: str
    generation: int
    about: int
    version: int
    stage: Stage
    links: list[str]  # neighbours that are connected
    clients: dict[str, ClientReport]
    reserve: dict[str, str] = {}  # brokers on standby, and where they are
    standby: str = ""  # if it is on standby itself: where its clients are sent


class Generations(Module):
    """See the top of the file. `generation` is the broker's own.

    `standby`: where clients are sent if this broker is on standby. `reserve`: the brokers on standby.
    """

    name = "generations"
    messages = (Reached, Switching)

    def __init__(
        self,
        generation: int,
        hosting: Hosting,
        address: str = "",
        standby: str = "",
        reserve: dict[str, str] | None = None,
    ) -> None:
        self.generation = generation
        self.address = address
        self.standby = standby
        self.reserve = reserve or {}
        self._hosting = hosting
        self._orders: SetGoal | None = None
        # The orders are from a neighbour, without those for single clients.
        self._is_hearsay = False
        self._told: dict[Link, Goal] = {}
        self._reached: dict[Link, Reached] = {}

    # -- what the broker calls ------------------------------------------------------------------------

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """Tell a new peer of the switch before anything else."""
        self.link_lost(context, link, now)
        if link.is_client:
            self._send_goal(context, link)
        elif link.is_neighbour and self._orders is not None:
            context.send(link, _to_neighbours(self._orders))

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """Forget what was sent to, and reached by, the peer."""
        self._told.pop(link, None)
        self._reached.pop(link, None)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """A client reports its stage, or a neighbour passes on the state of the switch."""
        if isinstance(message, Reached):
            self._reached[link] = message
            is_over = message.generation == self.generation == self._hosting.settled
            if is_over and message.stage < Stage.NEW:
                # It was away during the switch, and nobody else will tell it.
                context.send(link, Goal(self.generation, ID_MAX, Stage.NEW, ""))
        elif self._orders is None or _order_age(message) > _order_age(self._orders):
            self._is_hearsay = True
            self._adopt(context, self._merge_hearsay(message))

    def _merge_hearsay(self, told: Switching) -> SetGoal:
        """A neighbour's orders, with the orders for single clients that are known here."""
        heard = SetGoal(told.generation, told.version, told.stage, told.address)
        known = self._orders
        if known is None or known.generation != told.generation:
            return heard
        return msgspec.structs.replace(heard, stages=known.stages, addresses=known.addresses)

    # -- orders ---------------------------------------------------------------------------------------

    def answers(self) -> Answers:
        """The questions and commands of the coordinator."""
        return {
            Generation: self._answer,
            OpenGeneration: self._open,
            SetGoal: self._set_goal,
            CloseGeneration: self._close,
        }

    def _answer(self, context: Context, _: Generation, now: int) -> Reply:
        return msgspec.to_builtins(self.report(context))  # type: ignore[no-any-return]

    def _open(self, context: Context, order: OpenGeneration, now: int) -> Reply:
        if order.generation == self.generation:
            self.reserve = order.reserve
        else:
            self._hosting.open(order)
        return {}

    def _set_goal(self, context: Context, order: SetGoal, now: int) -> Reply:
        self.set_goal(context, order)
        return {}

    def _close(self, context: Context, order: CloseGeneration, now: int) -> Reply:
        self._hosting.close(order.generation)
        return {}

    def set_goal(self, context: Context, order: SetGoal) -> None:
        """Orders of the coordinator."""
        if self._orders is None or _order_age(order) >= _order_age(self._orders):
            self._is_hearsay = False
            self._adopt(context, order)

    def _adopt(self, context: Context, orders: SetGoal) -> None:
        self._orders = orders
        if Stage.BOTH <= orders.stage < Stage.NEW:
            context.arbiter.freeze()
        else:
            context.arbiter.thaw()
        if orders.stage == Stage.NEW:
            self._hosting.receive_in(orders.generation)
        for link in context.links.values():
            if link.is_client:
                self._send_goal(context, link)
            elif link.is_neighbour:
                context.send(link, _to_neighbours(orders))

    def _send_goal(self, context: Context, link: Link) -> None:
        orders = self._orders
        if self.standby:  # the broker there sends them further if need be
            orders = SetGoal(self.generation, 1, Stage.NEW, self.standby)
        if orders is None:
            return
        stage = orders.stages.get(link.name, orders.stage)
        told = self._told.get(link)
        is_same = told is not None and (told.generation, told.stage) == (orders.generation, stage)
        if is_same and self._is_settled(link):
            return  # otherwise it may still follow an earlier goal
        is_there = orders.generation == self.generation and not self.standby
        address = "" if is_there else orders.addresses.get(link.name, orders.address)
        # The coordinator's orders rank above hearsay.
        version = 2 * orders.version + (not self._is_hearsay)
        self._told[link] = Goal(orders.generation, version, stage, address)
        context.send(link, self._told[link])

    # -- the report -----------------------------------------------------------------------------------

    def report(self, context: Context) -> GenerationReport:
        """How far this broker and its clients are."""
        orders = self._orders
        publishing = {row.link for row in context.tables.srt.values() if row.link.is_client}
        clients = {
            link.name: ClientReport(
                link.established, link in publishing, self._stage(link), self._is_settled(link)
            )
            for link in context.links.values()
            if link.is_client
        }
        return GenerationReport(
            context.name,
            self.address,
            self.generation,
            orders.generation if orders is not None else 0,
            orders.version if orders is not None and not self._is_hearsay else 0,
            orders.stage if orders is not None else Stage.OLD,
            [
                link.name
                for link in context.links.values()
                if link.is_neighbour and link.established
            ],
            clients,
            self.reserve,
            self.standby,
        )

    def _stage(self, link: Link) -> Stage:
        reached, orders = self._reached.get(link), self._orders
        if reached is None or orders is None or reached.generation != orders.generation:
            return Stage.OLD
        return reached.stage

    def _is_settled(self, link: Link) -> bool:
        told, reached = self._told.get(link), self._reached.get(link)
        if told is None or reached is None or told.generation != reached.generation:
            return False
        return reached.stage == told.stage and reached.version >= told.version


def _order_age(orders: SetGoal | Switching) -> tuple[int, int]:
    """Orders with a greater value are later."""
    return orders.generation, orders.version


def _to_neighbours(orders: SetGoal) -> Switching:
    return Switching(orders.generation, orders.version, orders.stage, orders.address)


def _make(around: Surroundings, settings: None) -> tuple[Module, ...]:
    """`hosting` is the process around the broker, `place` the order by which it began this generation."""
    place: OpenGeneration = around.services["place"]
    hosting: Hosting = around.services["hosting"]
    return (Generations(around.generation, hosting, around.address, place.standby, place.reserve),)


GENERATIONS = ModuleKind(
    name="generations",
    purpose="leads clients from one generation of the network to the next while a plan is applied",
    make=_make,
    needs=("hosting", "place"),
)
