"""The configuration of a session."""

from __future__ import annotations

from dataclasses import dataclass, field

from runnel.broker.links import LinkConfig


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """One client."""

    name: str
    link: LinkConfig = field(default_factory=LinkConfig)
    ttl: int = 255
    move_timeout_ns: int = 30_000_000_000
    held_bytes_max: int = 16 << 20  # what a move may hold back before it gives up
