"""The coordinator's questions and commands to brokers during a switch (`module.py` answers them).

generation        the generation that a broker belongs to, and how far its clients are with a switch
open-generation   a command: begin another generation of the network in this process, beside the present one
set-goal          a command: the stage that clients are to reach between the two generations
close-generation  a command: end one of two generations here
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from runnel.broker.questions import Command, Question
from runnel.wire.messages import Address, Name, Stage, Version
from runnel.wire.messages import Generation as GenerationNumber


class Generation(Question, frozen=True):
    """No argument."""

    asked_as: ClassVar[str] = "generation"


class OpenGeneration(Command, frozen=True):
    """A generation, and the neighbours to dial in it. `standby`: where clients go, if the broker is on standby.

    `accepts` are the neighbours that dial this broker; with "*" among them, any broker may.
    """

    asked_as: ClassVar[str] = "open-generation"

    generation: GenerationNumber
    dials: dict[Name, Address] = field(default_factory=dict)
    standby: Address = ""
    reserve: dict[Name, Address] = field(default_factory=dict)
    """The brokers on standby, and where they are: the next plan may need them."""

    accepts: tuple[Name, ...] = ("*",)


class SetGoal(Command, frozen=True):
    """The stage that clients are to reach, and where; `stages` and `addresses` are for single clients by name."""

    asked_as: ClassVar[str] = "set-goal"

    generation: GenerationNumber
    version: Version
    stage: Stage
    address: Address
    stages: dict[Name, Stage] = field(default_factory=dict)
    addresses: dict[Name, Address] = field(default_factory=dict)


class CloseGeneration(Command, frozen=True):
    """The generation to end."""

    asked_as: ClassVar[str] = "close-generation"

    generation: GenerationNumber
