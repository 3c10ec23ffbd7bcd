"""From what brokers said of a trace session to what GRAPE's algorithms work on."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from runnel.broker.links import SECOND
from runnel.placement.grape import CLIENT, Report
from runnel.placement.messages import Reported
from runnel.wire import FRAME_BYTES_MAX

ANSWER_BYTES_MAX = FRAME_BYTES_MAX - 1_024
"""What the reports of one answer may take; with sessions of 100 publications, those of thousands of brokers."""


def that_fit(reports: Iterable[Reported]) -> tuple[Reported, ...]:
    """As many reports, from the first on, as one answer may carry."""
    kept, size = [], 0
    for report in reports:
        size += len(msgspec.msgpack.encode(report))
        if size > ANSWER_BYTES_MAX:
            break
        kept.append(report)
    return tuple(kept)


def session_tree(root: str, reported: Iterable[Reported]) -> dict[str, Report]:
    """The brokers of a session as a tree around the publisher's, whatever they said.

    Each broker says whom it sent publications to; a link is one for both ends, and takes as long in both directions.
    Brokers that nobody sent anything to, or that two did, are not taken at their word.
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


def _report(said: Reported, links: dict[str, int]) -> Report:
    output_ns = {CLIENT: said.client_ns} | {hop.broker: hop.output_ns for hop in said.hops}
    return Report(
        said.broker,
        tuple(links),
        int.from_bytes(said.bits, "little"),
        said.deliveries,
        said.input_ns / SECOND,
        said.matching_ns / SECOND,
        {target: ns / SECOND for target, ns in output_ns.items()},
        {neighbour: ns / SECOND for neighbour, ns in links.items()},
    )
