"""Plans for people: the scorecard of one, and what differs between two.

A scorecard gives a summary of a plan, its goals and the load of each broker before and after, what the switch takes,
how far from the optimum the plan can be, and how reliable its data are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from runnel.cli.show.tables import make_table
from runnel.planning.documents.evidence import FEW, Evidence, doubts
from runnel.planning.documents.goals import BALANCED, PlanGoal, goals_of, resent_messages_of
from runnel.planning.documents.plan import BrokerLoad, Plan, PlanDiff
from runnel.quantities import format_traffic

NAMED_MAX = 10
ROWS_MAX = 40
NO_LIMIT = "no limit"
LOADED = ("messages/s", "output/s", "output", "matching", "subscriptions")
_NONE = BrokerLoad(0.0, 0.0, 0, 0.0, 0.0)


def scorecard(plan: Plan) -> list[RenderableType]:
    """What a plan comes to: in a few lines, then broker by broker."""
    return [
        *map(Text, summary(plan)),
        *map(Text, describe_evidence(plan.evidence)),
        _goals(plan),
        _brokers(plan),
        *map(Text, remarks(plan)),
    ]


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
    moves       1 of 1 client, 0 of 1 publisher; about 1 s
    sends again 2 subscriptions and 1 advertisement, some 300 B in all
    """
    resent = resent_messages_of(plan)
    now = f"{len(plan.before)} → " if plan.before else ""
    less = f" ({_percent_less(len(plan.before), plan.brokers)})" if plan.before else ""
    before, after = (
        sum(load.messages_per_s for load in loads.values()) for loads in (plan.before, plan.after)
    )
    return [
        f"brokers     {now}{plan.brokers} by {plan.algorithm}{less}; "
        f"no plan needs fewer than {plan.brokers_at_least}",
        f"messages    {f'{_format_rate(before)} → ' if plan.before else ''}{_format_rate(after)} a second, "
        "taken in by all brokers together",
        f"most loaded {_most_output(plan)}, "
        f"matching at {max((load.input_ratio for load in plan.after.values()), default=0):.0%} "
        "of what the broker can",
        f"moves       {moves(plan)}; about {max(1.0, plan.estimated_s):.0f} s",
        f"sends again {count_of(resent.subscriptions, 'subscription')} and "
        f"{count_of(resent.advertisements, 'advertisement')}, some {format_traffic(resent.bytes)} in all",
    ]


def moves(plan: Plan) -> str:
    """How many clients and how many publishers change their broker, out of all."""
    publishers = sum(1 for name in plan.moved if name in plan.publishers)
    return (
        f"{len(plan.moved) - publishers:,} of {count_of(len(plan.subscriptions), 'client')}, "
        f"{publishers:,} of {count_of(len(plan.publishers), 'publisher')}"
    )


def count_of(count: int, what: str) -> str:
    """So many of something.

    >>> count_of(1, "broker"), count_of(2_000, "broker")
    ('1 broker', '2,000 brokers')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def next_steps(plan: Plan, path: Path) -> list[str]:
    """Lines for the user: where the plan was written, and what can be done with it."""
    lines = [f"written to {path}", f"to see it again: runnel plan show {path}"]
    return [*lines, f"to carry it out: runnel apply {path}"] if plan.addresses else lines


def _most_output(plan: Plan) -> str:
    if _unlimited(plan.after):
        return "output without a limit"
    most = max((load.output_ratio for load in plan.after.values()), default=0)
    return f"output at {most:.0%}"


def _unlimited(loads: Mapping[str, BrokerLoad]) -> bool:
    """Whether brokers send something, and it is no part of what any of them may."""
    return any(map(_no_limit, loads.values())) and not any(
        load.output_ratio for load in loads.values()
    )


def _no_limit(load: BrokerLoad) -> bool:
    return load.output_bytes_per_s > 0 and not load.output_ratio


def describe_evidence(evidence: Evidence | None) -> list[str]:
    """The data that a plan is based on; no lines if the plan does not say.

    >>> print(*describe_evidence(Evidence("traces", 2.0, 3, 90, 30, 8, 5, 1)), sep=chr(10))
    rests on    90 publications of 3 publishers in 2 s, from traces; of 8 subscriptions 5 got fewer than 10, 1 nothing
    sparse: publishers were followed for 30 publications, not 100; 75% of the subscriptions got fewer than 10 of them
    """
    if evidence is None:
        return []
    one = evidence
    lines = [
        f"rests on    {count_of(one.publications, 'publication')} of {count_of(one.publishers, 'publisher')} "
        f"in {one.seconds:,.0f} s, "
        f"from {one.source}; of {count_of(one.subscriptions, 'subscription')} {one.with_few:,} got fewer than {FEW}, "
        f"{one.with_none:,} nothing"
    ]
    unsure = doubts(evidence)
    return [*lines, f"sparse: {'; '.join(unsure)}"] if unsure else lines


_ALLOWED = {
    "capacity": "no broker has more to do than it can",
    "head-room": "every broker keeps free what was asked for",
    "peaks": "no broker has to send more than it can when needs rise as they have before",
    "balance": f"the most loaded has at most {BALANCED:g} × the average",
    "moves": "no more change their broker than was asked for",
    "brokers": "no plan needs fewer",
}


def _goals(plan: Plan) -> Table:
    """The goals, now and then."""
    table = make_table("goals", "goal", "is met if", "at most", "now", "then", words=_GOAL_WORDS)
    for goal in goals_of(plan):
        table.add_row(
            Text(goal.name),
            Text(_ALLOWED[goal.name], style="dim"),
            _value(goal, goal.most),
            _judge_value(goal, goal.now, goal.was_met, _unlimited(plan.before)),
            _judge_value(goal, goal.then, goal.is_met, _unlimited(plan.after)),
        )
    return table


_GOAL_WORDS = ("goal", "is met if")


def _judge_value(goal: PlanGoal, value: float | None, met: bool | None, unlimited: bool) -> Text:
    if value is None or met is None:
        return Text("–")
    said = _value(goal, value)
    if unlimited and said == "0%":
        return Text(NO_LIMIT)
    said += " met" if met else " missed"
    return Text(said, style="green" if met else "yellow")


def _value(goal: PlanGoal, value: float) -> str:
    """A goal's value.

    >>> _value(PlanGoal("balance", 1.0, 1.0, 1.5), 1.5), _value(PlanGoal("capacity", 1, 1, 1), 0.5)
    ('1.50 ×', '50%')
    """
    if goal.name in ("moves", "brokers"):
        return f"{value:,.0f}"
    return f"{value:.2f} ×" if goal.name == "balance" else f"{value:.0%}"


def remarks(plan: Plan) -> list[str]:
    """The brokers that are freed, and the notes of the plan.

    >>> plan = Plan(algorithm="FBF", overlay={"A": None}, subscriptions={}, publishers={}, freed=["B"], notes=["mind"])
    >>> remarks(plan)
    ['freed: B', 'note: mind']
    """
    freed = [f"freed: {first_names(plan.freed)}"] if plan.freed else []
    return freed + [f"note: {note}" for note in plan.notes]


def _brokers(plan: Plan) -> Table:
    """The brokers with their load now and then: those that stay, then those that are freed; the first of many."""
    words = ("broker", "address", "linked to")
    names = [*plan.after, *(broker for broker in plan.before if broker not in plan.after)]
    more = len(names) - ROWS_MAX
    title = "brokers, now → then" if plan.before else "brokers"
    table = make_table(title, *words, *LOADED, words=words)
    if more > 0:
        names.sort(key=lambda name: -plan.after.get(name, _NONE).output_ratio)
        table.caption = f"the most loaded; {more:,} more are in the document"
    for broker in names[:ROWS_MAX]:
        was, will = plan.before.get(broker, _NONE), plan.after.get(broker, _NONE)
        unlimited = _no_limit(was) or _no_limit(will)
        cells = zip(_load_cells(was, unlimited), _load_cells(will, unlimited), strict=True)
        table.add_row(
            Text(broker),
            Text(plan.addresses.get(broker, ""), style="cyan"),
            Text(plan.overlay[broker] or "–" if broker in plan.overlay else "freed"),
            *(_now_and_then(now, then) if plan.before else then for now, then in cells),
        )
    return table


def _now_and_then(now: str, then: str) -> str:
    return NO_LIMIT if now == NO_LIMIT else f"{now} → {then}"


def _load_cells(load: BrokerLoad, unlimited: bool) -> list[str]:
    return [
        _format_rate(load.messages_per_s),
        format_traffic(load.output_bytes_per_s),
        NO_LIMIT if unlimited else f"{load.output_ratio:.0%}{_peak(load)}",
        f"{load.input_ratio:.0%}",
        f"{load.subscriptions:,}",
    ]


def _peak(load: BrokerLoad) -> str:
    """What is to be reckoned with beside the mean, where head-room is learned."""
    peak = load.peak_output_ratio
    return "" if peak is None else f", peak {peak:.0%}"


def describe_changes(found: PlanDiff) -> list[str]:
    """What differs, line by line.

    >>> print(*describe_changes(PlanDiff(["C"], ["B"], ["A"], {"s": ("B", "C"), "t": (None, "C")})), sep=chr(10))
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
    lines = [f"{what}  {first_names(names)}" for what, names in lists.items() if names]
    if found.moved:
        lines.append(f"{len(found.moved):,} clients and publishers elsewhere:")
        lines += [
            f"  {client}: {was or 'nowhere'} → {then or 'nowhere'}"
            for client, (was, then) in found.moved.items()
        ]
    return lines


def first_names(names: Iterable[str]) -> str:
    """The first of some names, and how many more there are.

    >>> first_names(["A", "B"]), first_names(str(n) for n in range(12))
    ('A, B', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more')
    """
    listed = list(names)
    more = len(listed) - NAMED_MAX
    return ", ".join(listed[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")


def _percent_less(before: int, after: int) -> str:
    change = round(100 * (after - before) / before)
    return f"−{-change}%" if change < 0 else f"+{change}%" if change else "no change"


def _format_rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.1f}"
