"""The cost of profiles in a broker: `make bench-profiles`.

record     CPU per delivery on the broker's thread, from the hook for a run of publications to the bits that are set;
           by the length of the run and the number of local subscriptions per publication, with all vectors made

    make bench-profiles                everything (about half a minute); also --quick
"""

from __future__ import annotations

import argparse
import gc
from itertools import count, islice
from random import Random
from time import process_time
from typing import Any

from msgspec import Raw

from common import Row, Target, finish, machine, measure, print_table
from runnel.broker.links import Link, LinkConfig
from runnel.broker.tables import SubscriptionRow
from runnel.language import EVERYTHING
from runnel.modules.profiles.vectors import Vectors
from runnel.modules.recording.module import Recording
from runnel.modules.recording.tape import Tape
from runnel.wire import Publication, make_publication

PUBLICATIONS = 20_000
CASES = [  # subscriptions, publishers, deliveries of a publication
    (50, 1, 1),
    (200, 40, 5),
    (2_000, 40, 20),
    (8_000, 40, 20),
]
RUNS = (1, 10)
TARGET = Target("us_per_delivery", 0.5, at_most=True)
COLUMNS = ("subscriptions", "publishers", "deliveries", "run", "us_per_delivery", "spread")
CONTEXT: Any = None  # not asked: every client has one subscription


class PublicationSource:
    """An endless source of publications; a subscription receives some of the publications of one publisher."""

    def __init__(self, subscriptions: int, publishers: int, deliveries: int) -> None:
        self._random = Random(1)
        self._publishers = publishers
        self._deliveries = deliveries
        self._wanted = [list(range(p, subscriptions, publishers)) for p in range(publishers)]
        self._next = count()

    def take(self, many: int) -> tuple[list[Publication], list[list[int]]]:
        """The next publications, and the subscriptions that receive each."""
        numbers = list(islice(self._next, many))
        return (
            [
                make_publication(n % self._publishers + 1, n // self._publishers + 1, {"a": n})
                for n in numbers
            ],
            [self._draw_receivers(self._wanted[n % self._publishers]) for n in numbers],
        )

    def _draw_receivers(self, wanted: list[int]) -> list[int]:
        return self._random.sample(wanted, min(len(wanted), self._deliveries))


def record_row(case: tuple[int, int, int], run: int, quick: bool) -> Row:
    """One case."""
    recording = Recording(Tape())
    vectors = Vectors(recording, 1_280)
    neighbour = Link("N", "broker", case[0], 1, LinkConfig(), 0, {})
    for number in range(case[0]):
        link = Link(f"c{number}", "client", number, 1, LinkConfig(), 0, {})
        row = SubscriptionRow(1_000 + number, EVERYTHING, Raw(b""), 9, link, number)
        recording.link_up(CONTEXT, link, 0)
        recording.subscribed(CONTEXT, link, row, 0)
        vectors.add_subscription(row.id)
    traffic = PublicationSource(*case)
    spent = 0.0

    def once() -> int:
        nonlocal spent
        publications, hops = traffic.take(PUBLICATIONS // (20 if quick else 1))
        began = process_time()
        if run == 1:
            for publication, to in zip(publications, hops, strict=True):
                recording.routed_one(CONTEXT, neighbour, publication, to, 0)
        else:
            for at in range(0, len(publications), run):
                some = slice(at, at + run)
                recording.routed(CONTEXT, neighbour, publications[some], hops[some], 0)
        recording.seal()
        spent += process_time() - began
        return sum(map(len, hops))

    gc.collect()
    rate = measure(once, min_s=0.02 if quick else 0.3, clock=lambda: spent)
    about = dict(zip(COLUMNS, (*case, run), strict=False))
    return {"figure": "record", **about, "us_per_delivery": 1e6 / rate.per_s, "spread": rate.spread}


def main() -> None:
    """Measure, print the table, then the JSON line."""
    parser = argparse.ArgumentParser(description="Measure what profiles cost.")
    parser.add_argument("--quick", action="store_true", help="small and short: does it work?")
    quick = parser.parse_args().quick
    rows = [record_row(case, run, quick) for case in CASES for run in RUNS]
    for row in rows if not quick else []:
        met = TARGET.met(row)
        row |= {"target": TARGET.bound, "met": met, "": "met" if met else "MISSED"}
    print_table("profiles: record", [*COLUMNS, "target", ""], rows)
    finish("profiles", [{k: v for k, v in row.items() if k} for row in rows], machine())


if __name__ == "__main__":
    main()
