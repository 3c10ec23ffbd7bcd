"""`runnel move-publisher`: a publisher goes to another broker, because an operator wants it to."""

from __future__ import annotations

import json

import click

from runnel.cli.broker_address import broker_option, find_broker
from runnel.operate.publishers import find_one, move
from runnel.operate.walk import walk


@click.command(
    "move-publisher", short_help="Move a publisher to another broker, with nothing lost."
)
@click.argument("publisher")
@click.option("--to", required=True, metavar="BROKER", help="The name of the broker to go to.")
@click.option(
    "--advertisement",
    default="",
    metavar="ID",
    help="Which one, if several publishers have that name.",
)
@broker_option
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
@click.option("--timeout", default=15.0, show_default=True, help="Seconds to wait for its arrival.")
def move_publisher(
    publisher: str, to: str, advertisement: str, broker: str | None, as_json: bool, timeout: float
) -> None:
    """Ask a publisher to go to another broker, and wait until it is there.

    Nothing is lost or doubled, and order is kept; publishing pauses for a moment. The publisher's program
    notices nothing. Only one publisher moves: its client and the others of that client stay where they are.

    \b
    Examples:
      runnel move-publisher quotes --to B3
      runnel move-publisher quotes --to B3 --advertisement 2b5a3f00001

    \b
    Exit codes:
      0    it is there
      1    it is not, or a broker does not answer; the message says where it is
      2    the command line cannot be used, or there is no such publisher or broker
    """
    network = walk(find_broker(broker))
    row = find_one(network, publisher, advertisement)
    source = row["at"]
    took_s = move(network, row, to, timeout)
    if as_json:
        told = {"publisher": publisher, "id": f"{row['id']:x}", "from": source, "to": to}
        click.echo(json.dumps(told | {"took_s": took_s}))
    else:
        click.echo(f"{publisher} has gone from {source} to {to}, in {1_000 * took_s:,.0f} ms")
