"""`runnel advertise`: keeps an advertisement standing, so that routes to it are there."""

from __future__ import annotations

import click

from runnel.cli.broker_address import DIAL_S, broker_option, find_broker
from runnel.cli.filters import read_filter
from runnel.cli.show.connection import ConnectionNotices, say_gap, say_missing
from runnel.cli.stop_signals import run_until_signal
from runnel.client.aio import connect


@click.command(short_help="Hold an advertisement until Ctrl-C.")
@click.argument("filter_text", metavar="FILTER")
@broker_option
@click.option("--name", help="What the publisher is called; unique in the network.")
def advertise(filter_text: str, broker: str | None, name: str | None) -> None:
    """Announce what will be published, and hold the announcement until Ctrl-C.

    Subscriptions travel only towards advertisements that they meet. A standing one keeps the routes of
    subscriptions in place while publishers come and go, and lets `runnel explain` show them. To publish, use
    `runnel pub`, which advertises by itself. If the broker is lost, that is told on stderr, and it is tried again.

    \b
    Examples:
      runnel advertise "class = 'STOCK'"
      runnel advertise "class = 'STOCK' AND symbol = 'YHOO'" --name nasdaq

    \b
    Exit codes:
      0    ended by Ctrl-C or SIGTERM
      1    no broker could be reached, or another client took the name
      2    the command line cannot be used
    """
    selection = read_filter(filter_text)
    url = str(find_broker(broker))

    async def hold() -> None:
        notices = ConnectionNotices("advertised again")
        async with connect(
            url, name=name, timeout=DIAL_S, on_gap=notices.note_gap, on_undelivered=say_gap
        ) as client:
            publisher = await client.advertise(selection, wait="reachable", timeout=None)
            say_missing(publisher.missing, "subscribers behind {} are to get")
            click.echo(
                f"{publisher.name} is advertised at {client.broker} ({client.address}); Ctrl-C ends it",
                err=True,
            )
            await notices.tell(client)
            await client.flush()  # says why the client is over

    run_until_signal(hold(), None)
