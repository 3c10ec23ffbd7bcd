"""FBF and BIN PACKING: green §IV-A and §IV-B. Both are first fit over brokers, the strongest first.

    FBF           takes subscriptions in random order
    BIN PACKING   takes them by their need of output, the largest first

First fit gives the same result item by item and broker by broker: the first broker takes, in order, whatever fits;
the next one takes from what is left. So if needs are sorted, a few binary searches fill a broker, however many items
there are: take as many consecutive items as fit, skip those that are too large for the remaining room, and so on. This
makes CRAM fast, which packs after every step. The matching rate is tested afterwards: input only grows while a broker
is filled, so if the whole passes, every step would have. Only a broker that fails the test is filled item by item.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from runnel.errors import InputError
from runnel.planning.load import MICRO, UNLIMITED, Bin, Item, Traffic, strongest_first
from runnel.planning.profiles import Profile, union

PlaceRange = tuple[int, int]
"""Consecutive places in the order of packing: from the first, up to but not including the second."""

_SHIFT = 32
_NUMBER = (1 << _SHIFT) - 1


class Order:
    """The order of BIN PACKING: numbers of items, the largest need first, then by number. Changes are cheap."""

    __slots__ = ("_keys", "needs")

    def __init__(self, items: Iterable[tuple[int, int]]) -> None:
        # One int has need and number, so that one binary search finds a place.
        self._keys = sorted((-need << _SHIFT) | number for number, need in items)
        self.needs = [-(key >> _SHIFT) for key in self._keys]

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, number: int, need: int) -> None:
        """Insert an item."""
        key = (-need << _SHIFT) | number
        place = bisect_left(self._keys, key)
        self._keys.insert(place, key)
        self.needs.insert(place, need)

    def remove(self, number: int, need: int) -> None:
        """Remove an item."""
        place = bisect_left(self._keys, (-need << _SHIFT) | number)
        del self._keys[place]
        del self.needs[place]

    def first_within(self, room: int) -> int:
        """The first place whose item needs at most `room`."""
        return bisect_left(self._keys, -room << _SHIFT)

    def numbers(self) -> list[int]:
        """The items' numbers in order."""
        return [key & _NUMBER for key in self._keys]

    def number(self, place: int) -> int:
        """The number of the item at a place."""
        return self._keys[place] & _NUMBER


@dataclass(frozen=True, slots=True)
class Scheme:
    """An allocation: the numbers of the items of every allocated broker, and the total input of these brokers."""

    placed: dict[str, tuple[int, ...]]
    rate: int

    @property
    def brokers(self) -> int:
        """How many brokers are allocated."""
        return len(self.placed)


class Packer:
    """First fit into given brokers. `items` may grow, but the number of an item never changes."""

    def __init__(self, bins: Sequence[Bin], items: list[Item], traffic: Traffic) -> None:
        self.bins = strongest_first(bins)
        self.items = items
        self.traffic = traffic
        self.room_max = max((one.left for one in bins), default=-1)
        profiles = [one.profile for one in items] + [b.base.profile for b in bins if b.base]
        self._rate_max = traffic.rate(union(profiles))
        self._limited = any(one.delay.takes_time for one in bins)

    def pack_sorted(self, order: Order) -> list[list[PlaceRange]] | None:
        """BIN PACKING: the runs that each broker takes; None if not everything fits."""
        sums = [0, *accumulate(order.needs)]
        left: list[PlaceRange] = [(0, len(order))] if len(order) else []
        found: list[list[PlaceRange]] = []
        for one in self.bins:
            if not left:
                break
            runs, rest = _fill_by_output(order, sums, left, one.left)
            if self._limited and not self._can_match(one, runs, order):
                runs, rest = self._fill_by_item(one, left, order.numbers())
            found.append(runs)
            left = rest
        return None if left else found

    def pack_in_order(
        self, numbers: Sequence[int]
    ) -> tuple[list[list[PlaceRange]], list[PlaceRange]]:
        """First fit in a given order: the runs that each broker takes, and those left over."""
        left: list[PlaceRange] = [(0, len(numbers))] if numbers else []
        found: list[list[PlaceRange]] = []
        for one in self.bins:
            runs, left = self._fill_by_item(one, left, numbers)
            found.append(runs)
        return found, left

    def scheme(self, numbers: Sequence[int], runs: Sequence[Sequence[PlaceRange]]) -> Scheme:
        """The scheme that the runs of a packing stand for."""
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

    def brokers(self, runs: Sequence[Sequence[PlaceRange]]) -> int:
        """How many brokers a packing allocates."""
        return sum(
            bool(one.base or (place < len(runs) and runs[place]))
            for place, one in enumerate(self.bins)
        )

    def _can_match(self, one: Bin, runs: Sequence[PlaceRange], order: Order) -> bool:
        there = [self.items[order.number(at)] for start, end in runs for at in range(start, end)]
        there += [one.base] if one.base else []
        limit = one.delay.rate(sum(item.count for item in there))
        if self._rate_max <= limit:
            return True
        return self.traffic.rate(union(item.profile for item in there)) <= limit

    def _fill_by_item(
        self, one: Bin, left: Sequence[PlaceRange], numbers: Sequence[int]
    ) -> tuple[list[PlaceRange], list[PlaceRange]]:
        """Fill one broker item by item, under both limits."""
        filling = Filling(one, self.traffic)
        runs: list[PlaceRange] = []
        rest: list[PlaceRange] = []
        for start, end in left:
            for at in range(start, end):
                _append_place(
                    runs if filling.take_if_it_fits(self.items[numbers[at]]) else rest, at
                )
        return runs, rest


class Filling:
    """A broker while it is being filled."""

    __slots__ = ("_count", "_rate", "_traffic", "bin", "left", "members", "profile")

    def __init__(self, one: Bin, traffic: Traffic) -> None:
        self.bin = one
        self.left = one.left  # output that is still free
        self.profile: Profile = dict(one.base.profile) if one.base else {}
        self.members: list[int] = []
        self._traffic = traffic
        self._count = one.base.count if one.base else 0
        self._rate = traffic.rate(self.profile)

    def take_if_it_fits(self, item: Item) -> bool:
        """Take an item if it passes the capacity test; whether it did."""
        if item.need > self.left:
            return False
        known = {p: self.profile.get(p, 0) for p in item.profile}
        more = {p: bits | known[p] for p, bits in item.profile.items()}
        if self.bin.delay.takes_time:
            rate = self._rate - self._traffic.rate(known) + self._traffic.rate(more)
            if rate > self.bin.delay.rate(self._count + item.count):
                return False
            self._rate = rate
        self.profile |= more
        self.members += item.members
        self._count += item.count
        self.left -= item.need
        return True


def _fill_by_output(
    order: Order, sums: Sequence[int], left: Sequence[PlaceRange], room: int
) -> tuple[list[PlaceRange], list[PlaceRange]]:
    """Fill one broker with sorted items: the runs it takes and those left over."""
    runs: list[PlaceRange] = []
    rest: list[PlaceRange] = []
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


def _append_place(runs: list[PlaceRange], at: int) -> None:
    if runs and runs[-1][1] == at:
        runs[-1] = (runs[-1][0], at + 1)
    else:
        runs.append((at, at + 1))


def bin_packing(items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic) -> Scheme:
    """BIN PACKING; an error says what does not fit and why."""
    packer = Packer(bins, list(items), traffic)
    order = Order((number, one.need) for number, one in enumerate(items))
    return _make_scheme(packer, order.numbers(), packer.pack_sorted(order))


def fbf(items: Sequence[Item], bins: Sequence[Bin], traffic: Traffic, seed: int = 0) -> Scheme:
    """Fastest Broker First; an error says what does not fit and why."""
    packer = Packer(bins, list(items), traffic)
    numbers = list(range(len(items)))
    Random(f"{seed}/fbf").shuffle(numbers)
    runs, left = packer.pack_in_order(numbers)
    return _make_scheme(packer, numbers, None if left else runs)


def _make_scheme(
    packer: Packer, numbers: Sequence[int], runs: list[list[PlaceRange]] | None
) -> Scheme:
    if runs is None:
        _, left = packer.pack_in_order(numbers)
        over = [packer.items[numbers[at]] for start, end in left for at in range(start, end)]
        reasons = {member: _reason(item, packer) for item in over for member in item.members}
        raise DoesNotFit(reasons, len(packer.bins))
    return packer.scheme(numbers, runs)


class DoesNotFit(InputError):  # noqa: N818 - named for what it reports
    """Not everything has a place. `reasons`: the number of every subscription left over → why it does not fit."""

    def __init__(
        self, reasons: Mapping[int, str], brokers: int, names: Sequence[str] | None = None
    ) -> None:
        self.reasons = dict(reasons)
        self._brokers = brokers
        kinds: dict[str, list[str]] = {}
        for number, reason in reasons.items():
            kinds.setdefault(reason, []).append(names[number] if names else f"number {number}")
        causes = "; ".join(
            f"{_list_names(found)} because {reason}" for reason, found in kinds.items()
        )
        super().__init__(
            f"{len(reasons):,} of the subscriptions do not fit on {brokers:,} brokers: {causes}. "
            "Add brokers, give them more capacity, or ask for less head-room"
        )

    def with_names(self, names: Sequence[str]) -> DoesNotFit:
        """The same error, with the subscriptions' names in its message."""
        return DoesNotFit(self.reasons, self._brokers, names)


def _list_names(names: Sequence[str], most: int = 3) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def _reason(item: Item, packer: Packer) -> str:
    """Why an item has no place. The wording is the same for all items with the same reason."""
    if not packer.bins:
        return "there is no broker that may be used"
    rate = packer.traffic.rate(item.profile)
    empty = [Bin(one.name, one.room, one.delay) for one in packer.bins]
    if item.need > max(one.room for one in empty):
        most = max(one.room for one in empty)
        return f"one alone needs more output than the largest broker has ({_format_rate(most)})"
    if not any(one.accepts(item.need, rate, item.count) for one in empty):
        return "one alone brings in more messages than any broker can match"
    full = sum(one.room for one in packer.bins if one.room < UNLIMITED)
    need = sum(one.need for one in packer.items)
    if all(one.left < item.need for one in packer.bins):
        return "what is pinned leaves no broker enough output"
    return f"the brokers are full (all needs {_format_rate(need)}, all output {_format_rate(full)})"


def _format_rate(micro: int) -> str:
    return f"{micro / MICRO:,.0f} B/s"
