"""Reading topologies: what a file means, and where it says that a mistake is."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from runnel.errors import InputError
from runnel.network.events import events_of
from runnel.network.examples import EXAMPLES, chain, tree
from runnel.network.file import make_topology, read_topology
from runnel.network.processes import write_toml
from runnel.paths import path_between

ROOT = Path(__file__).parents[3]
THREE: dict[str, Any] = {
    "brokers": {"B1": {}, "B2": {}, "B3": {}},
    "links": [["B1", "B2"], ["B2", "B3"]],
}
SUBSCRIBER = {"name": "alice", "broker": "B1", "subscribe": ["a > 1"]}


def with_client(**changes: Any) -> dict[str, Any]:
    return THREE | {"clients": [SUBSCRIBER | changes]}


def test_links_and_neighbours_say_the_same() -> None:
    by_links = make_topology(THREE)
    by_neighbours = make_topology(
        {"brokers": {"B1": {"neighbours": ["B2"]}, "B2": {"neighbours": ["B1", "B3"]}, "B3": {}}}
    )
    assert by_links.links == by_neighbours.links == (("B1", "B2"), ("B2", "B3"))


def test_brokers_are_told_of_placement() -> None:
    placement = {"algorithm": "grape", "publishers": {"the quotes": {"metric": "delay"}}}
    made = make_topology(THREE | {"defaults": {"placement": placement}})
    tables = made.node_tables("B1", "127.0.0.1:0", dict.fromkeys(made.links, "127.0.0.1:1"))
    assert tomllib.loads(write_toml(tables))["placement"] == placement


def test_a_broker_has_its_own_settings_over_the_defaults() -> None:
    tables = THREE | {
        "defaults": {"link": {"heartbeat_s": 2}, "limits": {"credit_max": 9}, "stories": True},
        "brokers": {
            "B1": {"link": {"ack_every": 4}, "output_bytes_per_s": 1000, "stories": False},
            "B2": {"port": 7002},
            "B3": {},
        },
    }
    topology = make_topology(tables)
    assert topology.brokers["B1"].settings == {
        "link": {"heartbeat_s": 2, "ack_every": 4},
        "limits": {"credit_max": 9, "output_bytes_per_s": 1000},
        "stories": False,
    }
    assert topology.brokers["B2"].listen == "127.0.0.1:7002"
    node = topology.node_tables("B2", "127.0.0.1:7002", {("B2", "B3"): "127.0.0.1:9"})
    assert (node["name"], node["neighbours"], node["stories"]) == (
        "B2",
        {"B3": "127.0.0.1:9"},
        True,
    )


def test_copies_of_a_client_have_names_of_their_own() -> None:
    clients = make_topology(with_client(copies=3)).clients
    assert [client.name for client in clients] == ["alice-1", "alice-2", "alice-3"]


def test_clients_start_in_groups() -> None:
    later = {"name": "bob", "broker": "B2", "start_s": 2, "subscribe": "a > 1"}
    early = {"name": "carol", "broker": "B2", "subscribe": "a > 1"}
    topology = make_topology(THREE | {"clients": [later, SUBSCRIBER, early]})
    named = [(at, [client.name for client in group]) for at, group in topology.groups()]
    assert named == [(0.0, ["alice", "carol"]), (2.0, ["bob"])]


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({}, "the file: there must be a key `brokers`"),
        ({"brokers": {}}, "brokers: there is none"),
        (THREE | {"colour": 1}, "the file: there is no key `colour`: known are brokers, links"),
        (THREE | {"links": [["B1", "B2"]]}, "links: no way leads from B1 to B3"),
        (THREE | {"links": [["B1", "B7"]]}, r"links\[0\]: there is no broker B7"),
        (THREE | {"links": [["B1", "B1"]]}, r"links\[0\]: B1 is not its own neighbour"),
        (
            THREE | {"links": [["B1", "B2"], ["B2", "B1"]]},
            r"links\[1\]: B2 and B1 are joined by links\[0\]",
        ),
        (
            THREE | {"links": [["B1", "B2"], ["B2", "B3"], ["B3", "B1"]]},
            r"links\[2\]: B3 and B1 are joined already by B3 – B2 – B1",
        ),
        (THREE | {"links": ["B1"]}, r"links\[0\]"),
        (THREE | {"defaults": {"port": 7001}}, "defaults.port: give it to each"),
        (THREE | {"defaults": {"speed": 1}}, "defaults: there is no key `speed`"),
        (
            THREE | {"brokers": {"B1": {"prot": 1}, "B2": {}, "B3": {}}},
            "brokers.B1: there is no key `prot`: did you mean port\\? known are listen, port",
        ),
        (
            THREE | {"brokers": {"B1": {"port": 99999}, "B2": {}, "B3": {}}},
            r"brokers.B1.port: .*<= 65535",
        ),
        (
            THREE | {"brokers": {"B1": {"port": 7001}, "B2": {"port": 7001}, "B3": {}}},
            "brokers.B2: 127.0.0.1:7001 is where B1 listens",
        ),
        (with_client(broker="B9"), "clients.alice.broker: there is no broker B9"),
        (with_client(subscribe=["a >"]), r"clients.alice.subscribe\[0\]: line 1, column"),
        (with_client(subscribe=[]), "clients.alice: it does nothing"),
        (with_client(name="B2"), "clients.B2: a broker has that name already"),
        (with_client(start_s=-1), r"clients.alice.start_s: .*>= 0"),
        (THREE | {"clients": [SUBSCRIBER, SUBSCRIBER]}, "clients.alice: a client has that name"),
        (THREE | {"clients": [{"name": "x"}]}, "clients.x: there must be a key `broker`"),
        (with_client(publish={"advertise": "a ="}), "clients.alice.publish.advertise: line 1"),
        (
            with_client(publish={"advertise": "a > 1", "rate_per_s": 0}),
            "clients.alice.publish.rate_per_s",
        ),
        (
            with_client(publish={"advertise": "a > 1", "events": "nowhere.jsonl"}),
            r"clients.alice.publish.events: there is no file .*nowhere.jsonl",
        ),
        (
            with_client(publish={"advertise": "a > 1", "events": [{"a": 2}, {"a": 1}]}),
            r"clients.alice.publish.events\[1\]: it is not what is advertised: a > 1",
        ),
    ],
)
def test_a_mistake_is_named_by_its_place(tables: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match="^" + said):
        make_topology(tables)


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.toml: cannot be opened"):
        read_topology(tmp_path / "missing.toml")
    path = tmp_path / "broken.toml"
    path.write_text("links = [")
    with pytest.raises(InputError, match=r"broken\.toml: this is not TOML"):
        read_topology(path)
    path.write_text("links = []")
    with pytest.raises(InputError, match=r"broken\.toml: the file: there must be a key `brokers`"):
        read_topology(path)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_what_the_generator_writes(name: str) -> None:
    path = ROOT / "examples" / f"{name}.toml"
    assert path.read_text() == EXAMPLES[name]()
    topology = read_topology(path)
    assert len(topology.clients) >= 6
    assert len(topology.links) == len(topology.brokers) - 1


def test_the_generators_make_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "chain.toml").write_text(chain(5))
    five = read_topology(tmp_path / "chain.toml")
    assert path_between(five.links, "B1", "B5") == ["B1", "B2", "B3", "B4", "B5"]
    (tmp_path / "tree.toml").write_text(tree(15))
    fifteen = read_topology(tmp_path / "tree.toml")
    assert path_between(fifteen.links, "B15", "B8") == ["B15", "B7", "B3", "B1", "B2", "B4", "B8"]


def test_events_are_the_same_each_time_and_what_was_advertised(tmp_path: Path) -> None:
    publish = {"advertise": "symbol = 'MSFT'", "count": 120}
    [client] = make_topology(with_client(publish=publish)).clients
    assert client.publish is not None
    once, again = (list(events_of(client.publish, tmp_path)) for _ in range(2))
    assert once == again and len(once) == 120
    assert {event["symbol"] for event in once} == {"MSFT"}


def test_events_of_a_file_come_once_and_must_be_what_is_advertised(tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").write_text('{"a": 2}\n{"a": 3}\n')
    tables = with_client(publish={"advertise": "a > 1", "events": "some.jsonl"})
    [client] = make_topology(tables, tmp_path).clients
    assert client.publish is not None
    assert list(events_of(client.publish, tmp_path)) == [{"a": 2}, {"a": 3}]
    (tmp_path / "some.jsonl").write_text('{"a": 2}\n{"a": 0}\n')
    with pytest.raises(InputError, match=r"some\.jsonl, line 2: it is not what is advertised"):
        events_of(client.publish, tmp_path)
