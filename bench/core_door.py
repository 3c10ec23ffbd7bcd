"""One broker behind its door, for `core.py`: what a publication costs from bytes to bytes.

The broker has 10,000 subscriptions: for each of 2,500 stock symbols two of a local client and two of a neighbour, of
which one each wants every quote of the symbol and the other none. So each publication has one local match and one
forward. It has the twelve attributes of a stock quote.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from statistics import median
from time import process_time

from common import Row, measure
from runnel.broker.config import BrokerConfig
from runnel.broker.events import Connected, FramesArrived
from runnel.broker.links import Link, LinkConfig
from runnel.broker.permits import Permit
from runnel.broker.tables import OwnMatcher
from runnel.compose import BrokerSpec, make_broker
from runnel.language import EVERYTHING, Filter, Op, Predicate, any_of, parse
from runnel.matching import make_engine
from runnel.wire import (
    PROTOCOL,
    Ack,
    Advertise,
    Decoder,
    Hello,
    Publication,
    Subscribe,
    encode,
    make_publication,
    raw_selection,
)
from runnel.workload.stocks import synthetic_quotes

SUBSCRIPTIONS = 10_000
PUBLICATIONS = 5_000
PUBLISHER, NEIGHBOUR, FIRST_CLIENT = 1, 2, 3


class BenchBroker:
    """The broker, and its peers as connections."""

    def __init__(
        self, engine: str, clients: int, subscriptions: int, permit: Permit | None = None
    ) -> None:
        self._permit = permit  # the publisher's
        matcher = OwnMatcher(make_engine(engine))  # type: ignore[arg-type]
        self.broker = make_broker(BrokerSpec(BrokerConfig("B")), 1, matcher=matcher)
        self.broker.start(0)
        self.clients = range(FIRST_CLIENT, FIRST_CLIENT + clients)
        self.symbols = [f"S{n:04}" for n in range(subscriptions // 4)]
        self.sent = dict.fromkeys((NEIGHBOUR, *self.clients), 0)
        self._connect(PUBLISHER, "publisher", "client")
        self._connect(NEIGHBOUR, "neighbour", "broker")
        for conn in self.clients:
            self._connect(conn, f"client{conn}", "client")
        self._arrive(PUBLISHER, encode(Advertise(1, raw_selection(EVERYTHING), "p", 9)))
        self._subscribe()
        self.acknowledge(extra={NEIGHBOUR: 1})

    def _connect(self, conn: int, name: str, kind: str) -> None:
        permit = self._permit if conn == PUBLISHER else None
        self.broker.handle(Connected(conn, None, permit), 0)
        self._arrive(conn, encode(Hello(PROTOCOL, kind, name, conn, 0, 0, 0, 0)))

    def _arrive(self, conn: int, chunk: bytes) -> None:
        self.broker.handle(FramesArrived(conn, chunk), 0)

    def _subscribe(self) -> None:
        """For each symbol and hop, a filter that wants all its quotes and one that wants none."""
        id = 0
        for place, symbol in enumerate(self.symbols):
            for conn in (NEIGHBOUR, self.client_of(place)):
                for least in (0, 10**12):
                    id += 1
                    wanted = Filter(
                        [Predicate("symbol", Op.EQ, symbol), Predicate("volume", Op.GE, least)]
                    )
                    self._arrive(conn, encode(Subscribe(id, raw_selection(wanted), 9)))

    def client_of(self, place: int) -> int:
        """The connection of the client that wants the quotes of a symbol."""
        return self.clients[place % len(self.clients)]

    def publications(self, count: int) -> list[Publication]:
        """Quotes, one symbol after the other."""
        quotes = synthetic_quotes(symbol_count=50, days=count // 50 + 1)
        return [
            make_publication(
                1,
                place + 1,
                quote | {"symbol": self.symbols[place % len(self.symbols)]},
                publisher="p",
            )
            for place, quote in enumerate(islice(quotes, count))
        ]

    def acknowledge(self, extra: dict[int, int] | None = None) -> None:
        """Every peer has what it was sent."""
        for conn, count in (extra or {}).items():
            self.sent[conn] += count
        for conn, count in self.sent.items():
            self._arrive(conn, encode(Ack(count, 0, 0, False)))

    def passes(self, publications: list[Publication], size: int) -> Callable[[], int]:
        """All publications through the door in chunks of a size; peers acknowledge as they are meant to."""
        handle, sent = self.broker.handle, self.sent
        chunks = [
            FramesArrived(PUBLISHER, b"".join(p.frame() for p in publications[at : at + size]))
            for at in range(0, len(publications), size)
        ]
        every = max(1, LinkConfig().ack_every // size)
        shares = [self._share(at, size) for at in range(0, len(publications), size)]

        def once() -> int:
            owed: dict[int, None] = {}
            for number, (chunk, share) in enumerate(zip(chunks, shares, strict=True), 1):
                handle(chunk, 0)
                for conn, count in share:
                    sent[conn] += count
                    owed[conn] = None
                if number % every == 0:
                    for conn in owed:
                        handle(FramesArrived(conn, encode(Ack(sent[conn], 0, 0, False))), 0)
                    owed.clear()
            return len(publications)

        return once

    def _share(self, at: int, size: int) -> list[tuple[int, int]]:
        """How many publications of a chunk each peer gets."""
        shares = {NEIGHBOUR: size}
        for place in range(at, at + size):
            conn = self.client_of(place % len(self.symbols))
            shares[conn] = shares.get(conn, 0) + 1
        return list(shares.items())


def door_rows(engine: str, chunk: int, clients: int, quick: bool) -> list[Row]:
    """The cost of a publication through the door, by engine, chunk size and how many clients share it."""
    door = BenchBroker(engine, clients, SUBSCRIPTIONS // (10 if quick else 1))
    publications = door.publications(PUBLICATIONS // (10 if quick else 1))
    row = _row(door.passes(publications, chunk), quick)
    links = [door.broker.links["neighbour"], door.broker.links[f"client{FIRST_CLIENT}"]]
    assert all(link.waiting_bytes == 0 and not link.dropped for link in links), "the peers lagged"
    common: Row = {"figure": "door", "engine": engine, "chunk": chunk, "clients": clients}
    common["subscriptions"] = len(door.broker.tables.prt)
    common["frame_bytes"] = sum(len(p.frame()) for p in publications) // len(publications)
    return [common | row]


def access_rows(rules: int, chunk: int, quick: bool) -> list[Row]:
    """What the rules of a user cost for each of its publications: with them less without, turn about."""
    texts = [f"volume >= 0 AND symbol >= '{'S' * (n % 2)}{n}'" for n in range(rules - 1)]
    allowed = [parse(text) for text in ("volume >= 0", *texts)]
    filters = [disjunct for one in allowed for disjunct in one.disjuncts]
    permit = Permit("p", publish=any_of(filters), names=("p", "publisher"))
    subscriptions = SUBSCRIPTIONS // (10 if quick else 1)
    doors = [BenchBroker("compiled", 1, subscriptions, one) for one in (None, permit)]
    passes = []
    for door in doors:
        publications = door.publications(PUBLICATIONS // (10 if quick else 1))
        passes.append(door.passes(publications, chunk))
    differences, ratios = [], []
    for _ in range(3 if quick else 15):
        off, on = (_row(once, True)["us_per_publication"] for once in passes)
        differences.append(on - off)
        ratios.append(on / off)
    assert not doors[1].broker.meter.refused, "nothing was to be refused"
    row: Row = {"figure": "access", "rules": rules, "chunk": chunk}
    return [
        row
        | {"us_per_publication": round(median(differences), 3), "ratio": round(median(ratios), 3)}
    ]


def part_rows(engine: str, quick: bool) -> list[Row]:
    """The parts of the door, each timed by itself, in chunks of a hundred."""
    door = BenchBroker(engine, 1, SUBSCRIPTIONS // (10 if quick else 1))
    made = door.publications(PUBLICATIONS // (10 if quick else 1))
    chunks = [b"".join(p.frame() for p in made[at : at + 100]) for at in range(0, len(made), 100)]
    decoded = [frame for chunk in chunks for frame in Decoder().feed(chunk)]
    parts = {
        "frames": _frames(chunks),
        "frames + attributes": _attributes(chunks),
        "match": _match(door, made),
        "forward": _forward([p for p in decoded if isinstance(p, Publication)]),
        "link": _link([p.frame() for p in made]),
    }
    return [
        {"figure": "part", "engine": engine, "chunk": 100, "part": part} | _row(once, quick)
        for part, once in parts.items()
    ]


def _row(once: Callable[[], int], quick: bool) -> Row:
    rate = measure(once, min_s=0.02 if quick else 0.5, clock=process_time, max_s=10.0)
    return {"us_per_publication": round(1e6 / rate.per_s, 3), "spread": round(rate.spread, 3)}


def _frames(chunks: list[bytes]) -> Callable[[], int]:
    def once() -> int:
        decoder = Decoder()
        return sum(len(decoder.feed(chunk)) for chunk in chunks)

    return once


def _attributes(chunks: list[bytes]) -> Callable[[], int]:
    def once() -> int:
        decoder, count = Decoder(), 0
        for chunk in chunks:
            for publication in decoder.feed(chunk):
                publication.attributes  # type: ignore[union-attr]  # noqa: B018 - that is what is timed
                count += 1
        return count

    return once


def _match(door: BenchBroker, publications: list[Publication]) -> Callable[[], int]:
    next_hops = door.broker.strategy.next_hops
    link = door.broker.links["publisher"]

    def once() -> int:
        for publication in publications:
            next_hops(link, publication)
        return len(publications)

    return once


def _forward(publications: list[Publication]) -> Callable[[], int]:
    def once() -> int:
        for publication in publications:
            publication.forwarded()
        return len(publications)

    return once


def _link(frames: list[bytes]) -> Callable[[], int]:
    """Queue, take and acknowledge, on two links as the door has them."""
    links = [Link(name, "broker", 0, 1, LinkConfig(), 0, {}) for name in ("one", "other")]
    for link in links:
        link.up(1, 0)
    chunks = [frames[at : at + 100] for at in range(0, len(frames), 100)]
    sent = 0

    def once() -> int:
        nonlocal sent
        for chunk in chunks:
            sent += len(chunk)
            for link in links:
                link.send_publications(chunk)
                link.take(0)
                link.acknowledge(Ack(sent, 0, 0, False))
        return len(frames)

    return once
