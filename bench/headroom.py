"""Benchmark of learned head-room: brokers that are overloaded in windows that the plan has not seen.

Real quotes, if there is a file of them (columns symbol, open, high, low, close, volume, date), or synthetic ones.
For each network: uniform head-room and learned head-room (`deviations`), each over a range, and a clairvoyant plan that
is made of the window it is judged by. `rivals` is what uniform head-room overloads with as many brokers: the least of
all rows that use no more than this one, or, if there is none, of the row with the fewest.

Targets, for the default of the learned head-room: at most 1% of brokers × windows are overloaded, with at most 1.15
times the brokers of the clairvoyant plan; and fewer than uniform head-room overloads at every number of brokers.

    make bench-headroom ARGS='--quotes ../shared/data/stocks_padres/quotes.parquet'
    make bench-headroom ARGS='--quick'
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from common import Row, finish, machine, print_table
from runnel.lab.experiments.green.unseen import Outlook, QuoteStream, make_stream
from runnel.planning.documents.constraints import Constraints
from runnel.planning.foresight import Foresight
from runnel.workload.green import GreenParameters

OVERLOADED_MOST, BROKERS_MOST = 0.01, 1.15
UNIFORM = (0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 17.0, 20.0)
DEVIATIONS = (0.25, 0.5, 0.75, 1.0, 1.25)
WIDTH, FIRST = 254, 3  # a year of trading; nine of them are there, and six are judged
COLUMNS = (
    *("network", "template", "subs", "policy", "brokers", "of clairvoyant", "overloaded"),
    *("share", "rivals", ""),
)


def networks(quotes: Path | None, is_quick: bool) -> Iterator[tuple[Row, GreenParameters]]:
    """The networks of green, with the paper's mixed inequalities and with the one that it prints."""
    file = {"quotes": quotes.name} if quotes else {"days": 9 * WIDTH}
    sizes = (50,) if is_quick else (50, 100, 200)
    for scenario in ("homogeneous", "heterogeneous"):
        for inequality in ("mixed", "low"):
            for each in sizes:
                parameters = GreenParameters(
                    per_publisher=each, scenario=scenario, inequality=inequality, **file
                )
                yield {"network": scenario, "template": inequality}, parameters


def judge_network(named: Row, stream: QuoteStream) -> Iterator[Row]:
    """A row for every policy."""
    named = named | {"subs": len(stream.network.subscriptions)}
    best = stream.judge_clairvoyant()
    row = partial(_row, named, best)
    yield row("clairvoyant", best, [])
    uniform = [(each, stream.judge(Constraints(headroom_percent=each))) for each in UNIFORM]
    for percent, found in uniform:
        yield row(f"uniform {percent:g}%", found, [])
    for each in DEVIATIONS:
        found = stream.judge(Constraints(foresight=Foresight(each)))
        default = " (default)" if each == Foresight().deviations else ""
        yield row(f"learned {each:g}{default}", found, [one for _, one in uniform])


def _row(named: Row, best: Outlook, policy: str, found: Outlook, rivals: list[Outlook]) -> Row:
    brokers, overloaded = sum(found.brokers), sum(found.overloaded)
    of_best = brokers / sum(best.brokers)
    row: Row = named | {"policy": policy, "brokers": brokers, "of clairvoyant": round(of_best, 3)}
    row |= {"overloaded": overloaded, "share": round(found.share, 4)}
    if rivals:
        ordered = sorted(rivals, key=lambda one: sum(one.brokers))
        no_more = [one for one in ordered if sum(one.brokers) <= brokers] or ordered[:1]
        row["rivals"] = min(sum(one.overloaded) for one in no_more)
        is_less = overloaded < row["rivals"] or not row["rivals"]
        is_met = found.share <= OVERLOADED_MOST and of_best <= BROKERS_MOST and is_less
        row["met"] = is_met
        row[""] = "met" if is_met else "" if "default" not in policy else "MISSED"
    return row


def main() -> None:
    """Measure, print, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quotes", type=Path, help="a file of real quotes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="2,000 subscriptions only")
    asked = parser.parse_args()
    folder = asked.quotes.parent if asked.quotes else Path()
    rows: list[Row] = []
    for named, parameters in networks(asked.quotes, asked.quick):
        stream = make_stream(parameters, asked.seed, folder, WIDTH, FIRST)
        found = list(judge_network(named, stream))
        print_table(f"{named['network']}, {named['template']}", COLUMNS, found)
        rows += found
    finish("headroom", rows, machine())


if __name__ == "__main__":
    main()
