"""The states of a move: a session changes brokers with nothing lost, make before break."""

from __future__ import annotations

from enum import Enum


class Move(Enum):
    """Where a move stands.

    STEADY ─ move_to ─▶ JOINING ─ the new home's routes are complete ─▶ DRYING ─ the old path is dry ─▶ STEADY
    JOINING ─ the new home does not come up in time, or too much must be held ─▶ STEADY (at the old home)
    """

    STEADY = "steady"
    JOINING = "joining"  # subscribed at both; the new home's deliveries are held
    DRYING = "drying"  # a fence runs down the old path; nothing is published until it is back
