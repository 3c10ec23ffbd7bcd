"""Two trees against each other: `make bench-compare ARGS='--old FOLDER --bench core --only door'`.

A benchmark of the old tree and of this one, turn about, so that what else the machine does meets both alike. For each
figure, pair by pair, what this tree takes divided by what the old one takes (above 1 is slower): the median of these
ratios, and the interval that holds 95% of the medians of as many pairs drawn again with replacement (bootstrap).

The old tree is a checkout whose compiled engine was built (`make setup` there). Whatever is not an option here goes to
the benchmark as it stands.

    make bench-compare ARGS='--old ../before --bench broker --pairs 15 --quick'
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from common import Row, finish, machine, print_table

HERE = Path(__file__).resolve().parents[1]
COST = {
    "us_per_publication": 1,
    "us_per_row": 1,
    "us_per_delivery": 1,
    "broker_cpu_us_per_message": 1,
    "handlings_per_s": -1,
}
"""The figures that are compared, and whether more of them is a cost (1) or a gain (−1)."""
VARIES = {
    "spread",
    "met",
    "targets",
    "handlings",
    "deliveries",
    "delivered_per_s",
    "overhead_percent",
    "frame_bytes",
}
DRAWS = 10_000
COLUMNS = ("figure", "ratio", "low", "high", "pairs", "a loss of 5%")


def run(tree: Path, bench: str, arguments: Sequence[str]) -> dict[tuple[str, str], float]:
    """One run of a benchmark in a tree: what each figure of each row costs, as time for one thing."""
    command = [sys.executable, str(tree / "bench" / f"{bench}.py"), *arguments]
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    ended = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    lines = ended.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("{"):
        raise SystemExit(f"bench/{bench}.py failed in {tree}:\n{ended.stderr or ended.stdout}")
    costs = {}
    for row in json.loads(lines[-1])["rows"]:
        for figure, sign in COST.items():
            if row.get(figure):
                costs[_name(row), figure] = float(row[figure]) ** sign
    return costs


def _name(row: Row) -> str:
    """What a row is about: its parameters, but for all that was measured.

    What is off is left out, so a row keeps its name when the benchmark gets another thing that can be on.
    """
    plain = {k: v for k, v in row.items() if isinstance(v, str) or v is True or type(v) is int}
    return " ".join(f"{k}={v}" for k, v in plain.items() if k not in VARIES and k not in COST)


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """Where 95% of the medians lie if as many pairs are drawn again and again.

    >>> interval([1.0, 1.0, 1.0])
    (1.0, 1.0)
    """
    random = Random(1)
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    return medians[int(0.025 * DRAWS)], medians[int(0.975 * DRAWS) - 1]


def main() -> None:
    """Run the pairs, the one that begins changing with each, and tell what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--old", type=Path, required=True, help="the tree to compare with")
    parser.add_argument("--bench", required=True, help="core, broker, lab, …")
    parser.add_argument("--pairs", type=int, default=15)
    asked, rest = parser.parse_known_args()
    ratios: dict[tuple[str, str], list[float]] = {}
    for pair in range(asked.pairs):
        trees = (asked.old.resolve(), HERE) if pair % 2 else (HERE, asked.old.resolve())
        costs = {tree: run(tree, asked.bench, rest) for tree in trees}
        for figure, cost in costs[HERE].items():
            if before := costs[trees[0] if trees[1] == HERE else trees[1]].get(figure):
                ratios.setdefault(figure, []).append(cost / before)
        print(f"pair {pair + 1} of {asked.pairs}", file=sys.stderr, flush=True)
    if not ratios:
        raise SystemExit("the two trees have no row in common: are these the same benchmark?")
    rows: list[Row] = []
    for (what, measured), each in ratios.items():
        low, high = interval(each)
        verdict = "excluded" if high < 1.05 else "SHOWN" if low > 1.05 else "possible"
        rows.append(
            {"figure": f"{measured}: {what}", "ratio": round(statistics.median(each), 4)}
            | {"low": round(low, 4), "high": round(high, 4), "pairs": len(each)}
            | {"a loss of 5%": verdict}
        )
    print_table("this tree ÷ the old one, time for one thing", COLUMNS, rows)
    finish("compare", rows, machine())


if __name__ == "__main__":
    main()
