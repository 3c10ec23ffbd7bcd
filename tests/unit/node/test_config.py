"""The configuration: the example is complete and true, and every mistake is told with its key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runnel.broker.config import BrokerConfig
from runnel.errors import InputError
from runnel.node.config import example_config, load_config, read_config
from runnel.node.spec import make_node_broker


def test_the_example_is_the_default_configuration() -> None:
    assert read_config(tomllib.loads(example_config())) == read_config({"name": "B1"})


def test_the_example_names_every_key() -> None:
    def keys(table: dict[str, Any], prefix: str = "") -> set[str]:
        found = set()
        for key, value in table.items():
            found |= keys(value, f"{prefix}{key}.") if isinstance(value, dict) else set()
            found.add(prefix + key)
        return found

    assert keys(tomllib.loads(example_config())) == keys(
        msgspec.to_builtins(read_config({"name": "B1"}))
    )


def test_every_key_of_the_example_has_a_comment_before_it() -> None:
    """Those of [client_link] are told in [link]."""
    before = ""
    for line in example_config().partition("[client_link]")[0].splitlines():
        if " = " in line and not line.startswith("#"):
            assert before.startswith("#"), line
        before = line


def test_the_defaults_are_the_cores_own() -> None:
    assert read_config({"name": "B1"}).for_core() == BrokerConfig("B1")


def test_what_is_set_reaches_the_core_in_its_units() -> None:
    config = read_config(
        {
            "name": "B1",
            "stories": True,
            "neighbours": {"B2": "127.0.0.1:7002", "B3": "[::1]:7003"},
            "link": {"heartbeat_s": 0.25, "resume_timeout_s": 3, "ack_every": 5},
            "client_link": {"queue_bytes_max": 4096},
            "limits": {
                **{"credit_max": 7, "credit_min": 2, "congested_bytes": 5000},
                "matching_delay_ms": 2.5,
            },
        }
    )
    core = config.for_core()
    assert (config.limits.slows_matching, config.limits.matching_delay_ns) == (True, 2_500_000)
    assert core.dials == ("B2", "B3")
    assert core.tell_stories
    assert core.link.heartbeat_ns == 250_000_000
    assert core.link.resume_timeout_ns == 3_000_000_000
    assert core.link.ack_every == 5
    assert core.client_link.queue_bytes_max == 4096
    assert core.client_link.ack_every == 1
    assert (core.credit_max, core.credit_min, core.congested_bytes) == (7, 2, 5000)


MISTAKES = [
    ({}, "name: is missing"),
    ({"name": 3}, "name: must be a text in quotes, got 3"),
    ({"name": ""}, "name: must be 1 to 255 characters long, got ''"),
    ({"name": " B1"}, "name: must be printable"),
    ({"name": "runnel://x"}, "name: must be printable"),
    (
        {"names": "B1", "name": "B1"},
        "names: there is no such key; did you mean name? known here: name, listen",
    ),
    ({"link": {"beat": 1}}, "link.beat: there is no such key; known here: heartbeat_s, "),
    ({"link": 4}, "link: must be a table, got 4"),
    ({"link": {"heartbeat_s": -1}}, "link.heartbeat_s: must be at least 0.05, got -1"),
    ({"link": {"heartbeat_s": 1e9}}, "link.heartbeat_s: must be at most 86400, got 1000000000.0"),
    ({"link": {"heartbeat_s": float("nan")}}, "link.heartbeat_s: must be at most 86400, got nan"),
    ({"link": {"heartbeat_s": "1 s"}}, "link.heartbeat_s: must be a number, got '1 s'"),
    ({"link": {"ack_every": 1.5}}, "link.ack_every: must be a whole number, got 1.5"),
    ({"link": {"ack_every": True}}, "link.ack_every: must be a whole number, got true"),
    (
        {"client_link": {"window_bytes": 0}},
        "client_link.window_bytes: must be at least 1024, got 0",
    ),
    ({"stories": 1}, "stories: must be true or false, got 1"),
    ({"log": {"format": "xml"}}, "log.format: must be one of json, text, got 'xml'"),
    ({"neighbours": {"B2": "x:1", "B3": 3}}, "neighbours.B3: must be a text in quotes, got 3"),
    ({"neighbours": {"B2": "http://x"}}, "neighbours.B2: 'http://x' is no address of a broker"),
    ({"neighbours": {"B2": "a..b:7"}}, "neighbours.B2: 'a..b:7' is no host name"),
    ({"neighbours": {"B2": "127.0.0.1:0"}}, "neighbours.B2: must be an address with a port"),
    ({"neighbours": {"B1": "127.0.0.1:1"}}, "neighbours.B1: a broker is not its own neighbour"),
    ({"neighbours": {"": "127.0.0.1:1"}}, "neighbours.: a name has 1 to 255 characters"),
    ({"listen": "127.0.0.1:65536"}, "listen: '127.0.0.1:65536' is no address of a broker"),
    ({"listen": "0.0.0.0:7001"}, "listen: '0.0.0.0:7001' can be reached from other machines"),
    ({"admin": {"listen": "0.0.0.0:7101"}}, "admin.listen: '0.0.0.0:7101' can be reached from"),
    ({"admin": {"listen": "http://x"}}, "admin.listen: 'http://x' is no address of a broker"),
    ({"admin": {"listen": "127.0.0.1:7001"}}, "admin.listen: '127.0.0.1:7001' is where brokers"),
    ({"placement": {"algorithm": "best"}}, "placement.algorithm: must be one of grape, off, pop"),
    (
        {"placement": {"g_treshold": 1}},
        "placement.g_treshold: there is no such key; did you mean g_thr",
    ),
    (
        {"placement": {"running_average": 0}},
        "placement.running_average: must be more than 0, got 0",
    ),
    (
        {"placement": {"publishers": {"a": {"metric": "load"}, "b": {"metric": "speed"}}}},
        "placement.publishers.b.metric: must be one of delay, load, got 'speed'",
    ),
    (
        {"placement": {"publishers": {"a": {"weight_percent": 101}}}},
        "placement.publishers.a.weight_percent: must be at most 100, got 101",
    ),
    ({"placement": {"publishers": {"a": 1}}}, "placement.publishers.a: must be a table, got 1"),
    (
        {"limits": {"matching_delay_factor": 0.5}},
        "limits.matching_delay_factor: must be at least 1, got 0.5",
    ),
    ({"limits": {"matching_delay_ms": -1}}, "limits.matching_delay_ms: must be at least 0, got -1"),
    ({"limits": {"credit_min": 2000}}, "limits.credit_min: must be at most limits.credit_max"),
    ({"link": {"queue_bytes_max": 2048}}, "limits.congested_bytes: must be at most link.queue"),
]


@pytest.mark.parametrize(("tables", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_told_with_its_key(tables: dict[str, Any], said: str) -> None:
    given = tables if not tables or "name" in tables else {"name": "B1", **tables}
    with pytest.raises(InputError) as caught:
        read_config(given)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "localhost", "[::1]:0", "runnel://127.0.0.1:5"])
def test_listening_on_this_machine_is_always_allowed(listen: str) -> None:
    assert read_config({"name": "B1", "listen": listen}).address.is_loopback


ANYWHERE = (
    "0.0.0.0:1",
    "[::]:1",
    "192.0.2.1:1",
    "0:1",
    "127.1:1",
    "127.0.0.1.example.org:1",
    "localhost.org:1",
)


@pytest.mark.parametrize("place", ANYWHERE)
def test_no_listener_beyond_this_machine_lets_anybody_in_unasked(place: str) -> None:
    """Neither that of brokers and clients nor that of operators, however the place is written."""
    tls = {"authority": "a.pem", "certificate": "b.pem", "key": "b.key"}
    asks = ({"tls": tls}, {"access": {"file": "access.toml"}})
    asks_nobody: tuple[dict[str, Any], ...] = ({}, {"tls": {**tls, "require_certificate": False}})
    for tables in ({"listen": place}, {"admin": {"listen": place}}):
        for access in asks_nobody:
            with pytest.raises(InputError, match=r"listen: .* can be reached from other machines"):
                read_config({"name": "B1", "accept": [], **tables, **access})
        for access in asks:
            read_config({"name": "B1", "accept": [], **tables, **access})
    with pytest.raises(InputError, match=r"admin\.listen: .* can be reached"):
        read_config({"name": "B1", "admin": {"listen": place}, "allow_remote": True})


def test_listening_beyond_it_is_allowed_when_told() -> None:
    config = read_config({"name": "B1", "listen": "0.0.0.0:7001", "allow_remote": True})
    assert config.address.host == "0.0.0.0"


def test_flags_stand_above_the_file_and_neighbours_are_added(tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text(
        'name = "B1"\n[neighbours]\nB2 = "h:1"\nB3 = "h:2"\n[log]\nlevel = "error"\n',
        encoding="utf-8",
    )
    flags = {"name": "B9", "neighbours": {"B3": "h:3"}, "log": {"format": "json"}}
    config = load_config(path, flags)
    assert config.name == "B9"
    assert config.neighbours == {"B2": "h:1", "B3": "h:3"}
    assert (config.log.level, config.log.format) == ("error", "json")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name = ", "not TOML"),
        (b"\xff", "not UTF-8"),
        (b"nam = 'B1'", "nam: there is no such key"),
        (None, "No such file"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "b.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("tables", "accepts"),
    [
        ({}, ("*",)),  # the quick start
        ({"neighbours": {"B2": "127.0.0.1:7002"}}, ()),
        ({"listen": "0.0.0.0:7001", "allow_remote": True}, ()),
        ({"accept": ["B2", "B3"]}, ("B2", "B3")),
        ({"listen": "0.0.0.0:7001", "allow_remote": True, "accept": ["*"]}, ("*",)),
    ],
)
def test_who_may_dial_is_named_except_on_this_machine(
    tables: dict[str, Any], accepts: tuple[str, ...]
) -> None:
    config = read_config({"name": "B1", **tables})
    assert config.accepts == accepts
    core = make_node_broker(config, 1).config
    assert core.accepts_any == ("*" in accepts)
    assert core.accepts == tuple(name for name in accepts if name != "*")


def test_an_access_file_opens_listeners_to_other_machines_and_closes_them_to_brokers() -> None:
    rules = {"file": "access.toml"}
    config = read_config(
        {
            "name": "B1",
            "listen": "0.0.0.0:7001",
            "access": rules,
            "admin": {"listen": "0.0.0.0:7101"},
        }
    )
    assert config.for_core().is_guarded and not config.accepts
    assert not read_config({"name": "B1", "access": rules}).accepts
    with pytest.raises(InputError, match=r"accept: .* name the brokers that may dial this one"):
        read_config({"name": "B1", "access": rules, "accept": ["*"]})
    assert not read_config({"name": "B1"}).for_core().is_guarded
    with pytest.raises(InputError, match=r"admin\.listen: .*access\.file"):
        read_config({"name": "B1", "admin": {"listen": "0.0.0.0:7101"}})
