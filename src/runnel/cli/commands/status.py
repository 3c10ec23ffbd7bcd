"""`runnel status`: who is in the network and how it is doing, as the brokers themselves tell it."""

from __future__ import annotations

import json

import click

from runnel.cli.broker_address import broker_option, find_broker
from runnel.cli.show.status import print_network
from runnel.modules.generations.questions import Generation
from runnel.operate.ask import AskError
from runnel.operate.health import degradations
from runnel.operate.walk import LiveNetwork, walk


@click.command(short_help="Show a whole network, asked from one broker.")
@click.argument("url", required=False)
@broker_option
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON object.")
@click.option("--timeout", default=5.0, show_default=True, help="Seconds to wait for each broker.")
def status(url: str | None, broker: str | None, as_json: bool, timeout: float) -> None:
    """Ask a broker, and all that can be reached through it, how they are; say what is wrong.

    One broker is enough: each knows where its neighbours listen.

    \b
    Examples:
      runnel status
      runnel status runnel://127.0.0.1:7001
      runnel status --json | jq '.brokers[].meter'

    \b
    Exit codes:
      0    all is well
      1    something is degraded, and the last lines say what: a broker that does not answer, a link that is down, a
           broker that is refused, a loop, two brokers of one name, publications lost within the last minute
      2    the command line cannot be used
    """
    network = walk(find_broker(url or broker), timeout)
    degraded = degradations(network)
    if as_json:
        found = [
            {**status, "address": str(network.addresses[name])}
            for name, status in network.brokers.items()
        ]
        told = {
            "brokers": found,
            "degraded": degraded,
            "silent": network.silent,
            "doubles": network.doubles(),
        }
        click.echo(json.dumps(told))
    else:
        print_network(network, standby_of(network))
    if degraded:
        raise SystemExit(1)


def standby_of(network: LiveNetwork) -> dict[str, str]:
    """The brokers that the last plan has freed, and where they are."""
    for name in network.brokers:
        try:
            reserve = network.ask(name, Generation())["reserve"]
        except AskError:
            continue  # one of an older version, or it has just gone
        return {one: where for one, where in reserve.items() if one not in network.brokers}
    return {}
