"""Plans for people: the scorecard of one, and what differs between two."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from runnel.allocation.plan import BrokerLoad, Plan, PlanDiff
from runnel.cli.tables import make_table

NAMED_MAX = 10
LOADED = ("messages/s", "output/s", "output", "matching", "subscriptions")
_NONE = BrokerLoad(0.0, 0.0, 0, 0.0, 0.0)


def scorecard(plan: Plan) -> list[RenderableType]:
    """What a plan comes to: in a few lines, then broker by broker."""
    return [*map(Text, summary(plan)), _brokers(plan), *map(Text, remarks(plan))]


def summary(plan: Plan) -> list[str]:
    """A plan in a few lines.

    >>> load = BrokerLoad(10.0, 5_000.0, 2, 0.0, 0.5)
    >>> plan = Plan(
    ...     algorithm="FBF", overlay={"A": None}, subscriptions={"s": "A"}, publishers={"s/p": "A"}, freed=["B"],
    ...     before={"A": load, "B": load}, after={"A": load}, moved=["s"], brokers_at_least=1, estimated_s=0.02,
    ... )
    >>> print(*summary(plan), sep=chr(10))
    brokers     2 → 1 by FBF (−50%); no plan needs fewer than 1
    messages    20 → 10 a second, taken in by all brokers together
    most loaded output at 50%, matching at 0% of what the broker can
    moves       1 of 1 clients, 0 of 1 publishers; about 0 s
    """
    publishers = sum(1 for name in plan.moved if name in plan.publishers)
    now = f"{len(plan.before)} → " if plan.before else ""
    less = f" ({_percent_less(len(plan.before), plan.brokers)})" if plan.before else ""
    before, after = (
        sum(load.messages_per_s for load in loads.values()) for loads in (plan.before, plan.after)
    )
    return [
        f"brokers     {now}{plan.brokers} by {plan.algorithm}{less}; "
        f"no plan needs fewer than {plan.brokers_at_least}",
        f"messages    {f'{_short(before)} → ' if plan.before else ''}{_short(after)} a second, "
        "taken in by all brokers together",
        f"most loaded output at {max((load.output_ratio for load in plan.after.values()), default=0):.0%}, "
        f"matching at {max((load.input_ratio for load in plan.after.values()), default=0):.0%} "
        "of what the broker can",
        f"moves       {len(plan.moved) - publishers:,} of {len(plan.subscriptions):,} clients, "
        f"{publishers:,} of {len(plan.publishers):,} publishers; about {plan.estimated_s:.0f} s",
    ]


def remarks(plan: Plan) -> list[str]:
    """Who is freed, and what else is to be known.

    >>> plan = Plan(algorithm="FBF", overlay={"A": None}, subscriptions={}, publishers={}, freed=["B"], notes=["mind"])
    >>> remarks(plan)
    ['freed: B', 'note: mind']
    """
    freed = [f"freed: {few(plan.freed)}"] if plan.freed else []
    return freed + [f"note: {note}" for note in plan.notes]


def _brokers(plan: Plan) -> Table:
    """The brokers that stay in use, with their load now and then."""
    words = ("broker", "address", "linked to")
    table = make_table("brokers, now → then", *words, *LOADED, words=words)
    for broker, load in plan.after.items():
        was = plan.before.get(broker, _NONE)
        cells = zip(_cells(was), _cells(load), strict=True)
        table.add_row(
            Text(broker),
            Text(plan.addresses.get(broker, ""), style="cyan"),
            Text(plan.overlay[broker] or "–"),
            *(f"{now} → {then}" if plan.before else then for now, then in cells),
        )
    return table


def _cells(load: BrokerLoad) -> list[str]:
    return [
        _short(load.messages_per_s),
        _size(load.output_bytes_per_s),
        f"{load.output_ratio:.0%}",
        f"{load.input_ratio:.0%}",
        f"{load.subscriptions:,}",
    ]


def changes(found: PlanDiff) -> list[str]:
    """What differs, line by line.

    >>> print(*changes(PlanDiff(["C"], ["B"], ["A"], {"s": ("B", "C"), "t": (None, "C")})), sep=chr(10))
    brokers more   C
    brokers fewer  B
    other links    A
    2 clients and publishers elsewhere:
      s: B → C
      t: nowhere → C
    """
    lists = {
        "brokers more ": found.brokers_added,
        "brokers fewer": found.brokers_removed,
        "other links  ": found.links_changed,
    }
    lines = [f"{what}  {few(names)}" for what, names in lists.items() if names]
    if found.moved:
        lines.append(f"{len(found.moved):,} clients and publishers elsewhere:")
        lines += [
            f"  {client}: {was or 'nowhere'} → {then or 'nowhere'}"
            for client, (was, then) in found.moved.items()
        ]
    return lines


def few(names: Iterable[str]) -> str:
    """The first of some names, and how many more there are.

    >>> few(["A", "B"]), few(str(n) for n in range(12))
    ('A, B', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more')
    """
    listed = list(names)
    more = len(listed) - NAMED_MAX
    return ", ".join(listed[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")


def _percent_less(before: int, after: int) -> str:
    change = round(100 * (after - before) / before)
    return f"−{-change}%" if change < 0 else f"+{change}%" if change else "no change"


def _short(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.1f}"


def _size(rate: float) -> str:
    """Bytes per second.

    >>> _size(999), _size(1_500), _size(2_340_000)
    ('999 B', '1.5 kB', '2.3 MB')
    """
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if rate >= size:
            return f"{rate / size:,.1f} {unit}"
    return f"{rate:,.0f} B"
