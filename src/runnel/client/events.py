"""Event: a publication as an application sees it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct

from runnel.language import Value
from runnel.wire import Publication

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_T = TypeVar("_T")


# Not tracked by the garbage collector, like the publication inside: there are very many, and they form no cycles.
class Event(Struct, frozen=True, eq=False, gc=False):
    """Something that was published and that a subscription asked for. It does not change.

    >>> from runnel.wire import make_publication
    >>> event = Event(make_publication(10, 3, {"symbol": "YHOO", "close": 18.37}, b"chart", publisher="nasdaq"))
    >>> event["symbol"], event.get("volume", 0), "close" in event
    ('YHOO', 0, True)
    >>> event
    <Event a-3 from nasdaq: {'symbol': 'YHOO', 'close': 18.37}, 5 bytes>
    """

    publication: Publication
    """The publication underneath, as it came over the wire."""

    @property
    def attributes(self) -> Mapping[str, Value]:
        """The attributes that filters look at. Read-only."""
        return MappingProxyType(self.publication.attributes)

    def __getitem__(self, name: str) -> Value:
        return self.publication.attributes[name]

    def __contains__(self, name: object) -> bool:
        return name in self.publication.attributes

    def get(self, name: str, default: _T | None = None) -> Value | _T | None:
        """One attribute, or the default if the event does not have it."""
        return self.publication.attributes.get(name, default)

    @property
    def payload(self) -> bytes:
        """Bytes that the publisher sent along; brokers never look at them."""
        return self.publication.payload

    @property
    def publisher(self) -> str:
        """The publisher's name, the same through its restarts."""
        return self.publication.publisher

    @property
    def id(self) -> str:
        """Identifies this event, the same for every subscriber: the publisher's run, a dash, and its number there."""
        return f"{self.publication.advertisement:x}-{self.publication.counter}"

    @property
    def time_ns(self) -> int:
        """When it was published, in nanoseconds since 1970, by the publisher's clock."""
        return self.publication.time_ns

    @property
    def time(self) -> datetime:
        """When it was published (UTC, to the microsecond), by the publisher's clock."""
        return _EPOCH + timedelta(microseconds=self.publication.time_ns // 1000)

    @property
    def hops(self) -> int:
        """How many links between brokers it has crossed; 0 if publisher and subscriber are at the same broker."""
        return self.publication.hops

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        return self.publication.identity == other.publication.identity

    def __hash__(self) -> int:
        return hash(self.publication.identity)

    def __repr__(self) -> str:
        payload = f", {len(self.payload)} bytes" if self.payload else ""
        return f"<Event {self.id} from {self.publisher}: {dict(self.attributes)}{payload}>"
