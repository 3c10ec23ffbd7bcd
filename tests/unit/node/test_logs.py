"""Logs: one line per entry, with the broker, in both formats."""

from __future__ import annotations

import io
import json
import re

from runnel.node.logs import fields, make_log


def test_text_has_four_columns_and_then_fields() -> None:
    stream = io.StringIO()
    log = make_log("B1", "info", "text", stream)
    log.info("link-up", extra=fields(peer="B2", fresh=True, reason="it came back", count=3))
    line = stream.getvalue()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO B1 link-up "
        r'peer=B2 fresh=true reason="it came back" count=3\n',
        line,
    )


def test_json_is_one_object_per_line() -> None:
    stream = io.StringIO()
    log = make_log("B1", "info", "json", stream)
    log.warning("dropped", extra=fields(peer="a\nb", count=5))
    log.info("stopped")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "warning",
        "broker": "B1",
        "event": "dropped",
        "peer": "a\nb",
        "count": 5,
    }
    assert second["event"] == "stopped"


def test_what_is_below_the_level_is_not_logged() -> None:
    stream = io.StringIO()
    log = make_log("B1", "warning", "text", stream)
    log.info("link-up")
    log.error("bug")
    assert [line.split()[1:] for line in stream.getvalue().splitlines()] == [["ERROR", "B1", "bug"]]


def test_a_name_from_outside_cannot_fake_a_line_or_a_field() -> None:
    stream = io.StringIO()
    log = make_log("B1", "info", "text", stream)
    log.info("link-up", extra=fields(peer="x fresh=true\n2026-01-01T00:00:00.000Z INFO B1 y"))
    assert stream.getvalue().count("\n") == 1
    assert 'peer="x fresh=true\\n' in stream.getvalue()


def test_an_exception_is_told_in_both_formats() -> None:
    for format in ("text", "json"):
        stream = io.StringIO()
        log = make_log("B1", "info", format, stream)
        try:
            raise KeyError("lost")
        except KeyError as error:
            log.critical("bug", exc_info=error)
        assert "KeyError: 'lost'" in stream.getvalue()
        assert format == "text" or stream.getvalue().count("\n") == 1


def test_a_field_cannot_take_the_place_of_a_column() -> None:
    stream = io.StringIO()
    log = make_log("B1", "info", "json", stream)
    log.info("link-up", extra=fields(broker="B2", event="other"))
    told = json.loads(stream.getvalue())
    assert (told["broker"], told["event"]) == ("B1", "link-up")
    assert (told["broker_"], told["event_"]) == ("B2", "other")
