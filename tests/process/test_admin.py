"""The admin listener of real brokers: Prometheus' reading of them, and the commands of operators."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from process.commands import Shell
from process.peers import peer
from process.processes import RUNNEL, RunningProgram, RunningPrograms
from runnel.net.addresses import parse_address
from support.scraping import ScrapedMetric, read_metrics, value_of

ADMIN = {"listen": "127.0.0.1:0"}


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(tmp_path) as one:
        yield one


def admin_of(broker: RunningProgram) -> str:
    """HOST:PORT of the admin listener, from the log."""
    broker.wait_log(" admin=runnel://")
    found = re.search(r"admin=runnel://(\S+)", broker.log())
    assert found is not None, broker.log()
    return found[1]


def get(broker: RunningProgram, path: str) -> tuple[int, str]:
    """The status of a page, and what it says."""
    try:
        with urllib.request.urlopen(f"http://{admin_of(broker)}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def scrape(broker: RunningProgram) -> dict[str, ScrapedMetric]:
    status, text = get(broker, "/metrics")
    assert status == 200
    return read_metrics(text)


def test_prometheus_reads_what_two_brokers_have_done(processes: RunningPrograms) -> None:
    limits = {"output_bytes_per_s": 10_000_000}
    first = processes.broker("B1", admin=ADMIN, limits=limits)
    second = processes.broker("B2", {"B1": first.said}, admin=ADMIN)

    async def main() -> None:
        async with peer("alice", first.said) as alice, peer("bob", second.said) as bob:
            id = await alice.advertise("n >= 0")
            await bob.subscribe("n < 30")
            for n in range(50):
                await alice.publish(id, n=n)
            await alice.settle()
            await bob.until(lambda: len(bob.got) >= 30)

    asyncio.run(main())
    here, there = scrape(first), scrape(second)
    received = "runnel_publications_received_total"
    assert value_of(here, received, peer="client") == 50
    assert value_of(here, "runnel_matches_total") == 50
    assert value_of(here, "runnel_publications_forwarded_total") == 30
    assert value_of(here, "runnel_publications_delivered_total") == 0
    assert value_of(there, received, peer="broker") == 30
    assert value_of(there, "runnel_publications_delivered_total") == 30
    assert value_of(here, "runnel_matching_seconds_total") > 0
    assert value_of(here, "runnel_output_busy_seconds_total") > 0
    assert value_of(here, "runnel_neighbour_up", neighbour="B2") == 1
    assert value_of(here, "runnel_events_total", event="link-up") >= 2
    assert value_of(here, "process_cpu_seconds_total") > 0
    assert value_of(here, "process_resident_memory_bytes") > 1 << 20


def test_a_broker_that_lost_its_neighbour_is_healthy_but_not_ready(
    processes: RunningPrograms,
) -> None:
    first = processes.broker("B1")
    second = processes.broker("B2", {"B1": first.said}, admin=ADMIN)
    assert get(second, "/readyz") == (200, "ok\n")
    first.kill()
    while get(second, "/readyz")[0] == 200:  # until it has noticed
        pass
    assert get(second, "/readyz") == (503, "there is no link to B1\n")
    assert get(second, "/healthz") == (200, "ok\n")


def test_commands_find_the_way_from_either_port(processes: RunningPrograms) -> None:
    first = processes.broker("B1", admin=ADMIN)
    second = processes.broker("B2", {"B1": first.said}, admin=ADMIN)
    for start in (first.said, admin_of(first)):
        done = subprocess.run(
            [RUNNEL, "status", start, "--json"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        addresses = {one["name"]: one["address"] for one in json.loads(done.stdout)["brokers"]}
        assert addresses == {
            "B1": str(parse_address(first.said)),
            "B2": str(parse_address(second.said)),
        }


def test_a_network_from_a_file_may_have_admin_listeners_everywhere(shell: Shell) -> None:
    (shell.folder / "two.toml").write_text(
        'links = [["B1", "B2"]]\n[defaults]\nadmin = { listen = "127.0.0.1:0" }\n'
        "[brokers.B1]\n[brokers.B2]\n"
    )
    shell.start("up", "two.toml").until(".runnel/B2.log")
    status = shell.json("status", "--json")
    assert sorted(one["name"] for one in status["brokers"]) == ["B1", "B2"]
    assert all(one["admin"] for one in status["brokers"])
    shell.run("down")
