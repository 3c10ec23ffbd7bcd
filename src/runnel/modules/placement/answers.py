"""Answers to operators about placement: where publishers are and why, a decision now, and a move by hand.

It turns the state of the two modules into plain data, for `runnel placement` and `runnel move-publisher`. A broker
answers about the publishers that are connected to it only. A move by hand must be granted by the arbiter like any
other: an operator may move a publisher that rests, but not one that a plan has claimed.
"""

from __future__ import annotations

from itertools import islice

import msgspec

from runnel.broker.arbiter import ClaimRefused
from runnel.broker.module import Context, Module
from runnel.broker.questions import Answers, Reply
from runnel.broker.tables import AdvertisementRow
from runnel.errors import InputError
from runnel.language import to_sql
from runnel.modules.placement.migration import relocate
from runnel.modules.placement.placing import Decision, Placing, entity_of
from runnel.modules.placement.pop_module import Pop
from runnel.modules.placement.questions import Decide, MovePublisher, Publishers
from runnel.quantities import SECOND

OWNER = "operator"


class PlacementAnswers(Module):
    """The answers of one broker, from the two modules that place publishers."""

    name = "placement"

    def __init__(self, pop: Pop, *others: Placing) -> None:
        self._pop = pop
        self._modules: dict[str, Placing] = {module.name: module for module in (pop, *others)}
        self.config = pop.config

    def answers(self) -> Answers:
        """The questions and commands of operators."""
        return {Publishers: self.publishers, Decide: self.decide, MovePublisher: self.move}

    def publishers(self, context: Context, asked: Publishers, now: int) -> Reply:
        """The publishers of this broker, their settings, and the last decisions."""
        rows = [
            row
            for row in context.tables.srt.values()
            if row.link.is_client and asked.publisher in ("", row.publisher)
        ]
        return {
            "broker": context.name,
            "publishers": [
                self._publisher(context, row, asked.candidates, now)
                for row in islice(rows, asked.rows_max)
            ],
            "publishers_in_all": len(rows),
        }

    def decide(self, context: Context, asked: Decide, now: int) -> Reply:
        """Start a decision about a publisher; `publishers` shows its result when there is one."""
        row = _row(context, asked.advertisement)
        module = self._modules.get(self.config.algorithm_of(row.publisher))
        is_possible = module is not None and module.decide_now(context, row.id, now)
        return {
            "deciding": is_possible,
            "now_ns": now,
            # Brokers are waited for first, then the publisher.
            "timeout_s": 2 * self.config.answer_timeout_s,
        }

    def move(self, context: Context, asked: MovePublisher, now: int) -> Reply:
        """Ask a publisher to migrate to another broker. Its client decides whether it does; `publishers` shows it."""
        row = _row(context, asked.advertisement)
        if row.id in context.tables.leaving:
            raise InputError(f"{row.publisher} is migrating: wait for that first")
        entity = entity_of(row)
        claimed = context.arbiter.claim(entity, OWNER, now)
        if isinstance(claimed, ClaimRefused):
            held = context.arbiter.lease(entity, now)
            assert held is not None
            why = "it rests" if held.resting else f"it is being moved by: {held.owner}"
            left_s = (claimed.retry_at - now) / SECOND
            raise InputError(f"{row.publisher}: {why}; ask again in {left_s:.0f} s")
        relocate(context, row.id, asked.broker, asked.address, now)
        context.trace(
            "relocation-asked", {"publisher": row.publisher, "to": asked.broker, "by": OWNER}
        )
        return {"asked": True}

    def _publisher(
        self, context: Context, row: AdvertisementRow, with_candidates: bool, now: int
    ) -> Reply:
        wanted = self.config.of(row.publisher)
        module = self._modules.get(wanted.algorithm or "")
        lease = context.arbiter.lease(entity_of(row), now)
        told: Reply = {
            "id": row.id,
            "publisher": row.publisher,
            "filter": to_sql(row.selection),
            "client": row.link.name,
            "connected": row.link.established,
            "epoch": row.epoch,
            "migrating": row.id in context.tables.leaving,
            "rests_s": (lease.until - now) / SECOND if lease and lease.resting else 0.0,
            "held_by": lease.owner if lease and not lease.resting else "",
            "algorithm": wanted.algorithm,
            "metric": wanted.metric,
            "weight_percent": wanted.weight_percent,
            "dry_run": self.config.dry_run,
            "progress": None,
            "subscribers": None,
            "decision": None,
        }
        if module is not None:
            told["progress"] = msgspec.to_builtins(module.progress(row.id))
            decision = module.decision(row.id)
            if decision is not None:
                told["decision"] = _decision(decision, with_candidates, now)
            if module is self._pop and (table := self._pop.table(row.id)) is not None:
                told["subscribers"] = {
                    name or context.name: round(count, 2) for name, count in table.rows.items()
                }
        return told


def _decision(decision: Decision, with_candidates: bool, now: int) -> Reply:
    return {
        "to": decision.to,
        "address": decision.address,
        "outcome": decision.outcome,
        "made_ns": decision.made_at,
        "age_s": (now - decision.made_at) / SECOND,
        "numbers": decision.numbers,
        "candidates": msgspec.to_builtins(decision.candidates) if with_candidates else [],
    }


def _row(context: Context, advertisement: int) -> AdvertisementRow:
    row = context.tables.srt.get(advertisement)
    if row is None or not row.link.is_client:
        raise InputError(f"{context.name} has no publisher {advertisement:x}: it may have moved")
    return row
