"""What `runnel placement` prints: where publishers are, where they would be better, and the numbers behind it."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from runnel.cli.show.tables import make_table, show
from runnel.operate.publishers import Found, Row, progress_text
from runnel.quantities import format_duration

COLUMNS = ("publisher", "at", "algorithm", "best at", "outcome", "decided")
NOTHING = "–"


def print_publishers(found: Found, *, with_candidates: bool) -> None:
    """Print a line for each publisher, the candidates if they are wanted, then who did not answer."""
    if found.rows:
        show(_publishers_table(found.rows))
    else:
        show(Text("nobody publishes anything"))
    for row in found.rows if with_candidates else ():
        if table := _candidates_table(row):
            show(table)
    for name, why in found.silent.items():
        show(Text(f"{name} does not answer: {why}", style="red"))


def _publishers_table(rows: list[Row]) -> Table:
    table = make_table("publishers", *COLUMNS, words=COLUMNS)
    table.add_column("why", overflow="fold", min_width=24)
    for row in rows:
        decision = row["decision"]
        table.add_row(
            Text(row["publisher"]),
            Text(row["at"]),
            _format_algorithm(row),
            Text(decision["to"]) if decision else NOTHING,
            Text(_outcome(row), style="green" if row["migrating"] else ""),
            f"{format_duration(decision['age_s'])} ago" if decision else NOTHING,
            Text(_why(row)),
        )
    return table


def _format_algorithm(row: Row) -> str:
    if row["algorithm"] != "grape":
        return str(row["algorithm"])
    return f"grape, {row['metric']} {row['weight_percent']:g}%"


def _outcome(row: Row) -> str:
    if row["migrating"]:
        return "migrating"
    if "missing" in row:
        return "undecided"
    return row["decision"]["outcome"] if row["decision"] else NOTHING


def _why(row: Row) -> str:
    """The numbers behind a decision; or what there is so far."""
    parts = []
    if "missing" in row:
        parts.append(row["missing"])
    elif row["decision"]:
        parts.append(numbers_text(row["decision"]["numbers"]))
    elif row["progress"]:
        parts.append(f"{progress_text(row['progress'])} so far")
    if row["rests_s"]:
        parts.append(f"rests for {format_duration(row['rests_s'])}")
    return "; ".join(parts)


def numbers_text(numbers: Row) -> str:
    """What decided.

    >>> numbers_text({"load": 300, "load_there": 100, "delay_s": 0.002, "delay_there_s": 0.0005, "publications": 100})
    'load 300 → 100, delay 2 ms → 0.5 ms, by 100 publications'
    >>> numbers_text({"load": 100, "load_there": 100, "delay_s": 0.002, "delay_there_s": 0.002, "publications": 100})
    'load 100, delay 2 ms, by 100 publications'
    >>> numbers_text({"subscribers": {"B1": 1.0, "B2": 3.25}, "path": ["B1", "B2", "B3"]})
    'subscribers: 1 here, 3.25 behind B2; so B1 → B2 → B3'
    """
    if "subscribers" in numbers:
        here = numbers["path"][0]
        counts = ", ".join(
            f"{count:g} {'here' if name == here else f'behind {name}'}"
            for name, count in numbers["subscribers"].items()
        )
        way = f"; so {' → '.join(numbers['path'])}" if len(numbers["path"]) > 1 else ""
        return f"subscribers: {counts or 'none'}{way}"
    load = _change(f"{numbers['load']:,}", f"{numbers['load_there']:,}")
    delay = _change(milliseconds(numbers["delay_s"]), milliseconds(numbers["delay_there_s"]))
    return f"load {load}, delay {delay}, by {numbers['publications']} publications"


def _change(here: str, there: str) -> str:
    return here if here == there else f"{here} → {there}"


def milliseconds(seconds: float) -> str:
    """A delay, to three digits.

    >>> milliseconds(0.00123456), milliseconds(0)
    ('1.23 ms', '0 ms')
    """
    return f"{1_000 * seconds:.3g} ms"


def _candidates_table(row: Row) -> Table | None:
    """Every broker that GRAPE considered, best first as far as it was not dropped; or POP's table."""
    title = f"{row['publisher']}, at {row['at']}"
    if row["subscribers"]:
        table = make_table(title, "towards", "subscribers", words=("towards",))
        for name, count in row["subscribers"].items():
            table.add_row(Text(f"{name} (here)" if name == row["at"] else name), f"{count:g}")
        return table
    if not row["decision"] or not row["decision"]["candidates"]:
        return None
    words = ("broker", "")
    table = make_table(title, "broker", "hops", "load", "delay", "", words=words)
    for one in sorted(row["decision"]["candidates"], key=lambda one: (one["hops"], one["broker"])):
        remarks = {
            "is here": one["broker"] == row["at"],
            "best": one["broker"] == row["decision"]["to"],
            f"too much {row['metric']}": not one["kept"],
        }
        table.add_row(
            Text(one["broker"]),
            str(one["hops"]),
            f"{one['load']:,}",
            milliseconds(one["delay_s"]),
            ", ".join(remark for remark, holds in remarks.items() if holds),
        )
    return table
