"""`runnel placement`: where publishers are, where they would be better, and the numbers behind it."""

from __future__ import annotations

import json

import click

from runnel.cli.broker_address import broker_option, find_broker
from runnel.cli.show.publishers import print_publishers
from runnel.operate.publishers import (
    decide,
    find_publishers,
    unknown_publisher_error,
)
from runnel.operate.walk import walk


@click.command(short_help="Where publishers are, and where they would be better.")
@click.argument("url", required=False)
@broker_option
@click.option("--publisher", metavar="NAME", help="Only publishers of this name.")
@click.option("--candidates", is_flag=True, help="Also every broker that was considered.")
@click.option(
    "--dry-run", is_flag=True, help="Let the brokers decide now, from what they have; nobody moves."
)
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON object.")
@click.option("--timeout", default=5.0, show_default=True, help="Seconds to wait for each broker.")
def placement(
    url: str | None,
    broker: str | None,
    publisher: str | None,
    candidates: bool,
    dry_run: bool,
    as_json: bool,
    timeout: float,
) -> None:
    """Show each publisher of a network: where it is, where it would go, when that was decided, and why.

    One broker is enough: each knows where its neighbours listen. Whether brokers move publishers is
    for [placement] in their configuration to say; `runnel move-publisher` does it by hand.

    \b
    Examples:
      runnel placement
      runnel placement --publisher quotes --candidates
      runnel placement --dry-run                  what would be decided now?
      runnel placement --json | jq '.publishers[] | {publisher, at, decision}'

    \b
    Exit codes:
      0    every broker answers
      1    a broker does not answer
      2    the command line cannot be used, or there is no such publisher
    """
    network = walk(find_broker(url or broker), timeout)
    found = find_publishers(network, publisher or "", candidates=candidates)
    if publisher and not found.rows:
        raise unknown_publisher_error(network, publisher)
    if dry_run:
        found.rows = decide(network, found.rows, candidates=candidates)
    if as_json:
        # Ids are in the notation of events; as numbers they are too large for many who read JSON.
        rows = [row | {"id": f"{row['id']:x}"} for row in found.rows]
        click.echo(json.dumps({"publishers": rows, "silent": found.silent}))
    else:
        print_publishers(found, with_candidates=candidates)
    if found.silent:
        raise SystemExit(1)
