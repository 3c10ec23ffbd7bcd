"""A module outside of the package, in one file: `tally` knows how many publications have come to each neighbour.

It is the template for modules: docs/extending.md says what to change in a copy.

It has one of everything that a module can bring: a message, a timer, a question, a setting, a line in `status` and
something that must hold.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from runnel.broker.links import Link
from runnel.broker.module import Context, Module, ModuleKind, Surroundings
from runnel.broker.questions import Answers, Question, Reply
from runnel.compose import register_module
from runnel.errors import demand
from runnel.quantities import SECOND
from runnel.wire import Lane, Message, Way, register
from runnel.wire.messages import Count

TELL = "tally:tell"


class Tallied(Message, frozen=True):
    """To a neighbour: so many publications have come to this broker."""

    count: Count


# Tags from 240 on are for tests: a copy takes another (docs/extending.md#all-messages).
register(250, Tallied, Lane.MONITOR, Way.BETWEEN_BROKERS)


class TallyConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How often neighbours are told."""

    every_s: Annotated[float, Meta(ge=0.05, le=3_600)] = 10.0


class TallyOf(Question, frozen=True):
    """How many publications have come to a neighbour?"""

    asked_as: ClassVar[str] = "tally"

    neighbour: str


class TallyModule(Module):
    """The module "tally"."""

    name = "tally"
    messages = (Tallied,)
    timers = (TELL,)

    def __init__(self, config: TallyConfig) -> None:
        self.counts: dict[str, int] = {}
        self._every_ns = round(config.every_s * SECOND)

    def answers(self) -> Answers:
        return {TallyOf: self._tally_of}

    def status(self, context: Context, now: int) -> Reply:
        return {"neighbours heard of": len(self.counts), "publications": sum(self.counts.values())}

    def check(self, context: Context) -> None:
        for name, count in self.counts.items():
            demand(count >= 0, f"{name} has taken in {count} publications")

    def start(self, context: Context, now: int) -> None:
        context.set_timer(TELL, now + self._every_ns)

    def timer(self, context: Context, timer: str, now: int) -> None:
        for link in context.links.values():
            if link.is_neighbour and link.established:
                context.send(link, Tallied(context.meter.publications_in))
        context.set_timer(TELL, now + self._every_ns)

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        self.counts[link.name] = message.count

    def _tally_of(self, context: Context, asked: TallyOf, now: int) -> Reply:
        return {"count": self.counts.get(asked.neighbour)}


def _make(around: Surroundings, settings: TallyConfig) -> tuple[Module, ...]:
    return (TallyModule(settings),)


TALLY = ModuleKind(
    name="tally",
    purpose="knows how many publications have come to each neighbour",
    make=_make,
    settings=TallyConfig,
)

register_module(TALLY)
