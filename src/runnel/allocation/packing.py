"""FBF and BIN PACKING: green §IV-A and §IV-B. Both are first fit over brokers, the strongest first.

    FBF           takes subscriptions in random order
    BIN PACKING   takes them by their need of output, the largest first

First fit item by item is the same as broker by broker: the first broker takes whatever fits, in order; the next takes
from what is left. So with sorted needs a broker is filled by a few binary searches, however many items there are: take
as many as fit in a row, jump over those too large for the rest, and so on. CRAM, which packs after every step, lives
on this. Matching is tested afterwards (input only grows while a broker is filled, so if the whole fits, every step
did), and only a broker that fails it is filled item by item.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from runnel.allocation.load import MICRO, UNLIMITED, Bin, Item, Traffic, strongest_first
from runnel.allocation.profiles import Profile, union
from runnel.errors import InputError

Run = tuple[int, int]
"""Places in the order of packing: from the first, up to but not including the second."""

_SHIFT = 32
_NUMBER = (1 << _SHIFT) - 1


class Order:
    """Numbered items in the order of BIN PACKING, largest need first, then by number; cheap to change."""

    __slots__ = ("_keys", "needs")

    def __init__(self, items: Iterable[tuple[int, int]]) -> None:
        # One int holds need and number, so that a place is found by one binary search.
        self._keys = sorted((-need << _SHIFT) | number for number, need in items)
        self.needs = [-(key >> _SHIFT) for key in self._keys]

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, number: int, need: int) -> None:
        """One more."""
        key = (-need << _SHIFT) | number
        place = bisect_left(self._keys, key)
        self._keys.insert(place, key)
        self.needs.insert(place, need)

    def remove(self, number: int, need: int) -> None:
        """One fewer."""
        place = bisect_left(self._keys, (-need << _SHIFT) | number)
        del self._keys[place]
        del self.needs[place]

    def first_within(self, room: int) -> int:
        """The first place whose need is no more than this."""
        return bisect_left(self._keys, -room << _SHIFT)

    def numbers(self) -> list[int]:
        """The items' numbers in order."""
        return [key & _NUMBER for key in self._keys]

    def number(self, place: int) -> int:
        """The item at a place."""
        return self._keys[place] & _NUMBER


@dataclass(frozen=True, slots=True)
class Scheme:
    """Who is where: for every allocated broker the numbers of the items it serves; and the brokers' total input."""

    placed: dict[str, tuple[int, ...]]
    rate: int

    @property
    def brokers(self) -> int:
        """How many brokers are allocated."""
        return len(self.placed)


class Packer:
    """First fit into given brokers. `items` may grow; a number stands for the same item for ever."""

    def __init__(self, bins: Sequence[Bin], items: list[Item], traffic: Traffic) -> None:
        self.bins = strongest_first(bins)
        self.items = items
        self.traffic = traffic
        self.room_max = max((one.left for one in bins), default=-1)
        profiles = [one.profile for one in items] + [b.base.profile for b in bins if b.base]
        self._rate_max = traffic.rate(union(profiles))
        self._limited = any(one.delay.limits for one in bins)

    def sorted_fit(self, order: Order) -> list[list[Run]] | None:
        """BIN PACKING: for each broker the runs that it takes; None if not everything fits."""
        sums = [0, *accumulate(order.needs)]
        left: list[Run] = [(0, len(order))] if len(order) else []
        found: list[list[Run]] = []
        for one in self.bins:
            if not left:
                break
            runs, rest = _by_output(order, sums, left, one.left)
            if self._limited and not self._can_match(one, runs, order):
                runs, rest = self._by_item(one, left, order.numbers())
            found.append(runs)
            left = rest
        return None if left else found

    def any_fit(self, numbers: Sequence[int]) -> tuple[list[list[Run]], list[Run]]:
        """First fit in the order given: the runs of each broker, and what is left over."""
        left: list[Run] = [(0, len(numbers))] if numbers else []
        found: list[list[Run]] = []
        for one in self.bins:
            runs, left = self._by_item(one, left, numbers)
            found.append(runs)
        return found, left

    def scheme(self, numbers: Sequence[int], runs: Sequence[Sequence[Run]]) -> Scheme:
        """A packing in full, with what the brokers take in."""
        placed, rate = {}, 0
        for one, taken in zip(self.bins, runs, strict=False):
            there = [self.items[n] for start, end in taken for n in numbers[start:end]]
            if there or one.base:
                placed[one.name] = tuple(member for found in there for member in found.members)
                profiles = [found.profile for found in there]
                rate += self.traffic.rate(
                    union([*profiles, one.base.profile] if one.base else profiles)
                )
        for one in self.bins[len(runs) :]:
            if one.base:
                placed[one.name] = ()
                rate += self.traffic.rate(one.base.profile)
        return Scheme(placed, rate)

    def brokers(self, runs: Sequence[Sequence[Run]]) -> int:
        """How many brokers a packing allocates."""
        return sum(
            bool(one.base or (place < len(runs) and runs[place]))
            for place, one in enumerate(self.bins)
        )

    def _can_match(self, one: Bin, runs: Sequence[Run], order: Order) -> bool:
        there = [self.items[order.number(at)] for start, end in runs for at in range(start, end)]
        there += [one.base] if one.base else []
        limit = one.delay.rate(sum(item.count for item in there))
        if self._rate_max <= limit:
            return True
        return self.traffic.rate(union(item.profile for item in there)) <= limit

    def _by_item(
        self, one: Bin, left: Sequence[Run], numbers: Sequence[int]
    ) -> tuple[list[Run], list[Run]]:
        """Fill one broker item by item, under both limits."""
        filling = Filling(one, self.traffic)
        runs: list[Run] = []
        rest: list[Run] = []
        for start, end in left:
            for at in range(start, end):
                _extend(runs if filling.takes(self.items[numbers[at]]) else rest, at)
        return runs, rest


class Filling:
    """A broker while it is being filled."""

    __slots__ = ("_count", "_rate", "_traffic", "bin", "left", "members", "profile")

    def __init__(self, one: Bin, traffic: Traffic) -> None:
        self.bin = one
        self.left = one.left  # output that is not taken
        self.profile: Profile = dict(one.base.profile) if one.base else {}
        self.members: list[int] = []
        self._traffic = traffic
        self._count = one.base.count if one.base else 0
        self._rate = traffic.rate(self.profile)

    def takes(self, item: Item) -> bool:
        """Take an item if the capacity test allows."""
        if item.need > self.left:
            return False
        known = {p: self.profile.get(p, 0) for p in item.profile}
        more = {p: bits | known[p] for p, bits in item.profile.items()}
        if self.bin.delay.limits:
            rate = self._rate - self._traffic.rate(known) + self._traffic.rate(more)
            if rate > self.bin.delay.rate(self._count + item.count):
                return False
            self._rate = rate
        self.profile |= more
        self.members += item.members
        self._count += item.count
        self.left -= item.need
        return True


def _by_output(
    order: Order, sums: Sequence[int], left: Sequence[Run], room: int
) -> tuple[list[Run], list[Run]]:
    """Fill one broker with sorted items: the runs it takes and those left over."""
    runs: list[Run] = []
    rest: list[Run] = []
    if room < 0:
        return runs, list(left)
    fits = order.first_within(room)
    for start, end in left:
        at = start
        while at < end:
            if at < fits:
                stop = min(fits, end)
                rest.append((at, stop))
            else:
                stop = bisect_right(sums, sums[at] + room, at, end + 1) - 1
                runs.append((at, stop))
                room -= sums[stop] - sums[at]
                fits = order.first_within(room)
            at = stop
    return runs, rest


def _extend(runs: list[Run], at: int) -> None:
    if runs and runs[-1][1] == at:
        runs[-1] = (runs[-1][0], at + 1)
    else:
        runs.append((at, at + 1))


def bin_packing(items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> Scheme:
    """BIN PACKING; an error says what does not fit and why."""
    packer = Packer(bins, list(items), traffic)
    order = Order((number, one.need) for number, one in enumerate(items))
    return _packed(packer, order.numbers(), packer.sorted_fit(order))


def fbf(items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic, seed: int = 0) -> Scheme:
    """Fastest Broker First; an error says what does not fit and why."""
    packer = Packer(bins, list(items), traffic)
    numbers = list(range(len(items)))
    Random(f"{seed}/fbf").shuffle(numbers)
    runs, left = packer.any_fit(numbers)
    return _packed(packer, numbers, None if left else runs)


def _packed(packer: Packer, numbers: Sequence[int], runs: list[list[Run]] | None) -> Scheme:
    if runs is None:
        _, left = packer.any_fit(numbers)
        over = [packer.items[numbers[at]] for start, end in left for at in range(start, end)]
        reasons = {member: _why(item, packer) for item in over for member in item.members}
        raise DoesNotFit(reasons, len(packer.bins))
    return packer.scheme(numbers, runs)


class DoesNotFit(InputError):  # noqa: N818 - named for what it reports
    """Not everything has a place. `reasons`: for every subscription left over, by number, why."""

    def __init__(
        self, reasons: Mapping[int, str], brokers: int, names: Sequence[str] | None = None
    ) -> None:
        self.reasons = dict(reasons)
        self._brokers = brokers
        kinds: dict[str, list[str]] = {}
        for number, reason in reasons.items():
            kinds.setdefault(reason, []).append(names[number] if names else f"number {number}")
        told = "; ".join(f"{_listed(found)} because {reason}" for reason, found in kinds.items())
        super().__init__(
            f"{len(reasons):,} of the subscriptions do not fit on {brokers:,} brokers: {told}. "
            "Add brokers, give them more capacity, or ask for less head-room"
        )

    def named(self, names: Sequence[str]) -> DoesNotFit:
        """The same, with the subscriptions' names in its message."""
        return DoesNotFit(self.reasons, self._brokers, names)


def _listed(names: Sequence[str], most: int = 3) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _why(item: Item, packer: Packer) -> str:
    """Why an item has no place, in words that many items share."""
    if not packer.bins:
        return "there is no broker that may be used"
    rate = packer.traffic.rate(item.profile)
    empty = [Bin(one.name, one.room, one.delay) for one in packer.bins]
    if item.need > max(one.room for one in empty):
        most = max(one.room for one in empty)
        return f"one alone needs more output than the largest broker has ({_bytes(most)})"
    if not any(one.accepts(item.need, rate, item.count) for one in empty):
        return "one alone brings in more messages than any broker can match"
    full = sum(one.room for one in packer.bins if one.room < UNLIMITED)
    need = sum(one.need for one in packer.items)
    if all(one.left < item.need for one in packer.bins):
        return "what is pinned leaves no broker enough output"
    return f"the brokers are full (all needs {_bytes(need)}, all output {_bytes(full)})"


def _bytes(micro: int) -> str:
    return f"{micro / MICRO:,.0f} B/s"
