"""Structured logs: one line per entry, each with the time, the level and the broker.

    text   2026-11-16T04:00:00.123Z INFO B1 link-up peer=B2 fresh=true
    json   {"time":"2026-11-16T04:00:00.123Z","level":"info","broker":"B1","event":"link-up","peer":"B2","fresh":true}

The message of a record is the event's name; its data come as `extra=fields(peer="B2")`. Loggers made here have no
parent, so they do not affect the logging of a program that embeds a node.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

import msgspec

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/+@[]*,")


def make_log(
    broker: str,
    level: str = "info",
    format: Literal["text", "json"] = "text",
    stream: TextIO | None = None,
) -> logging.Logger:
    """A log of one broker, on stderr unless told otherwise."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Text(broker) if format == "text" else _Json(broker))
    log = logging.Logger(f"runnel.{broker}", level.upper())
    log.addHandler(handler)
    return log


def fields(**named: Any) -> dict[str, Any]:
    """The data of an entry, for `extra=`."""
    return {"fields": named}


class _Formatter(logging.Formatter):
    """What both formats share."""

    def __init__(self, broker: str) -> None:
        super().__init__()
        self._broker = broker

    def _parts(self, record: logging.LogRecord) -> dict[str, Any]:
        parts = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "broker": self._broker,
            "event": record.getMessage(),
        }
        for key, value in getattr(record, "fields", {}).items():
            parts[f"{key}_" if key in parts else key] = value
        if record.exc_info:
            parts["traceback"] = self.formatException(record.exc_info)
        return parts


class _Json(_Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return msgspec.json.encode(self._parts(record), enc_hook=str).decode()


class _Text(_Formatter):
    """For people: the four columns, then key=value."""

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback follows on lines of its own."""
        parts = self._parts(record)
        traceback = parts.pop("traceback", None)
        head = [parts.pop(key) for key in ("time", "level", "broker", "event")]
        head[1] = head[1].upper()
        tail = [f"{key}={_format_value(value)}" for key, value in parts.items()]
        line = " ".join([*head, *tail])
        return f"{line}\n{traceback}" if traceback else line


def _time(seconds: float) -> str:
    """UTC, in milliseconds.

    >>> _time(0.5)
    '1970-01-01T00:00:00.500Z'
    """
    time = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return time.replace("+00:00", "Z")


def _format_value(value: Any) -> str:
    """A value as text: quoted as in JSON if it could be mistaken for several.

    >>> [_format_value(value) for value in (True, 5, "B2", "it left", "")]
    ['true', '5', 'B2', '"it left"', '""']
    """
    if isinstance(value, str) and value and _PLAIN.issuperset(value):
        return value
    return msgspec.json.encode(value, enc_hook=str).decode()
