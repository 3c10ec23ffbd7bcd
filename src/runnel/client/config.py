"""The configuration of a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from runnel.broker.links import LinkConfig
from runnel.quantities import SECOND
from runnel.wire import Credentials


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """One client."""

    name: str
    link: LinkConfig = field(default_factory=LinkConfig)
    ttl: int = 255
    move_timeout_ns: int = 30 * SECOND  # a move is given up if its new home is not up by then
    held_bytes_max: int = 16 << 20  # a move that has to hold back more is given up
    credentials: Callable[[], Credentials] | None = None  # asked at every connection
