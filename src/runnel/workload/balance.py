"""The workload of balance §6: stock quotes, subscriptions by six templates, a disturbance of the rates.

Printed: the templates and their probabilities (§6.2) · 40 publishers at 30 msg/min on average, 2,000
subscribers, 25% of them with zero traffic, half of the publishers at +100% from 3,000 s on (Table V and §6.3,
simulation; 8,000 s in §6.4) · all publishers at B0, all subscribers join B1 at a time chosen uniformly within
1,010 s · thresholds drawn from the same attribute of the stock's publication set.

Inferred: every publisher has the average rate · a subscriber has zero traffic because nobody publishes its
symbol ("randomly chosen out of the known stock symbols"); since a template without a symbol cannot miss, only
the others are made to, as often as it takes for the whole to come to the printed share.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from random import Random

from runnel.errors import InputError
from runnel.language import Filter, Op, Predicate
from runnel.quantities import SECOND
from runnel.workload.files import Event
from runnel.workload.market import Quotes, StockParameters, open_market, publishers_of
from runnel.workload.parameters import Count, Index, Rate, Seconds, Share
from runnel.workload.shape import RateChange, Subscriber, Workload, WorkloadPublisher
from runnel.workload.stocks import BALANCE_MIX, Template, symbols

SYMBOL_PERCENT = sum(template.percent for template in BALANCE_MIX if template.names_symbol)
_UNPUBLISHED = 60  # how many symbols are known that nobody publishes


class BalanceParameters(StockParameters, frozen=True):
    """The defaults are the paper's simulation of local load balancing; `raise_at_s` 0 means never."""

    rate_per_min: Rate = 30.0
    subscriptions: Count = 2_000
    zero_share: Share = 0.25
    join_within_s: Seconds = 1_010.0
    publisher_broker: Index = 0
    subscriber_broker: Index = 1
    raise_at_s: Seconds = 3_000.0
    raise_share: Share = 0.5
    raise_factor: Rate = 2.0


def make_balance(parameters: BalanceParameters, seed: int, folder: Path) -> Workload:
    """Make the workload of balance §6."""
    most = SYMBOL_PERCENT / 100
    if parameters.zero_share > most:
        raise InputError(
            f"zero_share: must be at most {most}, since the templates without a symbol match whatever is "
            f"published, got {parameters.zero_share}"
        )
    market = open_market(parameters, seed, folder)
    brokers = [parameters.publisher_broker] * len(market)
    publishers = publishers_of(market, parameters.rate_per_min, brokers)
    subscribers = _subscribers(market, parameters, Random(f"{seed}/balance/subscribers"))
    return Workload("stocks", _raise_rates(publishers, parameters, seed), tuple(subscribers))


def _subscribers(
    market: Quotes, parameters: BalanceParameters, random: Random
) -> Iterator[Subscriber]:
    """Draw the templates, as in the paper; subscribers with zero traffic are chosen among those that name a symbol."""
    count = parameters.subscriptions
    weights = list(accumulate(template.percent for template in BALANCE_MIX))
    templates = random.choices(BALANCE_MIX, cum_weights=weights, k=count)
    naming = [number for number, template in enumerate(templates) if template.names_symbol]
    zeros = min(round(count * parameters.zero_share), len(naming))
    misses = set(random.sample(naming, zeros))
    published = list(market)
    unpublished = [name for name in symbols(len(market) + _UNPUBLISHED) if name not in market]
    for number, template in enumerate(templates):
        symbol = random.choice(published)
        quote = random.choice(market[symbol])
        asked = random.choice(unpublished) if number in misses else symbol
        yield Subscriber(
            f"sub-{number + 1}",
            _filter(template, asked, quote),
            parameters.subscriber_broker,
            "zero" if number in misses else "",
            round(random.uniform(0, parameters.join_within_s) * SECOND),
        )


def _filter(template: Template, symbol: str, quote: Event) -> Filter:
    """The template, filled in with a symbol and a value of a quote."""
    predicates = [Predicate("class", Op.EQ, "STOCK")]
    if template.names_symbol:
        predicates.append(Predicate("symbol", Op.EQ, symbol))
    if template.threshold:
        attribute, op = template.threshold
        predicates.append(Predicate(attribute, op, quote[attribute]))
    return Filter(predicates)


def _raise_rates(
    publishers: list[WorkloadPublisher], parameters: BalanceParameters, seed: int
) -> tuple[WorkloadPublisher, ...]:
    """Give some of the publishers a change of rate."""
    if not parameters.raise_at_s:
        return tuple(publishers)
    at_ns = round(parameters.raise_at_s * SECOND)
    count = round(len(publishers) * parameters.raise_share)
    chosen = set(Random(f"{seed}/balance/raised").sample(range(len(publishers)), count))
    return tuple(
        WorkloadPublisher(
            one.name,
            one.advertisement,
            one.rate_per_s,
            one.events,
            one.broker,
            (RateChange(at_ns, one.rate_per_s * parameters.raise_factor),)
            if number in chosen
            else (),
        )
        for number, one in enumerate(publishers)
    )
