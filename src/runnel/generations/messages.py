"""What brokers of one generation tell each other about a switch, so that one that starts anew knows of it too."""

from __future__ import annotations

from runnel.wire import Lane, Message, register
from runnel.wire.messages import Address, Count, Stage


class Switching(Message, frozen=True):
    """How far clients of whom nobody said anything else are to go, and where."""

    generation: Count
    version: Count
    stage: Stage
    address: Address


# Before the fences that come behind it: a client that is ready has been told of the switch.
register(80, Switching, Lane.DATA)
