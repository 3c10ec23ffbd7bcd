"""What brokers of one generation tell each other about a switch, so that a restarted broker learns of it."""

from __future__ import annotations

from runnel.wire import Lane, Message, Way, register
from runnel.wire.messages import Address, Generation, Stage, Version


class Switching(Message, frozen=True):
    """The stage that clients without orders of their own are to reach, and where they are to go."""

    generation: Generation
    version: Version
    stage: Stage
    address: Address


# In order with data, so that it arrives before the fences behind it: a client that is ready knows of the switch.
register(80, Switching, Lane.DATA, Way.BETWEEN_BROKERS)
