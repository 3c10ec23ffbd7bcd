"""How much work a profile is, and how much a broker can take: green §III-B and §IV-A.

    output   a subscription with 10 of 100 bits set, of a publisher with 50 msg/s and 50 kB/s, takes 5 kB/s of output
    input    a broker takes in the OR of what it serves; it can match 1 / (base + each · subscriptions) msg/s

A cluster's output need is the sum of its members'; its input is the OR. A broker may be given more only while some
output is left over and what comes in does not exceed the rate at which it matches.

Needs and rates are whole millionths of a byte or message per second, so that sums do not depend on their order.

`Scaling` is the paper's allowance for short samples (§VI-B6): bits are counted up before the output is estimated, not
for the input, where the output is the bottleneck and the OR of many is sampled well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from runnel.allocation.profiles import Profile, PublisherProfile
from runnel.errors import InputError

MICRO = 1_000_000
SECOND = 1_000_000_000
UNLIMITED = 1 << 100
"""More than any sum of needs or rates."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Fewer bits than `minimum` (a share of the window) count as that many; below a step, bits count for more.

    >>> Scaling(0.2, ((0.4, 0.25),)).bits(30, 100), Scaling(0.2, ((0.4, 0.25),)).bits(4, 100)
    (37.5, 20.0)
    """

    minimum: float = 0.0
    steps: tuple[tuple[float, float], ...] = ()  # (below this share, so much more), lowest first

    def bits(self, count: int, span: int) -> float:
        """How many bits are reckoned with, of a window of `span`."""
        if not count:
            return 0.0
        more = next((more for below, more in self.steps if count < below * span), 0.0)
        return min(float(span), max(self.minimum * span, count * (1.0 + more)))


PLAIN = Scaling()


def scaling_for(length: int) -> Scaling:
    """The paper's allowance for vectors of a length; the default length needs none.

    >>> scaling_for(1_280), scaling_for(1_024).minimum, scaling_for(128).steps
    (Scaling(minimum=0.0, steps=()), 0.2, ((0.25, 0.3), (0.4, 0.45)))
    """
    if length > 1_024:
        return PLAIN
    if length > 512:
        return Scaling(0.20, ((0.40, 0.25),))
    return Scaling(0.35, ((0.25, 0.30), (0.40, 0.45)))


@dataclass(frozen=True, slots=True)
class Delay:
    """The matching-delay function: nanoseconds for one message, with so many subscriptions; 0 is no time at all.

    >>> Delay(1_000_000, 100_000).rate(90) / MICRO
    100.0
    """

    base_ns: int = 0
    each_ns: int = 0

    @property
    def limits(self) -> bool:
        """Whether matching takes any time."""
        return self.base_ns > 0 or self.each_ns > 0

    def rate(self, subscriptions: int) -> int:
        """How many messages (millionths) can be matched in a second: the inverse of the delay."""
        delay_ns = self.base_ns + self.each_ns * subscriptions
        return MICRO * SECOND // delay_ns if delay_ns else UNLIMITED

    def most(self, rate: int) -> int | None:
        """With how many subscriptions this rate can still be matched; None: with any number.

        >>> Delay(1_000_000, 100_000).most(100 * MICRO)
        90
        """
        if self.rate(0) < rate:
            return -1
        if not self.each_ns or not rate:
            return None
        return (MICRO * SECOND // rate - self.base_ns) // self.each_ns


@dataclass(frozen=True, slots=True)
class Capacity:
    """A broker: its name, its output in bytes per second (None: unlimited) and its matching delay."""

    name: str
    output: float | None
    delay: Delay = Delay()

    def __post_init__(self) -> None:
        if self.output is not None and not 0 <= self.output < math.inf:
            raise InputError(
                f"broker {self.name}: its output is {self.output}; give bytes per second, or None"
            )

    @property
    def room(self) -> int:
        """The most that it may send: some output must be left over."""
        return UNLIMITED if self.output is None else math.ceil(self.output * MICRO) - 1


@dataclass(frozen=True)
class Traffic:
    """The publishers, by number, and what a bit of each is worth.

    >>> traffic = Traffic((PublisherProfile("P", 50.0, 50_000.0, 99),), (100,))
    >>> ten_bits = {0: (1 << 10) - 1}
    >>> traffic.rate(ten_bits) / MICRO, traffic.need(ten_bits) / MICRO
    (5.0, 5000.0)
    """

    publishers: tuple[PublisherProfile, ...]
    spans: tuple[int, ...]
    scaling: Scaling = PLAIN
    _rates: list[float] = field(init=False, repr=False)
    _bytes: list[float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        pairs = list(zip(self.publishers, self.spans, strict=True))
        object.__setattr__(self, "_rates", [MICRO * one.rate / max(1, span) for one, span in pairs])
        object.__setattr__(
            self, "_bytes", [MICRO * one.bandwidth / max(1, span) for one, span in pairs]
        )

    @property
    def weights(self) -> list[int]:
        """What a bit of each publisher is worth, in messages per second (millionths), at least 1."""
        return [max(1, round(rate)) for rate in self._rates]

    def rate(self, profile: Profile) -> int:
        """Messages per second that a profile takes in, in millionths."""
        rates = self._rates
        return sum(round(rates[number] * bits.bit_count()) for number, bits in profile.items())

    def need(self, profile: Profile) -> int:
        """Bytes per second that one copy of what a profile takes is, in millionths."""
        found = 0
        for number, bits in profile.items():
            reckoned = self.scaling.bits(bits.bit_count(), self.spans[number])
            found += round(self._bytes[number] * reckoned)
        return found


@dataclass(frozen=True, slots=True)
class Item:
    """What is packed: a subscription, a cluster of them, or (Phase 3) a broker that stands for all it serves.

    `members` are the numbers of what it is made of, `count` is how many the matching delay counts.
    """

    profile: Profile
    need: int
    members: tuple[int, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Bin:
    """A broker to be filled, and what it has in it already (`base`: what is pinned there)."""

    name: str
    room: int
    delay: Delay = Delay()
    base: Item | None = None

    @property
    def left(self) -> int:
        """Output that is not yet taken."""
        return self.room - (self.base.need if self.base else 0)

    def accepts(self, need: int, rate: int, count: int) -> bool:
        """The capacity test: whether it can send, take in and match so much in all."""
        return need <= self.room and (not self.delay.limits or rate <= self.delay.rate(count))


def strongest_first(bins: Sequence[Bin]) -> list[Bin]:
    """Brokers as FBF and BIN PACKING take them: those in use anyway, then by output, then as they came."""
    return sorted(bins, key=lambda one: (one.base is None, -one.room))


def item(traffic: Traffic, profile: Profile, number: int) -> Item:
    """A subscription to be packed."""
    return Item(profile, traffic.need(profile), (number,))
