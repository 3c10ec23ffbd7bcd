"""Events as they are typed and printed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runnel.cli.events import EventLine, filter_for_event, parse_event, parse_line
from runnel.cli.show.events import as_json, as_line
from runnel.client.events import Event
from runnel.errors import InputError
from runnel.wire import make_publication


@pytest.mark.parametrize(
    ("words", "event"),
    [
        (["symbol=YHOO", "volume=3"], {"symbol": "YHOO", "volume": 3}),
        (["symbol=YHOO volume=3"], {"symbol": "YHOO", "volume": 3}),
        (["note=two words"], {"note": "two", "words": None}),
        (["note='two words'"], {"note": "two words"}),
        (
            ["a=-1.5", "b=1e3", "c=TRUE", "d=e", "e=-"],
            {"a": -1.5, "b": 1e3, "c": True, "d": "e", "e": "-"},
        ),
        (["a="], {"a": ""}),
        (["a=b=c"], {"a": "b=c"}),
        (['{"a": 1, "b": true}'], {"a": 1, "b": True}),
        (["[class,'STOCK'],[volume,1000]"], {"class": "STOCK", "volume": 1000}),
    ],
)
def test_events_are_read_as_they_are_meant(words: list[str], event: dict[str, object]) -> None:
    if None in event.values():
        with pytest.raises(InputError, match="'words' is no part of an event"):
            parse_event(words)
    else:
        assert parse_event(words) == event
        assert [type(value) for value in parse_event(words).values()] == [
            type(value) for value in event.values()
        ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the event is empty"),
        ([""], "the event is empty"),
        (["volume"], "'volume' is no part of an event: write name=value"),
        (["=3"], "is no part of an event"),
        (["a=1", "a=2"], "the event has 'a' twice"),
        (["{"], "this is not JSON"),
        (["{}", "x"], "this is not JSON"),
        (['{"a": [1]}'], "a"),
        ([f"a={2**70}"], "a"),
    ],
)
def test_what_is_no_event_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_event(words)


def test_a_line_may_have_a_payload() -> None:
    assert parse_line('{"a": 1}') == EventLine({"a": 1})
    assert parse_line('{"attributes": {"a": 1}, "payload": "ü"}') == EventLine(
        {"a": 1}, "ü".encode()
    )
    assert parse_line('{"attributes": "x"}') == EventLine({"attributes": "x"})
    with pytest.raises(InputError, match="payload_base64 cannot be read"):
        parse_line('{"attributes": {"a": 1}, "payload_base64": "?"}')
    with pytest.raises(InputError, match="expected an object"):
        parse_line("[1]")


@pytest.mark.parametrize("payload", [b"", b"text", b"\xff\x00"])
def test_json_is_read_back(payload: bytes) -> None:
    attributes: dict[str, Any] = {"symbol": "YHÖO", "n": 3, "x": 0.5, "ok": True}
    event = Event(make_publication(10, 3, attributes, payload, publisher="me", time_ns=10**18))
    text = as_json(event)
    assert parse_line(text) == EventLine(attributes, payload)
    told = json.loads(text)
    assert (told["id"], told["publisher"]) == ("a-3", "me")
    assert told["time"] == "2001-09-09T01:46:40+00:00"


def test_a_line_for_people_keeps_text_apart_from_numbers() -> None:
    attributes: dict[str, Any] = {
        "code": "007",
        "n": 7,
        "note": "two words",
        "yes": True,
        "word": "true",
        "e": "",
    }
    line = as_line(Event(make_publication(1, 1, attributes, publisher="me")))
    assert line.endswith("me  0 hops  code='007' n=7 note='two words' yes=true word='true' e=")


def test_exactly_wants_the_event_and_no_other() -> None:
    wanted = filter_for_event({"symbol": "YHOO", "ok": True})
    assert wanted.matches({"symbol": "YHOO", "ok": True, "more": 1})
    assert not wanted.matches({"symbol": "YHOO", "ok": False})
