"""The workload of placement §V: low-, medium- and high-rated subscribers of each publisher on X brokers.

Printed: low-rated subscribers sink about 10% of their publisher's traffic, medium-rated about 50%, high-rated
all · random: 70% low, 25% medium, 5% high, each assigned at random to X brokers · enterprise: 95% low, 5% high,
the high-rated on one broker, the low-rated at random on the other X − 1 · 63 brokers; publishers at random
brokers · for the stock YHOO

    low     [class,=,'STOCK'],[symbol,=,'YHOO'],[highLow%Diff,>,0.15]
    medium  [class,=,'STOCK'],[symbol,=,'YHOO'],[volume,>,1000000],[openClose%Diff,>,0.025]
    high    [class,=,'STOCK'],[symbol,=,'YHOO']

Inferred: the numbers of publishers and subscribers and the rate (they stood in a figure that we do not have) ·
for any other stock the printed thresholds sink anything from nothing to a third, so the *form* is kept and the
thresholds are fitted to each stock's own quotes (`thresholds = "printed"` takes them as they stand) · the X
brokers are drawn anew for each publisher.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Literal, cast

from runnel.errors import InputError
from runnel.language import Op, Predicate
from runnel.workload.draw import deal
from runnel.workload.files import Event
from runnel.workload.market import StockParameters, open_market, publishers_of, whole_symbol
from runnel.workload.parameters import Count, Rate, Share
from runnel.workload.shape import Subscriber, Workload

RATINGS = {"low": 0.1, "medium": 0.5, "high": 1.0}
"""Which share of its publisher's traffic a subscriber sinks."""

MIXES = {
    "random": {"low": 70, "medium": 25, "high": 5},
    "enterprise": {"low": 95, "high": 5},
}
"""Percent of the subscribers by rating."""

PRINTED = {
    "low": (Predicate("highLow%Diff", Op.GT, 0.15),),
    "medium": (Predicate("volume", Op.GT, 1_000_000), Predicate("openClose%Diff", Op.GT, 0.025)),
    "high": (),
}


class PlacementParameters(StockParameters, frozen=True):
    """`on_brokers` is the paper's X. `spread`: how far the share of a subscriber may be from its rating's."""

    rate_per_min: Rate = 60.0
    per_publisher: Count = 40
    mix: Literal["random", "enterprise"] = "random"
    brokers: Count = 63
    on_brokers: Count = 8
    thresholds: Literal["fitted", "printed"] = "fitted"
    spread: Share = 0.0


def make_placement(parameters: PlacementParameters, seed: int, folder: Path) -> Workload:
    """Make the workload of placement §V."""
    if parameters.on_brokers > parameters.brokers:
        raise InputError(
            f"on_brokers: must be at most brokers ({parameters.brokers}), got {parameters.on_brokers}"
        )
    market = open_market(parameters, seed, folder)
    random = Random(f"{seed}/placement")
    mix = MIXES[parameters.mix]
    subscribers: list[Subscriber] = []
    for symbol, quotes in market.items():
        chosen = random.sample(range(parameters.brokers), parameters.on_brokers)
        fitted = _ThresholdFit(quotes)
        for rating in deal(list(mix), parameters.per_publisher, list(mix.values()), random):
            if parameters.thresholds == "printed":
                more: tuple[Predicate, ...] = PRINTED[rating]
            else:
                off = random.uniform(-parameters.spread, parameters.spread)
                more = fitted.predicates(rating, off if parameters.spread else 0.0)
            subscribers.append(
                Subscriber(
                    f"sub-{len(subscribers) + 1}",
                    whole_symbol(symbol, *more),
                    _broker(parameters.mix, rating, chosen, random),
                    rating,
                )
            )
    places = [random.randrange(parameters.brokers) for _ in market]
    publishers = publishers_of(market, parameters.rate_per_min, places)
    return Workload("stocks", tuple(publishers), tuple(subscribers))


def _broker(mix: str, rating: str, chosen: Sequence[int], random: Random) -> int:
    """Where a subscriber is; with X = 1 everybody is at the one broker."""
    if mix == "random" or len(chosen) == 1:
        return random.choice(chosen)
    return chosen[0] if rating == "high" else random.choice(chosen[1:])


class _ThresholdFit:
    """Thresholds for one stock, such that a template sinks the share it should."""

    def __init__(self, quotes: Sequence[Event]) -> None:
        self._quotes = quotes
        self._known: dict[tuple[str, float], tuple[Predicate, ...]] = {}

    def predicates(self, rating: str, off: float) -> tuple[Predicate, ...]:
        """What a subscriber of this rating asks for besides the symbol."""
        if rating == "high":
            return ()
        share = min(max(RATINGS[rating] + off, 0.01), 0.99)
        known = self._known.get((rating, share))
        if known is None:
            known = self._low(share) if rating == "low" else self._medium(share)
            self._known[rating, share] = known
        return known

    def _low(self, share: float) -> tuple[Predicate, ...]:
        threshold = _fit_threshold(self._values("highLow%Diff"), share * len(self._quotes))
        return (Predicate("highLow%Diff", Op.GT, threshold),)

    def _medium(self, share: float) -> tuple[Predicate, ...]:
        """Both conditions do their part: the move lets through about the root, the volume the rest.

        The move is rounded to three decimals, so many days share one value; the volume makes up for that.
        """
        wanted = share * len(self._quotes)
        move = _fit_threshold(self._values("openClose%Diff"), share**0.5 * len(self._quotes))
        left = self._values("volume", lambda quote: cast(float, quote["openClose%Diff"]) > move)
        if len(left) < wanted:  # so many days without a move that the volume must not take any more
            move, left = -1.0, self._values("volume")
        return (
            Predicate("volume", Op.GT, _fit_threshold(left, wanted)),
            Predicate("openClose%Diff", Op.GT, move),
        )

    def _values(
        self, attribute: str, where: Callable[[Event], bool] = lambda quote: True
    ) -> list[float]:
        return [cast(float, quote[attribute]) for quote in self._quotes if where(quote)]


def _fit_threshold(values: Sequence[float], wanted: float) -> float:
    """The threshold that the nearest number of values to the wanted one lies above."""
    ordered = sorted(values, reverse=True)
    # A value below all others lets everything through; else a threshold is a value that occurs.
    best, miss = ordered[-1] - 1, abs(len(ordered) - wanted)
    for above, value in enumerate(ordered):
        is_first = above == 0 or ordered[above - 1] > value
        if is_first and abs(above - wanted) < miss:
            best, miss = value, abs(above - wanted)
    return best
