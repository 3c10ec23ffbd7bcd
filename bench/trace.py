"""What tracing costs: `make bench-trace`.

record     on the broker's thread, per row: a run of publications that a client sent, or that went to clients with one
           subscription each; in runs of so many, up to the arrays that the writer takes. The collector of garbage is
           on, as in a broker
write      on the writer's side, per row: from what was recorded to files on disk
door       CPU per publication of a whole broker with 10,000 subscriptions, from bytes to bytes, one local delivery
           and one forward each, in chunks of so many: without a trace, with one publication of a hundred, with
           all; the writer's thread included, on whatever core it runs. The same with profiles (CBC), alone and beside
           a trace of all. There are no sockets in it, which cost a real broker several times as much; so what is asked
           of a node is not asked here
both       the last of these alone, with a trace of all and with profiles: what compare.py sets against another tree

    make bench-trace                       everything (about a minute)
    make bench-trace ARGS='--only door'    one figure; also --quick
    make bench-compare ARGS='--old ../before --bench trace --only both'    against another tree, turn about

A tree of before `compose.py` and `modules/` needs a copy of this file in its own `bench/`, with its own imports and its
own `recorders` and `TracedBench.__init__`; all else is the same.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

from common import Row, Target, finish, machine, measure, print_table
from runnel.broker.config import BrokerConfig
from runnel.broker.events import Connected, FramesArrived
from runnel.broker.module import Module
from runnel.compose import BrokerSpec, make_broker
from runnel.errors import BugError
from runnel.language import EVERYTHING, Filter, Op, Predicate
from runnel.matching import engine_note
from runnel.modules.profiles.config import ProfilesConfig
from runnel.modules.profiles.module import Cbc
from runnel.trace.module import Tracing
from runnel.trace.recorder import Recorder
from runnel.trace.setup import NodeTrace, TraceOptions
from runnel.trace.writer import Writer, WriterConfig
from runnel.wire import (
    PROTOCOL,
    Ack,
    Advertise,
    Hello,
    Publication,
    Subscribe,
    encode,
    make_publication,
    raw_selection,
)
from runnel.workload.stocks import synthetic_quotes

PUBLISHER, NEIGHBOUR, FIRST_CLIENT = 1, 2, 3
SYMBOLS = 50
PUBLICATIONS = 5_000
ACKNOWLEDGED = 500  # publications at a time: less than a window
RUNS = (1, 10, 100)
CHUNKS = (10, 100)
RECORDED = (  # what is traced, one publication of how many, and whether there are profiles
    *(("off", 0, False), ("1 of 100", 100, False), ("all", 1, False)),
    *(("off", 0, True), ("all", 1, True)),
)
COLUMNS = {
    "record": ("rows", "run", "us_per_row", "spread"),
    "write": ("rows", "us_per_row", "spread"),
    "door": ("trace", "profiles", "chunk", "us_per_publication", "spread", "overhead_percent"),
    "both": ("trace", "profiles", "chunk", "us_per_publication", "spread"),
}


def target_of(row: Row) -> Target | None:
    """What is asked of a row."""
    match row:
        case {"figure": "record", "run": run} if run >= 10:
            return Target("us_per_row", 0.3, at_most=True)
    return None


class TracedBench:
    """A broker, a publisher, a neighbour, and a client for each symbol."""

    def __init__(self, subscriptions: int, *modules: Module) -> None:
        self.broker = make_broker(BrokerSpec(BrokerConfig("B")), 1, added=modules)
        self.broker.start(0)
        self.clients = range(FIRST_CLIENT, FIRST_CLIENT + SYMBOLS)
        self._connect(PUBLISHER, "publisher", "client")
        self._connect(NEIGHBOUR, "neighbour", "broker")
        self.arrive(PUBLISHER, encode(Advertise(1, raw_selection(EVERYTHING), "p", 9)))
        for conn in self.clients:
            self._connect(conn, f"client{conn}", "client")
            self._subscribe(conn, conn, conn - FIRST_CLIENT, 0)
            self._subscribe(NEIGHBOUR, 1_000 + conn, conn - FIRST_CLIENT, 0)
        for number in range(subscriptions - 2 * SYMBOLS):  # that want none
            self._subscribe(NEIGHBOUR, 10_000 + number, number % SYMBOLS, 10**12 + number)
        # What is sent to the neighbour comes after which links are missing, and an advertisement.
        self._sent = {NEIGHBOUR: 2} | dict.fromkeys(self.clients, 0)

    def _connect(self, conn: int, name: str, kind: str) -> None:
        self.broker.handle(Connected(conn), 0)
        self.arrive(conn, encode(Hello(PROTOCOL, kind, name, conn, 0, 0, 0, 0)))

    def _subscribe(self, conn: int, id: int, symbol: int, least: int) -> None:
        wanted = Filter(
            [Predicate("symbol", Op.EQ, f"S{symbol}"), Predicate("volume", Op.GE, least)]
        )
        self.arrive(conn, encode(Subscribe(id, raw_selection(wanted), 9)))

    def arrive(self, conn: int, chunk: bytes) -> None:
        """Bytes from a peer."""
        self.broker.handle(FramesArrived(conn, chunk), 0)

    def acknowledge(self, each: int) -> None:
        """Every peer has got what it was sent: as much for each symbol."""
        for conn in self._sent:
            is_neighbour = conn == NEIGHBOUR
            self._sent[conn] += each * SYMBOLS if is_neighbour else each
            heard_of = SYMBOLS if is_neighbour else 0  # clients that have connected
            self.arrive(conn, encode(Ack(self._sent[conn], heard_of, 0, False)))
        if any(link.flying_bytes for link in self.broker.links.values()):
            raise BugError("the peers were not sent what this benchmark thinks")


def publications(count: int) -> list[Publication]:
    """Quotes with twelve attributes, one symbol after the other."""
    quotes = islice(synthetic_quotes(symbol_count=SYMBOLS, days=count // SYMBOLS + 1), count)
    return [
        make_publication(1, n + 1, {**quote, "symbol": f"S{n % SYMBOLS}"}, publisher="p", time_ns=n)
        for n, quote in enumerate(quotes)
    ]


class Stopwatch:
    """A clock that goes only while it is told to: what the other side does is not counted."""

    def __init__(self) -> None:
        self.spent = 0.0

    def read(self) -> float:
        return self.spent


def row_of(
    figure: str,
    unit: str,
    once: Callable[[], int],
    quick: bool,
    clock: Callable[[], float] = process_time,
    **parameters: object,
) -> Row:
    """Measure CPU time per thing."""
    gc.collect()
    rate = measure(once, min_s=0.02 if quick else 0.3, clock=clock)
    return {"figure": figure, **parameters, unit: 1e6 / rate.per_s, "spread": rate.spread}


def record_rows(quick: bool) -> list[Row]:
    """The hook of the recording alone, with a real broker behind it."""
    found = []
    for run in RUNS:
        for rows in ("publications", "deliveries"):
            recorder = Recorder()
            module = Tracing(recorder)
            broker = TracedBench(2 * SYMBOLS, module).broker
            quotes = publications(500 if quick else PUBLICATIONS)
            pieces = [quotes[at : at + run] for at in range(0, len(quotes), run)]
            link = broker.links["publisher" if rows == "publications" else "neighbour"]
            neighbour = broker.links["neighbour"].number
            local = rows == "deliveries"
            hops = [
                [broker.tables.hops(p) if local else [neighbour] for p in piece] for piece in pieces
            ]
            hops = [[[n for n in h if not local or n != neighbour] for h in run] for run in hops]

            watch = Stopwatch()

            def once(
                pieces: list[list[Publication]] = pieces, hops: list[list[list[int]]] = hops
            ) -> int:
                began = process_time()
                for piece, their in zip(pieces, hops, strict=True):
                    module.recording.routed(broker, link, piece, their, 1)  # noqa: B023 - called in this turn
                recorder.seal()  # noqa: B023
                watch.spent += process_time() - began  # noqa: B023
                return sum(chunk.rows for chunk in recorder.take())  # noqa: B023

            found.append(
                row_of("record", "us_per_row", once, quick, watch.read, rows=rows, run=run)
            )
    return found


def write_rows(quick: bool) -> list[Row]:
    """Taking, converting, compressing, and bringing to disk."""
    count = 2_000 if quick else 100_000
    quotes = publications(count)
    found = []
    with TemporaryDirectory() as folder:
        recorder = Recorder()
        writer = Writer(WriterConfig(Path(folder), "bench", "virtual"), recorder, lambda: 0)
        audience = recorder.tape.audiences.join("B")
        for client in range(SYMBOLS):
            audience.link_up(client)
            audience.add(client, client, f"client{client}")

        def record(rows: str) -> int:
            for at in range(0, count, 20):
                run = quotes[at : at + 20]
                hops = [[n] if rows == "deliveries" else [] for n in range(len(run))]
                recorder.tape.add(0, run, hops, 1, rows == "publications")
                if at % 4_000 == 0:
                    recorder.seal()
            recorder.seal()
            return count

        for rows in ("publications", "deliveries"):
            watch = Stopwatch()

            def once(rows: str = rows, watch: Stopwatch = watch) -> int:
                record(rows)
                began = process_time()
                writer.flush()
                watch.spent += process_time() - began
                return count

            found.append(row_of("write", "us_per_row", once, quick, watch.read, rows=rows))
        writer.close()
    return found


def recorders(node: NodeTrace, sample: int, profiles: bool) -> list[Module]:
    """The modules of a broker that records this."""
    modules: list[Module] = [node.module] if sample else []
    if profiles:
        shared = node.module.recording if sample else None
        modules.append(Cbc(ProfilesConfig(enabled=True), recording=shared))
    return modules


def door_row(figure: str, recorded: tuple[str, int, bool], chunk: int, quick: bool) -> Row:
    """A whole broker that records this, publications coming in chunks of so many."""
    quotes = publications(500 if quick else PUBLICATIONS)
    pieces = [
        b"".join(p.raw for p in quotes[at : at + chunk]) for at in range(0, len(quotes), chunk)
    ]
    trace, sample, profiles = recorded
    with TemporaryDirectory() as folder:
        settings = TraceOptions(Path(folder), sample=sample or 1, flush_interval_ns=10**9)
        node = NodeTrace(settings, "B", 1, print)
        node.start()
        door = TracedBench(1_000 if quick else 10_000, *recorders(node, sample, profiles))

        def once() -> int:
            for number, piece in enumerate(pieces, 1):
                door.arrive(PUBLISHER, piece)
                if number % (ACKNOWLEDGED // chunk) == 0:
                    door.acknowledge(ACKNOWLEDGED // SYMBOLS)
            return len(quotes)

        about: dict[str, Any] = {"trace": trace, "profiles": profiles, "chunk": chunk}
        row = row_of(figure, "us_per_publication", once, quick, **about)
        node.stop(door.broker)
    return row


def door_rows(quick: bool) -> list[Row]:
    """A whole broker, without a trace or profiles, and with them."""
    found: list[Row] = []
    for chunk in CHUNKS:
        rows = [door_row("door", recorded, chunk, quick) for recorded in RECORDED]
        plain = rows[0]["us_per_publication"]
        for row in rows:
            row["overhead_percent"] = 100 * (row["us_per_publication"] / plain - 1)
        found += rows
    return found


def both_rows(quick: bool) -> list[Row]:
    """The door with a trace of all and with profiles, alone: to be compared with another tree (compare.py)."""
    return [door_row("both", ("all", 1, True), chunk, quick) for chunk in CHUNKS]


MEASURES = {"record": record_rows, "write": write_rows, "door": door_rows, "both": both_rows}


def main() -> None:
    """Measure, print the tables, then the JSON line."""
    parser = argparse.ArgumentParser(description="Measure what tracing costs.")
    parser.add_argument("--only", action="append", choices=tuple(MEASURES), help="this figure")
    parser.add_argument("--quick", action="store_true", help="small and short: does it work?")
    arguments = parser.parse_args()
    about = machine() | {"engine": engine_note()}
    rows: list[Row] = []
    for figure in arguments.only or MEASURES:
        found = MEASURES[figure](arguments.quick)
        for row in found if not arguments.quick else []:
            if target := target_of(row):
                met = target.met(row)
                row |= {"target": target.bound, "met": met, "": "met" if met else "MISSED"}
        print_table(f"trace: {figure}", [*COLUMNS[figure], "target", ""], found)
        rows += [{name: value for name, value in row.items() if name} for row in found]
    finish("trace", rows, about)


if __name__ == "__main__":
    main()
