"""The kinds "placement" and "migration": what `compose.py` makes of the state machines in this folder.

"migration" is a module of its own, since a broker hands publishers on whether or not it looks for better places.
"""

from __future__ import annotations

from runnel.broker.module import Module, ModuleKind, Surroundings
from runnel.modules.placement.answers import PlacementAnswers
from runnel.modules.placement.config import PlacementConfig
from runnel.modules.placement.grape_module import Grape
from runnel.modules.placement.migration import Migration, relocate
from runnel.modules.placement.pop_module import Pop


def _make(around: Surroundings, settings: PlacementConfig) -> tuple[Module, ...]:
    """Both algorithms, whichever is on: a broker must answer those of other brokers."""
    pop = Pop(settings, relocate, around.address, around.chance)
    grape = Grape(settings, relocate, around.address)
    return (pop, grape, PlacementAnswers(pop, grape))


PLACEMENT = ModuleKind(
    name="placement",
    purpose="finds where publishers cause the least load or delay, and moves them there (POP, GRAPE)",
    make=_make,
    settings=PlacementConfig,
)

MIGRATION = ModuleKind(
    name="migration",
    purpose="hands publishers on from broker to broker while they publish",
    make=lambda around, settings: (Migration(),),
)
