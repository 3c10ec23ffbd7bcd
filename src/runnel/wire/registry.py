"""The registry: which message has which tag, which lane it travels in, and who may send it to whom.

A module brings its own messages and registers them where it defines them:

    class LoadReport(Message, frozen=True):
        utilisation: Annotated[float, msgspec.Meta(ge=0, le=1)]

    register(40, LoadReport, Lane.MONITOR, Way.BETWEEN_BROKERS)

Rules:
- The tags below 32 are the core's; modules take theirs from 32 on. One tag, one message, for good.
- A message is a frozen msgspec Struct that is written as an array: no names on the wire, no fields
  that are not known, and every field typed and bounded (`bounds.py`), so that what a peer sends is checked as it is
  read, before anybody acts on it.
- A message goes the ways that it is registered for, and no other: a peer that sends one which is not for it breaks the
  protocol (`broker/permissions.py`, `client/session.py`).
"""

from __future__ import annotations

from enum import Enum, Flag, auto

import msgspec

from runnel.errors import BugError
from runnel.wire.bounds import fields_without_bounds

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


class Way(Flag):
    """From whom to whom a message may go. Several are joined with `|`."""

    BETWEEN_BROKERS = auto()
    FROM_CLIENT = auto()
    TO_CLIENT = auto()
    FROM_OPERATOR = auto()
    TO_OPERATOR = auto()

    ALL = BETWEEN_BROKERS | FROM_CLIENT | TO_CLIENT | FROM_OPERATOR | TO_OPERATOR


class Message(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """What every message but a publication is made from."""


class Registry:
    """Messages by tag.

    >>> class LoadReport(Message, frozen=True):
    ...     is_busy: bool
    >>> registry = Registry()
    >>> registry.register(40, LoadReport, Lane.MONITOR, Way.BETWEEN_BROKERS)
    >>> registry.lane_of(LoadReport(True))
    <Lane.MONITOR: 'monitor'>
    >>> registry.may_go(LoadReport, Way.FROM_CLIENT)
    False
    """

    __slots__ = ("_decoders", "_lanes", "_tags", "_ways")

    def __init__(self) -> None:
        self._decoders: dict[int, msgspec.msgpack.Decoder[Message]] = {}
        self._tags: dict[type[Message], int] = {}
        self._lanes: dict[type[Message], Lane] = {}
        self._ways: dict[type[Message], Way] = {}

    def register(self, tag: int, message: type[Message], lane: Lane, ways: Way) -> None:
        """Give a message its tag and its lane, and say who may send it to whom."""
        if not _TAG_MIN <= tag <= _TAG_MAX:
            raise BugError(
                f"{message.__name__} cannot have the tag {tag}: use {_TAG_MIN} to {_TAG_MAX}"
            )
        if tag in self._decoders or message in self._tags:
            raise BugError(f"the tag {tag} or the message {message.__name__} is taken already")
        if not ways:
            raise BugError(f"nobody may send a {message.__name__}: say who does")
        if unbounded := fields_without_bounds(message):
            raise BugError(
                f"{', '.join(unbounded)}: a peer could send any size; bound it with msgspec.Meta"
            )
        self._decoders[tag] = msgspec.msgpack.Decoder(message)
        self._tags[message] = tag
        self._lanes[message] = lane
        self._ways[message] = ways

    @property
    def decoders(self) -> dict[int, msgspec.msgpack.Decoder[Message]]:
        """The decoder of each tag; to be read only."""
        return self._decoders

    @property
    def messages(self) -> tuple[type[Message], ...]:
        """Every message there is, in the order of registration."""
        return tuple(self._tags)

    def tag(self, kind: type[Message]) -> int:
        """Return the tag of a kind of message."""
        try:
            return self._tags[kind]
        except KeyError:
            raise BugError(f"{kind.__name__} has no tag: register it first") from None

    def lane(self, kind: type[Message]) -> Lane:
        """Return the lane that a kind of message travels in."""
        try:
            return self._lanes[kind]
        except KeyError:
            raise BugError(f"{kind.__name__} has no lane: register it first") from None

    def ways(self, kind: type[Message]) -> Way:
        """Return who may send a kind of message to whom."""
        return self._ways[kind]

    def may_go(self, kind: type[Message], way: Way) -> bool:
        """Whether a kind of message may be sent that way."""
        ways = self._ways.get(kind)
        return ways is not None and way in ways

    def lane_of_tag(self, tag: int) -> Lane:
        """Return the lane of what is sent under a tag: publications, and what nobody knows, are data."""
        decoder = self._decoders.get(tag)
        return Lane.DATA if decoder is None else self._lanes[decoder.type]

    def tag_of(self, message: Message) -> int:
        """Return the tag that the message is sent under."""
        return self.tag(type(message))

    def lane_of(self, message: Message) -> Lane:
        """Return the lane that the message travels in."""
        return self.lane(type(message))


REGISTRY = Registry()
"""The one that everybody uses, unless told otherwise."""

register = REGISTRY.register
may_go = REGISTRY.may_go
lane_of = REGISTRY.lane_of
tag_of = REGISTRY.tag_of
