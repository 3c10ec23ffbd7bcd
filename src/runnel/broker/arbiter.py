"""The arbiter: who may move an entity now. A table of leases and no more.

Every module that wants to move a publisher, a subscriber or a link first claims it at the broker that is its
home. One owner at a time; a higher priority takes over from a lower one; after a move the entity rests for a
while. What keeps the network from flapping lives here, once.
"""

from __future__ import annotations

from dataclasses import dataclass

from runnel.quantities import SECOND

PRIORITY = {"plan": 3, "operator": 2, "balance": 1, "placement": 0}


@dataclass(frozen=True, slots=True)
class Granted:
    """The entity is the owner's until the lease ends or is released."""

    until: int


@dataclass(frozen=True, slots=True)
class ClaimRefused:
    """Somebody else has it, or it rests; ask again then."""

    retry_at: int


@dataclass(slots=True)
class Lease:
    """One entity: who has it, until when, and since when it rests."""

    owner: str
    until: int
    resting: bool = False


class Arbiter:
    """Leases by entity.

    >>> arbiter = Arbiter(lease_ns=10, rest_ns=5)
    >>> arbiter.claim("P1", "placement", now=0)
    Granted(until=10)
    >>> arbiter.claim("P1", "balance", now=1), arbiter.claim("P1", "placement", now=2)
    (Granted(until=11), ClaimRefused(retry_at=11))
    >>> arbiter.release("P1", "balance", now=4)
    >>> arbiter.claim("P1", "placement", now=6)
    ClaimRefused(retry_at=9)
    """

    def __init__(self, lease_ns: int = 60 * SECOND, rest_ns: int = 30 * SECOND) -> None:
        self._lease_ns = lease_ns
        self._rest_ns = rest_ns
        self._leases: dict[str, Lease] = {}
        self._is_frozen = False

    def claim(self, entity: str, owner: str, now: int) -> Granted | ClaimRefused:
        """Ask for an entity. The owner may ask again to extend its lease."""
        if self._is_frozen:
            return ClaimRefused(now + self._rest_ns)
        lease = self._leases.get(entity)
        if lease is not None and now < lease.until and not self._yields(lease, owner):
            return ClaimRefused(lease.until)
        self._leases[entity] = Lease(owner, now + self._lease_ns)
        return Granted(now + self._lease_ns)

    def freeze(self) -> None:
        """Grant nothing until `thaw`: the network is being switched, and nobody is moved meanwhile."""
        self._is_frozen = True

    def thaw(self) -> None:
        """Grant again."""
        self._is_frozen = False

    def release(self, entity: str, owner: str, now: int, *, moved: bool = True) -> None:
        """Give an entity back; one that was moved rests."""
        lease = self._leases.get(entity)
        if lease is None or lease.owner != owner or lease.resting:
            return
        if moved:
            self._leases[entity] = Lease(owner, now + self._rest_ns, resting=True)
        else:
            del self._leases[entity]

    def owner(self, entity: str, now: int) -> str | None:
        """Who has an entity."""
        lease = self.lease(entity, now)
        return None if lease is None or lease.resting else lease.owner

    def lease(self, entity: str, now: int) -> Lease | None:
        """What stands in the way of others: that somebody has an entity, or that it rests."""
        lease = self._leases.get(entity)
        return lease if lease is not None and now < lease.until else None

    def forget_expired(self, now: int) -> None:
        """Drop the leases that are over."""
        self._leases = {e: lease for e, lease in self._leases.items() if now < lease.until}

    @staticmethod
    def _yields(lease: Lease, owner: str) -> bool:
        """A plan and an operator may wake what rests; everybody gives way to a higher priority."""
        if lease.resting:
            return PRIORITY[owner] >= PRIORITY["operator"]
        return lease.owner == owner or PRIORITY[owner] > PRIORITY[lease.owner]
