"""A node with a trace: what its configuration says is what is written, and nothing without a directory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import runnel
from runnel.errors import InputError
from runnel.node.config import read_config
from runnel.node.node import Node
from runnel.node.spec import make_node_broker, make_trace
from runnel.trace.reader import open_trace
from runnel.trace.summary import summarise


async def served(trace: dict[str, Any], count: int) -> int:
    """Publish so much to a subscriber at one node, and end the node in good order; its exit code."""
    tables = {"trace": trace, "profiles": {"output_bytes_per_s": 50_000}, "drain_s": 5}
    config = read_config({"name": "B1", "listen": "127.0.0.1:0", **tables})
    node = Node(config)
    url = str(await node.start())
    serving = asyncio.get_running_loop().create_task(node.serve())
    async with runnel.connect(url, name="pub") as pub, runnel.connect(url, name="sub") as sub:
        wanted = await sub.subscribe("n >= 0")
        publisher = await pub.advertise("n >= 0")
        for n in range(count):
            await publisher.publish({"n": n})
        got = [(await anext(wanted))["n"] for _ in range(count)]
        assert got == list(range(count))
    node.stop()
    return await serving


def test_a_node_writes_what_happened(tmp_path: Path) -> None:
    assert asyncio.run(served({"dir": str(tmp_path), "interval_s": 0.05}, 20)) == 0
    trace = open_trace(tmp_path)
    assert summarise(trace).complaints == []
    assert [row["attributes"]["n"] for row in trace.rows("publications")] == list(range(20))
    assert {row["client"] for row in trace.rows("deliveries")} == {"sub"}
    started, stopped = trace.rows("brokers")
    assert (started["event"], stopped["event"]) == ("started", "stopped")
    about = json.loads(started["detail"])
    assert about["address"].startswith("runnel://127.0.0.1:")
    assert about["output_bytes_per_second"] == 50_000, "what it may be planned to send"
    assert sum(row["publications_in"] for row in trace.rows("intervals")) == 20


def test_a_node_that_traces_and_keeps_profiles_records_once(tmp_path: Path) -> None:
    tables = {"trace": {"dir": str(tmp_path)}, "profiles": {"enabled": True}}
    config = read_config({"name": "B1", "listen": "127.0.0.1:0", **tables})
    trace = make_trace(config, 1, pytest.fail)
    assert trace is not None
    broker = make_node_broker(config, 1, trace=trace)
    trace.start()
    broker.start(0)
    assert trace.stop(broker)
    assert [module.name for module in broker.watchers.of_all] == ["recording"]


def test_sampling_and_tables_are_the_users_choice(tmp_path: Path) -> None:
    wanted = {"dir": str(tmp_path), "sample": 5, "deliveries": False}
    assert asyncio.run(served(wanted, 20)) == 0
    trace = open_trace(tmp_path)
    assert [row["counter"] for row in trace.rows("publications")] == [5, 10, 15, 20]
    assert not list(trace.rows("deliveries"))


def test_without_a_directory_there_is_no_trace() -> None:
    assert make_trace(read_config({"name": "B1"}), 1, pytest.fail) is None


def test_a_directory_that_cannot_be_written_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    config = read_config({"name": "B1", "trace": {"dir": str(tmp_path / "file")}})
    with pytest.raises(InputError, match="no trace can be written here"):
        make_trace(config, 1, pytest.fail)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"sample": 0}, "trace.sample: must be at least 1"),
        ({"intervall_s": 1}, "trace.intervall_s: there is no such key"),
        ({"dir": 7}, "trace.dir: must be a text"),
    ],
)
def test_mistakes_name_the_key(table: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_config({"name": "B1", "trace": table})
