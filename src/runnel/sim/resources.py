"""What a simulated broker has to work with: time to match, bandwidth to send, memory to queue in.

The delay of matching is m·n + b for n subscriptions, as in balance §3.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runnel.broker.broker import Broker
from runnel.quantities import SECOND


@dataclass(frozen=True, slots=True)
class Resources:
    """One broker's means. 0 is unlimited bandwidth, or matching that takes no time.

    >>> Resources(match_ns_each=10, match_ns_base=100).matching_ns(publications=2, subscriptions=5)
    300
    >>> Resources(output_bytes_per_second=1_000).sending_ns(10)
    10000000
    """

    match_ns_each: int = 0  # m
    match_ns_base: int = 0  # b
    output_bytes_per_second: int = 0
    memory_bytes: int = 1 << 40
    takes_time: bool = field(init=False, repr=False)  # whether matching does

    def __post_init__(self) -> None:
        takes_time = self.match_ns_each > 0 or self.match_ns_base > 0
        object.__setattr__(self, "takes_time", takes_time)

    def matching_ns(self, publications: int, subscriptions: int) -> int:
        """How long a broker with so many subscriptions takes to match so many publications."""
        return publications * (self.match_ns_each * subscriptions + self.match_ns_base)

    def sending_ns(self, size: int) -> int:
        """How long so many bytes take to leave."""
        rate = self.output_bytes_per_second
        return size * SECOND // rate if rate else 0


def memory_used(broker: Broker) -> int:
    """The bytes that a broker keeps in its queues, sent and unsent."""
    return sum(link.waiting_bytes + link.flying_bytes for link in broker.links.values())
