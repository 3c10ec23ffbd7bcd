"""What a broker can be asked: the base of questions and commands, and of what answers them.

A question is asked by name over a connection (modules/inspection/), with an argument that is a map on the wire and a
Struct here: what is missing has its default, what is unknown is refused. The module that knows the answer declares the
question (`Module.answers`); asking changes nothing, unless the question is a `Command`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import msgspec

ROWS_MAX = 1_000
"""How many rows an answer holds at most: a broker with millions of them must not choke on a question."""

Rows = Annotated[int, msgspec.Meta(ge=0, le=ROWS_MAX)]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every argument is made from."""

    asked_as: ClassVar[str]
    """The name of the question on the wire."""


class Command(Question, frozen=True):
    """Changes something; all other questions do not."""


Reply = dict[str, Any]
"""Plain data; {"error": why} where there is no answer."""

Answers = Mapping[type[Question], Callable[[Any, Any, int], Reply]]
"""Who answers which question: a function of the broker's context, the argument and the time."""
