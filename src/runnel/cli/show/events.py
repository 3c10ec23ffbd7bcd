"""Events as `runnel sub` prints them: a line for people, or a JSON object that `runnel pub` can read again."""

from __future__ import annotations

import base64
import json
from typing import Any

from runnel.cli.events import parse_value
from runnel.client.events import Event
from runnel.language import Value


def as_json(event: Event) -> str:
    """An event as a line of JSON; a payload that is no text as base64."""
    said: dict[str, Any] = {
        "id": event.id,
        "publisher": event.publisher,
        "time": event.time.isoformat(),
        "hops": event.hops,
        "attributes": dict(event.attributes),
    }
    if event.payload:
        try:
            said["payload"] = event.payload.decode()
        except UnicodeDecodeError:
            said["payload_base64"] = base64.b64encode(event.payload).decode()
    return json.dumps(said, ensure_ascii=False)


def as_line(event: Event) -> str:
    """An event as a line for people."""
    at = event.time.astimezone().strftime("%H:%M:%S.%f")[:-3]
    said = " ".join(f"{name}={_format_value(value)}" for name, value in event.attributes.items())
    payload = f"  + {len(event.payload):,} bytes" if event.payload else ""
    hops = "1 hop" if event.hops == 1 else f"{event.hops} hops"
    return f"{at}  {event.publisher}  {hops}  {said}{payload}"


def _format_value(value: Value) -> str:
    """A value so that it can be typed again."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and (
        not value.isprintable() or " " in value or parse_value(value) != value
    ):
        return f"'{value}'"
    return str(value)
