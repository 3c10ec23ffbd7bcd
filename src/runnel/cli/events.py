"""Events as people type them: read from the words of a command line, or one JSON object per line.

symbol=YHOO volume=3 close=18.5 final=true        words; quotes make text of anything: code='007'
{"symbol": "YHOO", "volume": 3}                   JSON
[symbol,'YHOO'],[volume,3]                        the bracket form
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from runnel.errors import InputError
from runnel.language import Filter, Op, Predicate, Selection, Value, check_attributes
from runnel.language import parse_publication as parse_brackets

Attributes = dict[str, Value]


class EventLine(NamedTuple):
    """What a line of input says to publish."""

    attributes: Attributes
    payload: bytes = b""


def parse_event(words: Sequence[str]) -> Attributes:
    """Read an event from the words of a command line.

    >>> parse_event(["symbol=YHOO", "volume=3", "code='007'", "final=true"])
    {'symbol': 'YHOO', 'volume': 3, 'code': '007', 'final': True}
    >>> parse_event(["[symbol,'YHOO'],[volume,3]"])
    {'symbol': 'YHOO', 'volume': 3}
    """
    text = " ".join(words).strip()
    if text.startswith("{"):
        return parse_line(text).attributes
    if text.startswith("["):
        return parse_brackets(text)
    # One quoted argument with blanks means the same as several: shells differ in what people quote.
    if len(words) == 1 and "'" not in text and '"' not in text:
        words = text.split()
    event: Attributes = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InputError(
                f"{word!r} is no part of an event: write name=value (symbol=YHOO volume=3), or JSON"
            )
        if name in event:
            raise InputError(f"the event has {name!r} twice: keep one")
        event[name] = parse_value(value)
    if not event:
        raise InputError("the event is empty: write name=value (symbol=YHOO volume=3), or JSON")
    check_attributes(event)
    return event


def parse_value(text: str) -> Value:
    """Read a value: a number or true/false if it looks like one, text otherwise.

    >>> [parse_value(text) for text in ("3", "-1.5e3", "true", "YHOO", "'3'", "1_000", "nan")]
    [3, -1500.0, True, 'YHOO', '3', '1_000', 'nan']
    """
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.strip("0123456789+-.eE") == "" and any(c.isdigit() for c in text):
        for read in (int, float):
            try:
                return read(text)
            except ValueError:
                continue
    return text


def parse_line(text: str) -> EventLine:
    """Read a line of JSON: the attributes, or what `runnel sub --json` writes.

    >>> parse_line('{"attributes": {"a": 1}, "payload": "hello"}')
    EventLine(attributes={'a': 1}, payload=b'hello')
    """
    try:
        said: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"this is not JSON ({error}): write one object per line") from None
    if not isinstance(said, dict):
        raise InputError(f'expected an object such as {{"symbol": "YHOO"}}, got {text[:60]!r}')
    payload = b""
    if isinstance(said.get("attributes"), dict):
        payload = _read_payload(said)
        said = said["attributes"]
    if absent := [name for name, value in said.items() if value is None]:
        raise InputError(f"{', '.join(absent)}: null is no value; leave it out")
    check_attributes(said)
    return EventLine(said, payload)


def _read_payload(said: dict[str, Any]) -> bytes:
    try:
        if "payload_base64" in said:
            return base64.b64decode(str(said["payload_base64"]), validate=True)
        return str(said.get("payload", "")).encode()
    except (binascii.Error, ValueError) as error:
        raise InputError(f"payload_base64 cannot be read: {error}") from None


def filter_for_event(event: Attributes) -> Selection:
    """The filter that wants events with these attributes and values.

    >>> filter_for_event({"a": 1})
    Filter([a,=,1])
    """
    return Filter([Predicate(name, Op.EQ, value) for name, value in event.items()])
