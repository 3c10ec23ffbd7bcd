"""The broker's side of inspection: answers what it is asked, and tells neighbours where this broker listens.

Rules:
- Asking changes nothing, unless it is a `Command`. An event that is asked about is routed by the same strategy and
  tables as a real one, but nothing is sent and nothing is counted.
- What other modules know they answer themselves: `answers`, by the kind of the question.
- Whoever asks is not shown: a link that only asks is no part of what it asks about.
- A question that makes no sense is answered with an error; only bytes that make no sense end the link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from itertools import islice
from typing import Any

import msgspec

from runnel.broker.links import Link
from runnel.broker.meter import Meter
from runnel.broker.module import Context, Module
from runnel.broker.tables import Advertisement, Subscription
from runnel.errors import InputError
from runnel.inspection.messages import Ask, Whereabouts, pieces
from runnel.inspection.questions import (
    NAME_OF,
    QUESTIONS,
    ROWS_MAX,
    Question,
    Route,
    Status,
    StoryOf,
    Subscriptions,
    TableRows,
)
from runnel.inspection.why import failures
from runnel.language import to_sql
from runnel.version import __version__
from runnel.wire import ID_MAX, make_publication

LOOKED_AT_MAX = 20_000
"""How many rows are tried one by one to name who wants an event: a broker must not stand still for a question."""

GONE_MAX = 100
GONE_KEPT_NS = 3_600 * 10**9
"""How many neighbours that were lost are remembered, and for how long, to be named to whoever looks for them."""

Answered = dict[str, Any]
Answers = Mapping[type[Question], Callable[[Context, Any, int], Answered]]


class Inspection(Module):
    """The module "inspection". `address` is where the broker listens; set it before the broker starts."""

    name = "inspection"
    messages = (Ask, Whereabouts)

    def __init__(self, address: str = "", answers: Answers | None = None) -> None:
        self.address = address
        self._started = 0
        self._asked = 0
        self._askers: dict[Link, None] = {}
        self._addresses: dict[Link, str] = {}
        self._gone: dict[str, tuple[int, str]] = {}  # since when, and where it listened
        self._answers: Answers = {
            Status: self._status,
            TableRows: _tables,
            Route: self._route,
            Subscriptions: _subscriptions,
            StoryOf: self._story,
            **(answers or {}),
        }

    # -- what the broker calls ------------------------------------------------------------------------

    def start(self, context: Context, now: int) -> None:
        """The broker starts."""
        self._started = now

    def link_up(self, context: Context, link: Link, now: int) -> None:
        """A neighbour is told where this broker listens."""
        self._gone.pop(link.name, None)
        if link.kind == "broker" and self.address:
            context.send(link, Whereabouts(self.address))

    def link_lost(self, context: Context, link: Link, now: int) -> None:
        """Of a neighbour that did not say farewell is known that it was here."""
        self._askers.pop(link, None)
        address = self._addresses.pop(link, "")
        if link.kind == "broker" and link.is_expired(now):
            self._gone[link.name] = now, address
            while len(self._gone) > GONE_MAX:
                del self._gone[next(iter(self._gone))]

    def message(self, context: Context, link: Link, message: Any, now: int) -> None:
        """A question, or a neighbour's whereabouts."""
        if isinstance(message, Whereabouts):
            self._addresses[link] = message.address
            return
        if link.kind == "client":
            self._askers[link] = None
        for piece in pieces(message.token, self._answer(context, message, now)):
            context.send(link, piece)

    def _answer(self, context: Context, ask: Ask, now: int) -> Answered:
        kind = QUESTIONS.get(ask.question)
        if kind is None or kind not in self._answers:
            known = ", ".join(NAME_OF[one] for one in self._answers)
            return {"error": f"there is no question {ask.question!r}: ask for one of {known}"}
        try:
            argument = msgspec.msgpack.decode(ask.argument, type=kind)
            return self._answers[kind](context, argument, now)
        except (msgspec.ValidationError, InputError) as error:
            return {"error": f"{ask.question}: {error}"}

    # -- the answers ----------------------------------------------------------------------------------

    def _status(self, context: Context, _: Status, now: int) -> Answered:
        shown = [link for link in context.links.values() if link not in self._askers]
        brokers = [link for link in shown if link.kind == "broker"]
        clients = [link for link in shown if link.kind == "client"]
        return {
            "name": context.name,
            "version": __version__,
            "generation": context.generation,
            "address": self.address,
            "uptime_s": (now - self._started) / 1e9,
            "links": [self._link(link) for link in (*brokers, *clients[:ROWS_MAX])],
            "gone": [
                {"name": name, "address": address, "for_s": (now - since) / 1e9}
                for name, (since, address) in self._gone.items()
                if now - since < GONE_KEPT_NS
            ],
            "clients": len(clients),
            "advertisements": len(context.tables.srt),
            "subscriptions": len(context.tables.prt),
            "meter": _counts(context.meter),
        }

    def _link(self, link: Link) -> Answered:
        return {
            "name": link.name,
            "kind": link.kind,
            "up": link.established,
            "address": self._addresses.get(link, ""),
            "publications_in": link.publications_in,
            "publications_out": link.publications_out,
            "waiting_bytes": link.waiting_bytes,
            "flying_bytes": link.flying_bytes,
            "dropped": link.dropped,
            "congested": link.congested,
            "credit": link.credit,
        }

    def _route(self, context: Context, route: Route, now: int) -> Answered:
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

    def _story(self, context: Context, asked: StoryOf, now: int) -> Answered:
        if context.story is None:
            raise InputError(f"{context.name} keeps no stories: start it with stories = true")
        id: Any = (asked.id, asked.counter) if asked.counter else asked.id
        found = context.story.of(id)
        return {
            "broker": context.name,
            "now_ns": now,  # this broker's clock, for whoever wants to know how long ago
            "lines": [str(line) for line in found],
            "entries": [{"at_ns": line.at, "what": line.what} for line in found],
        }


def _counts(meter: Meter) -> Answered:
    """All counters. Not by `asdict`, which makes of a Counter one of pairs."""
    counts = {one.name: getattr(meter, one.name) for one in fields(meter)}
    return {
        name: dict(count) if isinstance(count, Counter) else count for name, count in counts.items()
    }


def _hop(link: Link) -> Answered:
    return {"name": link.name, "kind": link.kind, "up": link.established}


def _tables(context: Context, asked: TableRows, now: int) -> Answered:
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


def _advertisement(row: Advertisement) -> Answered:
    return {
        "id": row.id,
        "publisher": row.publisher,
        "filter": to_sql(row.selection),
        "from": row.link.name,
        "kind": row.link.kind,
        "ttl": row.ttl,
    }


def _subscription(row: Subscription) -> Answered:
    return {
        "id": row.id,
        "filter": to_sql(row.selection),
        "from": row.link.name,
        "kind": row.link.kind,
        "ttl": row.ttl,
    }


def _subscriptions(context: Context, asked: Subscriptions, now: int) -> Answered:
    link = context.links.get(asked.client)
    if link is None or link.kind != "client":
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
