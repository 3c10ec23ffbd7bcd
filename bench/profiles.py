"""What profiles cost a broker: `make bench-profiles`.

record     CPU per delivery, on the broker's thread, from being told of a run of publications to the bits that are
           set; in runs of so many, each publication to so many local subscriptions, once all vectors are there

    make bench-profiles                everything (about half a minute); also --quick
"""

from __future__ import annotations

import argparse
import gc
from itertools import count, islice
from random import Random
from time import process_time
from typing import Any

from harness import Row, Target, finish, machine, measure, print_table
from runnel.allocation.recording import Recording
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
TABLES: Any = None  # not asked: every client has one subscription


class Traffic:
    """Publications that never end; a subscription wants one publisher, and gets some of what that one says."""

    def __init__(self, subscriptions: int, publishers: int, deliveries: int) -> None:
        self._random = Random(1)
        self._publishers = publishers
        self._deliveries = deliveries
        self._wanted = [list(range(p, subscriptions, publishers)) for p in range(publishers)]
        self._next = count()

    def some(self, many: int) -> tuple[list[Publication], list[list[int]]]:
        """So many, and who gets each."""
        numbers = list(islice(self._next, many))
        return (
            [
                make_publication(n % self._publishers + 1, n // self._publishers + 1, {"a": n})
                for n in numbers
            ],
            [self._some_of(self._wanted[n % self._publishers]) for n in numbers],
        )

    def _some_of(self, wanted: list[int]) -> list[int]:
        return self._random.sample(wanted, min(len(wanted), self._deliveries))


def record_row(case: tuple[int, int, int], run: int, quick: bool) -> Row:
    """One case."""
    recording = Recording(1_280)
    for number in range(case[0]):
        recording.subscribed(number, 1_000 + number)
    traffic = Traffic(*case)
    spent = 0.0

    def once() -> int:
        nonlocal spent
        publications, hops = traffic.some(PUBLICATIONS // (20 if quick else 1))
        began = process_time()
        if run == 1:
            for publication, to in zip(publications, hops, strict=True):
                recording.add_one(TABLES, publication, to, False)
        else:
            for at in range(0, len(publications), run):
                recording.add(TABLES, publications[at : at + run], hops[at : at + run], False)
        recording.settle()
        spent += process_time() - began
        return sum(map(len, hops))

    gc.collect()
    rate = measure(once, min_s=0.02 if quick else 0.3, clock=lambda: spent)
    row = dict(zip(COLUMNS, (*case, run), strict=False))
    return {"figure": "record", **row, "us_per_delivery": 1e6 / rate.per_s, "spread": rate.spread}


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
