"""The load that a profile causes, and the capacity of a broker: green §III-B and §IV-A.

    output   a subscription with 10 of 100 bits set, of a publisher with 50 msg/s and 50 kB/s, needs 5 kB/s of output
    input    a broker receives the OR of what it serves; it can match 1 / (base + each · subscriptions) msg/s

The output need of a cluster is the sum of its members' needs; its input is the OR of their profiles. A broker takes
another item only if some output is left over and its input does not exceed the rate at which it can match.

Needs and rates are integers, in millionths of a byte or message per second, so that sums do not depend on their order.

`Scaling` is the paper's allowance for short samples (§VI-B6): the number of bits is increased before the output is
estimated. The input is not increased: the output is the bottleneck, and the OR of many profiles is sampled well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from runnel.errors import InputError
from runnel.planning.foresight import Foresight
from runnel.planning.profiles import Profile, PublisherProfile
from runnel.quantities import SECOND

MICRO = 1_000_000
UNLIMITED = 1 << 100
"""More than any sum of needs or rates."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Scales the number of bits up: to at least `minimum` (a share of the window), and by a factor below each step.

    >>> Scaling(0.2, ((0.4, 0.25),)).bits(30, 100), Scaling(0.2, ((0.4, 0.25),)).bits(4, 100)
    (37.5, 20.0)
    """

    minimum: float = 0.0
    # (below this share, increase by this), lowest first.
    steps: tuple[tuple[float, float], ...] = ()

    def bits(self, count: float, span: int) -> float:
        """The scaled number of bits, of a window of `span`."""
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
    """The matching-delay function: how many nanoseconds matching one message takes, given the number of subscriptions.

    >>> Delay(1_000_000, 100_000).rate(90) / MICRO
    100.0
    """

    base_ns: int = 0
    each_ns: int = 0

    @property
    def takes_time(self) -> bool:
        """Whether matching takes any time."""
        return self.base_ns > 0 or self.each_ns > 0

    def rate(self, subscriptions: int) -> int:
        """How many messages (in millionths) can be matched in a second: the inverse of the delay."""
        delay_ns = self.base_ns + self.each_ns * subscriptions
        return MICRO * SECOND // delay_ns if delay_ns else UNLIMITED

    def most_subscriptions(self, rate: int) -> int | None:
        """The most subscriptions with which this rate can be matched; None: any number; −1: not even without any.

        >>> Delay(1_000_000, 100_000).most_subscriptions(100 * MICRO)
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
        """The most that it may send. It is less than `output`, since some output must be left over."""
        return UNLIMITED if self.output is None else math.ceil(self.output * MICRO) - 1


@dataclass(frozen=True)
class Traffic:
    """The publishers, by number, and the rate and bandwidth that one bit of each stands for.

    With `foresight`, needs are those to be reckoned with in the next window; without, those of the window of the bits.

    >>> traffic = Traffic((PublisherProfile("P", 50.0, 50_000.0, 99),), (100,))
    >>> ten_bits = {0: (1 << 10) - 1}
    >>> traffic.rate(ten_bits) / MICRO, traffic.need(ten_bits) / MICRO
    (5.0, 5000.0)
    """

    publishers: tuple[PublisherProfile, ...]
    spans: tuple[int, ...]
    scaling: Scaling = PLAIN
    foresight: Foresight | None = None
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
        """The message rate that one bit of each publisher stands for (in millionths), at least 1."""
        return [max(1, round(rate)) for rate in self._rates]

    def rate(self, profile: Profile) -> int:
        """The messages per second of a profile, in millionths."""
        rates = self._rates
        return sum(round(rates[number] * bits.bit_count()) for number, bits in profile.items())

    def need(self, profile: Profile) -> int:
        """The bytes per second needed to send one copy of the publications of a profile, in millionths."""
        found = 0
        for number, bits in profile.items():
            span = self.spans[number]
            count = self.foresight.bits(bits, span) if self.foresight else bits.bit_count()
            found += round(self._bytes[number] * self.scaling.bits(count, span))
        return found


@dataclass(frozen=True, slots=True)
class Item:
    """Something to be packed: a subscription, a cluster of subscriptions, or (Phase 3) a broker with all it serves.

    `members` are the numbers of its parts; `count` is the number of subscriptions for the matching delay.
    """

    profile: Profile
    need: int
    members: tuple[int, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Bin:
    """A broker to be filled; `base` is what is pinned to it, if anything."""

    name: str
    room: int
    delay: Delay = Delay()
    base: Item | None = None

    @property
    def left(self) -> int:
        """The output that `base` leaves free."""
        return self.room - (self.base.need if self.base else 0)

    def shrink(self, share: float) -> Bin:
        """The same broker with only a share of its capacity.

        >>> Bin("B", 100, Delay(1_000, 10)).shrink(0.5)
        Bin(name='B', room=50, delay=Delay(base_ns=2000, each_ns=20), base=None)
        """
        if share == 1.0:
            return self
        base_ns, each_ns = self.delay.base_ns, self.delay.each_ns
        return replace(
            self,
            room=self.room if self.room >= UNLIMITED else math.floor(self.room * share),
            delay=Delay(math.ceil(base_ns / share), math.ceil(each_ns / share)),
        )

    def accepts(self, need: int, rate: int, count: int) -> bool:
        """The capacity test: whether the broker can send `need` and match `rate`, given `count` subscriptions."""
        return need <= self.room and (not self.delay.takes_time or rate <= self.delay.rate(count))


def strongest_first(bins: Sequence[Bin]) -> list[Bin]:
    """Brokers in the order in which FBF and BIN PACKING fill them: those with something pinned, then by output."""
    return sorted(bins, key=lambda one: (one.base is None, -one.room))


def make_item(traffic: Traffic, profile: Profile, number: int) -> Item:
    """The item of a single subscription."""
    return Item(profile, traffic.need(profile), (number,))
