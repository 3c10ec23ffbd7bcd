"""The broker's side of inspection: answers what it is asked.

Rules:
- A question changes nothing; only a `Command` does. The event of a `Route` question is routed by the same strategy and
  tables as a real one, but nothing is sent and nothing is counted.
- Other modules declare their own questions and their own part of `status` (`Module.answers`, `Module.status`).
- Links of operators, who only ask, are left out of the answers.
- An invalid question is answered with an error; only malformed bytes end the link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from itertools import islice
from typing import Any

import msgspec

from runnel.broker.links import Link
from runnel.broker.meter import Meter
from runnel.broker.module import Context, Module, ModuleKind, Surroundings
from runnel.broker.permissions import may
from runnel.broker.questions import ROWS_MAX, Answers, Command, Question, Reply
from runnel.broker.tables import AdvertisementRow, SubscriptionRow
from runnel.errors import BugError, InputError
from runnel.language import to_sql
from runnel.modules.inspection.messages import Ask, split_answer
from runnel.modules.inspection.questions import Route, Status, StoryOf, Subscriptions, TableRows
from runnel.modules.inspection.why import failures
from runnel.quantities import HOUR, SECOND
from runnel.version import __version__
from runnel.wire import ID_MAX, make_publication

LOOKED_AT_MAX = 20_000
"""How many rows are matched one by one to find who wants an event: a question must not block the broker for long."""

GONE_MAX = 100
GONE_KEPT_NS = HOUR
"""How many lost neighbours `status` lists, and for how long."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """A type of question, and the function that answers it."""

    kind: type[Question]
    answer: Callable[[Context, Any, int], Reply]


class Inspection(Module):
    """The module "inspection". `address` is where the broker listens, `admin` where it serves operators, if apart."""

    name = "inspection"
    messages = (Ask,)

    def __init__(self, address: str = "", admin: str = "") -> None:
        self.address = address
        self._admin = admin
        self._started = 0
        self._asked = 0
        self._gone: dict[str, tuple[int, str]] = {}  # since when, and where it listened
        self._answers: dict[str, Answerer] = {}  # by the name of the question

    def answers(self) -> Answers:
        """The questions that every broker answers about itself."""
        return {
            Status: self._status,
            TableRows: _tables,
            Route: self._route,
            Subscriptions: _subscriptions,
            StoryOf: self._story,
        }

    # -- what the broker calls ------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        self._started = now
        for module in context.modules.values():
            for kind, answer in module.answers().items():
                if kind.asked_as in self._answers:
                    raise BugError(f"two modules answer the question {kind.asked_as!r}")
                self._answers[kind.asked_as] = Answerer(kind, answer)

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A neighbour that was lost is back."""
        self._gone.pop(link.name, None)

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """Remember a neighbour that was lost without a farewell."""
        if link.is_neighbour and link.is_expired(now):
            self._gone[link.name] = now, link.address
            while len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """A question."""
        for piece in split_answer(message.token, self._answer(context, link, message, now)):
            context.send(link, piece)

    def _answer(self, context: Context, link: Link, ask: Ask, now: int) -> Reply:
        answerer = self._answers.get(ask.question)
        if answerer is None:
            known = ", ".join(self._answers)
            return {"error": f"there is no question {ask.question!r}: ask for one of {known}"}
        try:
            argument = msgspec.msgpack.decode(ask.argument, type=answerer.kind)
        except (ValueError, RecursionError) as error:  # also what is no MessagePack, or no UTF-8
            return {"error": f"{ask.question}: {error}"}
        if not may(link, argument):
            what = "give no commands" if isinstance(argument, Command) else "ask nothing"
            who = link.name if link.standing is None else link.standing.permit.user
            return {"error": f"{ask.question}: {who} may {what}"}
        try:
            return answerer.answer(context, argument, now)
        except InputError as error:
            return {"error": f"{ask.question}: {error}"}

    # -- the answers ----------------------------------------------------------------------------------

    def _status(self, context: Context, _: Status, now: int) -> Reply:
        links = context.links.values()
        brokers = [link for link in links if link.is_neighbour]
        clients = [link for link in links if link.is_client]
        return {
            "name": context.name,
            "version": __version__,
            "generation": context.generation,
            "address": self.address,
            "admin": self._admin,
            "uptime_s": (now - self._started) / SECOND,
            "links": [self._link(link) for link in (*brokers, *clients[:ROWS_MAX])],
            "gone": [
                {"name": name, "address": address, "for_s": (now - since) / SECOND}
                for name, (since, address) in self._gone.items()
                if now - since < GONE_KEPT_NS
            ],
            "losses": [
                {"link": loss.link, "since_ns": loss.since_ns, "reason": loss.reason}
                for loss in [*context.losses.open.values()][:ROWS_MAX]
            ],
            "absent": context.absences.absent(now),
            "lost_ago_s": (now - context.meter.lost_at) / SECOND if context.meter.lost_at else None,
            "refused": [one._asdict() for one in context.refusals.list_given(now)],
            "refused_by": [one._asdict() for one in context.refusals.list_got(now)],
            "clients": len(clients),
            "advertisements": len(context.tables.srt),
            "subscriptions": len(context.tables.prt),
            "meter": _counts(context.meter),
            "gauges": asdict(context.gauges()),
            "modules": {
                name: told
                for name, module in context.modules.items()
                if (told := module.status(context, now))
            },
        }

    def _link(self, link: Link) -> Reply:
        return {
            "name": link.name,
            "kind": link.kind,
            "up": link.established,
            "address": link.address,
            "publications_in": link.publications_in,
            "publications_out": link.publications_out,
            "waiting_bytes": link.waiting_bytes,
            "flying_bytes": link.flying_bytes,
            "dropped": link.dropped,
            "congested": link.congested,
            "credit": link.credit,
        }

    def _route(self, context: Context, route: Route, now: int) -> Reply:
        self._asked += 1
        publication = make_publication(ID_MAX, self._asked, route.event)
        source = context.links.get(route.peer)
        if source is None:
            if route.peer:
                raise InputError(f"{context.name} has no link to {route.peer!r}")
            hops = context.tables.hops(publication)
        else:
            hops = context.strategy.next_hops(source, publication)
        by_number = {link.number: link for link in context.links.values()}
        tables = context.tables
        looked_at = islice(tables.prt.values(), LOOKED_AT_MAX)
        rows = (row for row in looked_at if row.selection.matches(route.event))
        adverts = (
            row
            for row in islice(tables.srt.values(), LOOKED_AT_MAX)
            if row.selection.matches(route.event)
        )
        return {
            "broker": context.name,
            "hops": [_hop(by_number[number]) for number in hops],
            "wanted_by": [_subscription(row) for row in islice(rows, route.rows_max)],
            "advertised_by": [_advertisement(row) for row in islice(adverts, route.rows_max)],
        }

    def _story(self, context: Context, asked: StoryOf, now: int) -> Reply:
        if context.story is None:
            raise InputError(f"{context.name} keeps no stories: start it with stories = true")
        id: Any = (asked.id, asked.counter) if asked.counter else asked.id
        found = context.story.of(id)
        return {
            "broker": context.name,
            "now_ns": now,  # by this broker's clock, to compute how long ago a line was
            "lines": [str(line) for line in found],
            "entries": [{"at_ns": line.at, "what": line.what} for line in found],
        }


def _counts(meter: Meter) -> Reply:
    """All counters. `asdict` would break the Counter among them: it rebuilds it from pairs."""
    counts = {one.name: getattr(meter, one.name) for one in fields(meter)}
    return {
        name: dict(count) if isinstance(count, Counter) else count for name, count in counts.items()
    }


def _hop(link: Link) -> Reply:
    return {"name": link.name, "kind": link.kind, "up": link.established}


def _tables(context: Context, asked: TableRows, now: int) -> Reply:
    tables, peer = context.tables, asked.peer

    def first(rows: Iterable[Any]) -> list[Any]:
        return list(islice((row for row in rows if peer in ("", row.link.name)), asked.rows_max))

    return {
        "broker": context.name,
        "advertisements": [_advertisement(row) for row in first(tables.srt.values())],
        "advertisements_in_all": len(tables.srt),
        "subscriptions": [_subscription(row) for row in first(tables.prt.values())],
        "subscriptions_in_all": len(tables.prt),
    }


def _advertisement(row: AdvertisementRow) -> Reply:
    return {
        "id": row.id,
        "publisher": row.publisher,
        "filter": to_sql(row.selection),
        "from": row.link.name,
        "kind": row.link.kind,
        "ttl": row.ttl,
    }


def _subscription(row: SubscriptionRow) -> Reply:
    return {
        "id": row.id,
        "filter": to_sql(row.selection),
        "from": row.link.name,
        "kind": row.link.kind,
        "ttl": row.ttl,
    }


def _subscriptions(context: Context, asked: Subscriptions, now: int) -> Reply:
    link = context.links.get(asked.client)
    if link is None or not link.is_client:
        raise InputError(f"{context.name} has no client {asked.client!r}")
    mine = (row for row in context.tables.prt.values() if row.link is link)
    rows = []
    for row in islice(mine, asked.rows_max):
        told = _subscription(row)
        if asked.event is not None:
            told["matches"] = row.selection.matches(asked.event)
            told["failures"] = failures(row.selection, asked.event)
        rows.append(told)
    return {
        "broker": context.name,
        "client": link.name,
        "up": link.established,
        "dropped": link.dropped,
        "subscriptions": rows,
    }


def _make(around: Surroundings, settings: None) -> tuple[Module, ...]:
    return (Inspection(around.address, around.admin),)


INSPECTION = ModuleKind(
    name="inspection",
    purpose="answers questions about a broker",
    make=_make,
)
