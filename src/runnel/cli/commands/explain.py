"""`runnel explain`: why an event does, or does not, reach a subscriber."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import click

from runnel.cli.broker_address import broker_option, find_broker
from runnel.cli.events import parse_event
from runnel.cli.show.explanation import print_explanation
from runnel.cli.show.stories import story_lines
from runnel.errors import InputError
from runnel.modules.inspection.questions import StoryOf
from runnel.operate.ask import AskError
from runnel.operate.explain import explain as find_out
from runnel.operate.walk import LiveNetwork, walk


@click.command(short_help="Why an event does, or does not, reach a client.")
@click.option(
    "--event", metavar="EVENT", help='What is published: "symbol=YHOO volume=3", or JSON.'
)
@click.option(
    "--from", "source", metavar="BROKER", help="Where: a broker, or the client that publishes."
)
@click.option("--to", "client", metavar="CLIENT", help="The client that should get it.")
@click.option(
    "--id",
    "event_id",
    metavar="ID",
    help="Instead: what happened to this event, from brokers that keep stories.",
)
@broker_option
@click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
def explain(
    event: str | None,
    source: str | None,
    client: str | None,
    event_id: str | None,
    broker: str | None,
    as_json: bool,
) -> None:
    """Say whether an event reaches a client, by which brokers and filters; or where it stops, and why.

    Every broker on the way is asked about its own tables; nothing is published.

    \b
    Examples:
      runnel explain --event "symbol=YHOO volume=3" --from B1 --to alice
      runnel explain --event '{"symbol": "YHOO"}' --from nasdaq --to alice
      runnel explain --id 2b5a3f00001-17          (the id as runnel sub --json shows it)

    \b
    Exit codes:
      0    the event arrives; with --id: somebody remembers it
      1    it does not; or a broker does not answer
      2    the command line cannot be used, or there is no such client or broker
    """
    if event_id is not None:
        _tell_story(walk(find_broker(broker)), event_id, as_json)
        return
    if event is None or source is None or client is None:
        raise InputError("say --event, --from and --to; or --id for the story of an event")
    attributes = parse_event([event])
    found = find_out(walk(find_broker(broker)), attributes, source, client)
    if as_json:
        steps = [
            {"broker": broker, "goes_on": goes_on, "says": says}
            for broker, goes_on, says in found.steps
        ]
        told = {
            "delivered": found.delivered,
            "delivered_if_advertised": found.delivered or found.as_things_are,
            "verdict": found.verdict,
            "path": found.path,
            "steps": steps,
            "warnings": found.warnings,
        }
        click.echo(json.dumps(told, ensure_ascii=False))
    else:
        print_explanation(found)
    sys.exit(0 if found.delivered else 1)


def _tell_story(network: LiveNetwork, event_id: str, as_json: bool) -> None:
    """What each broker remembers of one event, in order of time."""
    advertisement, _, counter = event_id.partition("-")
    try:
        question = StoryOf(int(advertisement, 16), int(counter))
    except ValueError:
        raise InputError(
            f"{event_id!r} is no id of an event: it looks like 2b5a3f00001-17"
        ) from None
    told: dict[str, dict[str, Any]] = {}
    refused: list[str] = []
    for name in network.brokers:
        try:
            told[name] = network.ask(name, question)
        except AskError as error:
            refused.append(str(error))
    lines = story_lines(told, {*network.brokers, *network.silent}, time.time_ns())
    if as_json:
        click.echo(json.dumps({"lines": lines, "refused": refused}, ensure_ascii=False))
    else:
        for line in (*lines, *refused):
            click.echo(line)
        if not lines and not refused:
            click.echo("no broker remembers it")
    sys.exit(0 if lines else 1)
