"""Simulated worlds for `core.py`: how many messages brokers handle in a second, what they take, how they grow.

A world is a tree of brokers with stock subscribers, each a session of its own, and publishers of one symbol each,
as in the experiments of the papers. One engine serves the whole world.
"""

from __future__ import annotations

import gc
from itertools import islice
from random import Random
from time import process_time

from common import Row, measure, rss_bytes
from runnel.broker.config import BrokerConfig
from runnel.broker.ids import IdSource
from runnel.client.config import SessionConfig
from runnel.client.session import Session
from runnel.compose import BrokerSpec, make_broker
from runnel.language import Filter, Op, Predicate, Selection
from runnel.quantities import MILLISECOND, SECOND
from runnel.routing.tree import TreeConfig
from runnel.sim.world import Host, World
from runnel.workload.files import Event
from runnel.workload.stocks import balance_filters, synthetic_quotes

GIB = 1 << 30
QUOTES_PER_SYMBOL = 50


class Stocks:
    """Brokers in a tree of fan-out 2, publishers of one symbol each, subscribers of one subscription each."""

    def __init__(self, brokers: int, publishers: int, tree: TreeConfig) -> None:
        self.world = World(1)
        self.random = Random(1)
        self.names = [f"B{n}" for n in range(brokers)]
        self.quotes: dict[str, list[Event]] = {}
        for quote in synthetic_quotes(symbol_count=publishers, days=QUOTES_PER_SYMBOL):
            self.quotes.setdefault(str(quote["symbol"]), []).append(quote)
        self.publishers: list[tuple[Host, Session, int, list[Event]]] = []
        self._sessions = 0
        for place, name in enumerate(self.names):
            dials = (self.names[(place - 1) // 2],) if place else ()
            config = BrokerConfig(name, dials)
            spec = BrokerSpec(config, routing=tree)
            broker = make_broker(spec, place + 1, matcher=self.world.matcher)
            self.world.start(self.world.host(name), broker)
        self.run(SECOND)

    def run(self, ns: int) -> None:
        """Let virtual time pass."""
        self.world.run(self.world.now + ns)

    def _session(self, name: str) -> tuple[Host, Session]:
        self._sessions += 1
        host = self.world.host(name)
        session = Session(
            SessionConfig(name),
            1_000_000 + self._sessions,
            IdSource(self._sessions),
            lambda: self.world.now,
        )
        self.world.start(host, session)
        session.connect(self.random.choice(self.names), self.world.now)
        self.world.flush(host)
        return host, session

    def publish_from_everywhere(self) -> None:
        """Connect the publishers and have each advertise its symbol."""
        homes = [(*self._session(f"p-{symbol}"), symbol) for symbol in self.quotes]
        self.run(SECOND)
        for host, session, symbol in homes:
            about = Filter([Predicate("class", Op.EQ, "STOCK"), Predicate("symbol", Op.EQ, symbol)])
            id = session.advertise(symbol, about)
            self.world.flush(host)
            self.publishers.append((host, session, id, self.quotes[symbol]))
        self.run(SECOND)

    def subscribe(self, count: int) -> None:
        """Connect subscribers and let their subscriptions find their way."""
        homes = [self._session(f"s-{place}") for place in range(count)]
        self.run(SECOND)
        every = [quote for quotes in self.quotes.values() for quote in quotes]
        filters = [
            f for f in islice(balance_filters(every, 2 * count), 2 * count) if _on_a_symbol(f)
        ]
        for place, (host, session) in enumerate(homes):
            session.subscribe(filters[place % len(filters)])
            self.world.flush(host)
        self.run(3 * SECOND)

    @property
    def rows(self) -> int:
        """How many subscriptions all brokers hold together."""
        return sum(len(broker.tables.prt) for broker in self.world.brokers)

    @property
    def handlings(self) -> int:
        """How many messages all brokers have taken in."""
        meters = [broker.meter for broker in self.world.brokers]
        return sum(meter.publications_in + meter.control_in for meter in meters)


def _on_a_symbol(selection: Selection) -> bool:
    """Whether a subscription is about one symbol, as most are; the others would match half of everything."""
    return any(p.attribute == "symbol" for f in selection.disjuncts for p in f.predicates)


def handling_rows(burst: int, quick: bool) -> list[Row]:
    """How many messages a second of CPU handles, all of the simulator's own work included."""
    stocks = Stocks(10 if quick else 40, 4 if quick else 40, TreeConfig())
    stocks.publish_from_everywhere()
    stocks.subscribe(40 if quick else 400)
    gc.collect()
    gc.freeze()
    published = 0

    def once() -> int:
        """A hundred milliseconds of the world; each publisher sends every ten."""
        nonlocal published
        before = stocks.handlings
        for _ in range(10):
            for host, session, id, quotes in stocks.publishers:
                for _ in range(burst):
                    published += 1
                    session.publish(id, quotes[published % len(quotes)])
                stocks.world.flush(host)
            stocks.run(10 * MILLISECOND)
        return stocks.handlings - before

    rate = measure(once, min_s=0.05 if quick else 1.0, clock=process_time)
    return [
        {
            "figure": "handlings",
            "burst": burst,
            "brokers": len(stocks.names),
            "subscriptions": len(stocks.world.matcher),
            "handlings_per_s": round(rate.per_s),
            "spread": round(rate.spread, 3),
        }
    ]


def memory_rows(brokers: int, subscriptions: int, quick: bool) -> list[Row]:
    """What a world takes in which every broker holds every subscription: no advertisements, no covering."""
    if quick:
        brokers, subscriptions = brokers // 10, subscriptions // 50
    flooding = TreeConfig(covering=False, advertisements=False)
    return [{"figure": "memory"} | _grow_world(brokers, 40, subscriptions, flooding)]


def build_rows(brokers: int, subscriptions: int, quick: bool) -> list[Row]:
    """How long a world takes to be built, with covering and advertisements."""
    if quick:
        brokers, subscriptions = brokers // 20, subscriptions // 50
    return [{"figure": "build"} | _grow_world(brokers, 100, subscriptions, TreeConfig())]


def _grow_world(brokers: int, publishers: int, subscriptions: int, tree: TreeConfig) -> Row:
    gc.collect()
    before, start = rss_bytes(), process_time()
    stocks = Stocks(brokers, publishers, tree)
    stocks.publish_from_everywhere()
    stocks.subscribe(subscriptions)
    taken_s = process_time() - start
    gc.collect()
    memory = rss_bytes() - before
    held = [len(broker.tables.prt) for broker in stocks.world.brokers]
    assert len(stocks.world.matcher) == subscriptions, "a subscription got lost"
    return {
        "brokers": brokers,
        "subscriptions": subscriptions,
        "sessions": len(stocks.world.hosts) - brokers,
        "rows": stocks.rows,
        "rows_most": max(held),
        "messages": stocks.handlings,
        "build_s": round(taken_s, 1),
        "memory_gib": round(memory / GIB, 3),
        "bytes_per_row": round(memory / stocks.rows),
    }
