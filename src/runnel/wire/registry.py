"""The registry: which message has which tag, and which lane it travels in.

A module brings its own messages and registers them where it defines them:

    class LoadReport(Message, frozen=True): ...

    register(40, LoadReport, Lane.MONITOR)

Rules:
- The tags below 32 are the core's; modules take theirs from 32 on. One tag, one message, for good.
- A message is a frozen msgspec Struct that is written as an array: no names on the wire, no fields
  that are not known, and every field typed, so that what a peer sends is checked as it is read.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from runnel.errors import BugError

MODULE_TAG_MIN = 32
"""The first tag that a module may take."""

_TAG_MAX = 255
_TAG_MIN = 2
"""0 is no tag, so that zeroed memory is no message; publications have 1."""


class Lane(Enum):
    """What a message may overtake on a link."""

    CONTROL = "control"
    """About the link itself: not numbered, not repeated, goes at once."""

    MONITOR = "monitor"
    """Numbered; overtakes data, since it must get through when data does not."""

    DATA = "data"
    """Numbered; publications, and whatever changes routes and so must stay in order with them."""


class Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What every message but a publication is made from."""


class Registry:
    """Messages by tag.

    >>> class LoadReport(Message, frozen=True):
    ...     utilisation: float
    >>> registry = Registry()
    >>> registry.register(40, LoadReport, Lane.MONITOR)
    >>> registry.lane_of(LoadReport(0.7))
    <Lane.MONITOR: 'monitor'>
    """

    __slots__ = ("_decoders", "_lanes", "_tags")

    def __init__(self) -> None:
        self._decoders: dict[int, msgspec.msgpack.Decoder[Message]] = {}
        self._tags: dict[type[Message], int] = {}
        self._lanes: dict[type[Message], Lane] = {}

    def register(self, tag: int, message: type[Message], lane: Lane) -> None:
        """Give a message its tag and its lane."""
        if not _TAG_MIN <= tag <= _TAG_MAX:
            raise BugError(
                f"{message.__name__} cannot have the tag {tag}: use {_TAG_MIN} to {_TAG_MAX}"
            )
        if tag in self._decoders or message in self._tags:
            raise BugError(f"the tag {tag} or the message {message.__name__} is taken already")
        self._decoders[tag] = msgspec.msgpack.Decoder(message)
        self._tags[message] = tag
        self._lanes[message] = lane

    @property
    def decoders(self) -> dict[int, msgspec.msgpack.Decoder[Message]]:
        """The decoder of each tag; to be read only."""
        return self._decoders

    @property
    def messages(self) -> tuple[type[Message], ...]:
        """Every message there is, in the order of registration."""
        return tuple(self._tags)

    def tag_of(self, message: Message) -> int:
        """Return the tag that the message is sent under."""
        try:
            return self._tags[type(message)]
        except KeyError:
            raise BugError(f"{type(message).__name__} has no tag: register it first") from None

    def lane_of(self, message: Message) -> Lane:
        """Return the lane that the message travels in."""
        try:
            return self._lanes[type(message)]
        except KeyError:
            raise BugError(f"{type(message).__name__} has no lane: register it first") from None


REGISTRY = Registry()
"""The one that everybody uses, unless told otherwise."""

register = REGISTRY.register
lane_of = REGISTRY.lane_of
tag_of = REGISTRY.tag_of
