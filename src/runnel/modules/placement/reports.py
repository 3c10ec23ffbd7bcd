"""Turns the reports on the wire (`BrokerTrace`) into those that GRAPE's algorithms work on (`BrokerReport`)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from runnel.modules.placement.grape import CLIENT, BrokerReport
from runnel.modules.placement.messages import BrokerTrace
from runnel.quantities import SECOND
from runnel.wire import FRAME_BYTES_MAX

ANSWER_BYTES_MAX = FRAME_BYTES_MAX - 1_024
"""The most that the reports of one answer may take: enough for thousands of brokers with 100 publications each."""


def reports_that_fit(reports: Iterable[BrokerTrace]) -> tuple[BrokerTrace, ...]:
    """The first reports, as many as fit one answer."""
    kept, size = [], 0
    for report in reports:
        size += len(msgspec.msgpack.encode(report))
        if size > ANSWER_BYTES_MAX:
            break
        kept.append(report)
    return tuple(kept)


def build_session_tree(root: str, reported: Iterable[BrokerTrace]) -> dict[str, BrokerReport]:
    """The brokers of a session as a tree with the publisher's broker as root, even if reports contradict each other.

    Each broker reports the neighbours it sent publications to. Links take equally long in both directions. A broker
    belongs to the first one that reports it as a neighbour; brokers that none reports are left out.
    """
    said = {one.broker: one for one in reported}
    links: dict[str, dict[str, int]] = {root: {}}
    order = [root]
    for broker in order:
        for hop in said[broker].hops:
            if hop.broker in said and hop.broker not in links:
                order.append(hop.broker)
                links[hop.broker] = {broker: hop.link_ns}
                links[broker][hop.broker] = hop.link_ns
    return {broker: _report(said[broker], links[broker]) for broker in order}


def _report(said: BrokerTrace, links: dict[str, int]) -> BrokerReport:
    output_ns = {CLIENT: said.client_ns} | {hop.broker: hop.output_ns for hop in said.hops}
    return BrokerReport(
        said.broker,
        tuple(links),
        int.from_bytes(said.bits, "little"),
        said.deliveries,
        said.input_ns / SECOND,
        said.matching_ns / SECOND,
        {target: ns / SECOND for target, ns in output_ns.items()},
        {neighbour: ns / SECOND for neighbour, ns in links.items()},
    )
