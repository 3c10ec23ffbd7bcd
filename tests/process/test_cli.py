"""The commands that talk to a network, against three real brokers in a chain: B1 – B2 – B3."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from process.commands import PROGRAM, Shell

CHAIN = """
links = [["B1", "B2"], ["B2", "B3"]]
[defaults]
stories = true
[brokers.B1]
[brokers.B2]
[brokers.B3]
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("chain")
    (folder / "chain.toml").write_text(CHAIN)
    with Shell(folder) as one:
        one.start("up", "chain.toml").until(".runnel/B3.log")
        yield one
        one.run("down")


def address(shell: Shell, broker: str) -> str:
    state = json.loads((shell.folder / ".runnel" / "state.json").read_text())
    return str(state["brokers"][broker]["address"])


def test_what_is_published_at_one_end_is_printed_at_the_other(shell: Shell) -> None:
    sub = shell.start("sub", "volume > 2", "--broker", "B3", "--count", "2", "--json").until(
        "ready"
    )
    shell.run("pub", "symbol=YHOO", "volume=1", "--broker", "B1")
    shell.run(
        "pub", "symbol=YHOO", "volume=3", "--broker", "B1", "--payload", "chart", "--name", "me"
    )
    shell.run("pub", '{"volume": 4.5, "final": true}', "--broker", address(shell, "B2"))
    assert sub.end() == 0
    first, second = map(json.loads, sub.out.splitlines())
    assert first["attributes"] == {"symbol": "YHOO", "volume": 3}
    assert (first["payload"], first["publisher"], first["hops"]) == ("chart", "me", 2)
    assert (second["attributes"], second["hops"]) == ({"volume": 4.5, "final": True}, 1)


def test_lines_for_people_can_be_typed_again(shell: Shell) -> None:
    sub = shell.start("sub", "TRUE", "--count", "1").until("ready")
    shell.run("pub", "symbol=YHOO", "code='007'", "final=false", "--name", "desk")
    assert sub.end() == 0
    assert sub.out.rstrip().endswith("desk  0 hops  symbol=YHOO code='007' final=false")


def test_many_events_from_stdin_arrive_in_order(shell: Shell) -> None:
    sub = shell.start("sub", "n >= 0", "--broker", "B3", "--json", "--count", "3000").until("ready")
    lines = "".join(json.dumps({"n": n}) + "\n" for n in range(3000))
    shell.run("pub", "--broker", "B1", stdin=lines)
    assert sub.end() == 0
    got = [json.loads(line)["attributes"]["n"] for line in sub.out.splitlines()]
    assert got == list(range(3000))


def test_what_sub_writes_pub_reads(shell: Shell) -> None:
    sub = shell.start("sub", "copied = TRUE", "--count", "1", "--json").until("ready")
    line = {"id": "x-1", "attributes": {"copied": True}, "payload_base64": "AP8="}
    shell.run("pub", stdin=json.dumps(line))
    assert sub.end() == 0
    told = json.loads(sub.out)
    assert (told["attributes"], told["payload_base64"]) == ({"copied": True}, "AP8=")


def test_a_bad_line_on_stdin_is_named(shell: Shell) -> None:
    told = shell.run("pub", stdin='{"a": 1}\noops\n', code=2)
    assert "line 2: this is not JSON" in told and "published before it: 1 event" in told
    told = shell.run("pub", stdin='{"a": [1]}\n', code=2)
    assert "line 1:" in told and "published before it" not in told
    told = shell.run("pub", "a=1", "--advertise", "a > 5", code=2)
    assert "not what was advertised (a > 5): a > 5 fails: a is 1" in told


def test_pub_that_is_interrupted_says_how_far_it_came(shell: Shell) -> None:
    sub = shell.start("sub", "slow = 1", "--count", "1").until("ready")
    pub = shell.start("pub", "slow=1", "--repeat", "100000", "--rate", "5")
    assert sub.end() == 0  # so it is publishing
    assert pub.end(signal.SIGINT) == 130
    assert re.search(r"interrupted: published \d+ of 100,000", pub.said)
    assert "Aborted" not in pub.said and "Traceback" not in pub.said


def test_a_name_that_no_broker_has_is_told_at_once(shell: Shell) -> None:
    assert "no broker B9 here: B1, B2, B3" in shell.run("sub", "a = 1", "-b", "B9", code=2)


def test_a_filter_that_cannot_match_is_warned_of(shell: Shell) -> None:
    sub = shell.start("sub", "temp > 5 AND temp < 3").until("ready")
    assert "no event can ever match 'temp > 5 AND temp < 3'" in sub.said
    assert sub.end(signal.SIGINT) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_sub_and_advertise_end_with_a_signal(shell: Shell, number: signal.Signals) -> None:
    sub = shell.start("sub", "a = 1").until("ready at B1")
    held = shell.start("advertise", "a > 0").until("is advertised at B1")
    assert sub.end(number) == 0
    assert held.end(number) == 0


def test_sub_gives_up_in_time(shell: Shell) -> None:
    shell.run("sub", "never = 1", "--count", "1", "--timeout", "1.5", code=1)
    shell.run("sub", "never = 1", "--timeout", "1.5")


def test_sub_ends_when_nobody_reads_it(shell: Shell) -> None:
    reader, writer = os.pipe()
    sub = subprocess.Popen(
        [*PROGRAM, "sub", "pipe = 1"],
        cwd=shell.folder,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert sub.stderr is not None and "ready" in sub.stderr.readline()
    os.close(reader)
    shell.run("pub", "pipe=1")
    sub.wait(30)
    assert "Traceback" not in sub.stderr.read()
    sub.stderr.close()


def test_status_walks_the_whole_network_from_any_broker(shell: Shell) -> None:
    for broker in ("B1", "B3"):
        told = shell.json("status", "--json", "--broker", broker)
        assert sorted(one["name"] for one in told["brokers"]) == ["B1", "B2", "B3"]
        assert told["silent"] == {}
        assert all(link["up"] for one in told["brokers"] for link in one["links"])
    table = shell.run("status", address(shell, "B2"))
    assert "B1 – B2" in table.replace("B2 – B1", "B1 – B2") and "B3" in table


def test_explain_follows_an_event_to_whom_it_reaches(shell: Shell) -> None:
    shell_sub = shell.start("sub", "symbol = 'YHOO' AND volume > 5", "-b", "B3", "--name", "alice")
    shell_sub.until("ready")
    held = shell.start("advertise", "symbol = 'YHOO'", "-b", "B1", "--name", "nasdaq")
    held.until("is advertised")
    about = ("explain", "--json", "--to", "alice")
    told = shell.json(*about, "--event", "symbol=YHOO volume=7", "--from", "nasdaq")
    assert told["delivered"] and told["path"] == ["B1", "B2", "B3"]
    assert [step["broker"] for step in told["steps"]] == ["B1", "B1", "B2", "B3"]
    assert "nasdaq" in told["steps"][0]["says"]

    told = json.loads(shell.run(*about, "--event", "symbol=YHOO volume=3", "--from", "B1", code=1))
    assert "volume > 5 fails: volume is 3" in told["steps"][0]["says"]
    told = json.loads(shell.run(*about, "--event", "symbol=YHOO", "--from", "B1", code=1))
    assert "the event has no volume" in told["steps"][0]["says"]

    told = shell.run(*about, "--event", "symbol=MSFT volume=7", "--from", "nasdaq", code=1)
    assert "none of the filters" in json.loads(told)["verdict"]
    near = shell.start("sub", "volume > 5", "-b", "B1", "--name", "carol").until("ready")
    shut = ("explain", "--json", "--to", "carol", "--event", "symbol=YHOO volume=7")
    unheard = json.loads(shell.run(*shut, "--from", "B3", code=1))
    assert unheard["verdict"].startswith("nobody at B3 has advertised it; `runnel pub` advertises")
    assert "would reach carol" in unheard["verdict"] and unheard["delivered_if_advertised"]
    assert [step["goes_on"] for step in unheard["steps"]] == [False]
    said = shell.run("explain", *shut[2:], "--from", "B3", code=1)
    assert "✗ B3  nobody here has advertised it" in said
    assert "not delivered as things are: nobody at B3" in said
    silent = json.loads(shell.run(*shut, "--from", "alice", code=1))
    assert "alice cannot publish it" in silent["verdict"]
    assert shell.json(*shut, "--from", "B1")["delivered"]
    assert near.end(signal.SIGTERM) == 0

    nobody = shell.run("explain", "--to", "bob", "--event", "a=1", "--from", "B2", code=2)
    assert "no broker knows a client bob" in nobody and "alice" in nobody
    assert "no broker and no client 'B9'" in shell.run(
        "explain", "--to", "alice", "--event", "a=1", "--from", "B9", code=2
    )
    assert shell_sub.end(signal.SIGTERM) == held.end(signal.SIGTERM) == 0


def test_explain_tells_the_story_of_an_event(shell: Shell) -> None:
    sub = shell.start("sub", "story = 1", "-b", "B3", "--json", "--count", "1").until("ready")
    shell.run("pub", "story=1", "-b", "B1", "--name", "teller")
    assert sub.end() == 0
    told = shell.run("explain", "--id", json.loads(sub.out)["id"])
    assert [line.split()[1] for line in told.splitlines()] == ["B1", "B2", "B3"]
    assert "published by teller; handed on: B1 → B2" in told
    assert "came from B1; handed on: B2 → B3" in told and "delivered: B3 → " in told
    assert re.match(r"\d\d:\d\d:\d\d\.\d{6}  B1", told)
    assert "no broker remembers it" in shell.run("explain", "--id", "1-1", code=1)
    assert "is no id of an event" in shell.run("explain", "--id", "what", code=2)


def test_nobody_there_is_told_at_once_and_what_to_do(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        nowhere = f"runnel://127.0.0.1:{server.getsockname()[1]}"
    assert "no broker answers at" in shell.run("status", nowhere, code=1)
    assert "no broker could be reached" in shell.run("pub", "a=1", "-b", nowhere, code=1)
    assert "no broker could be reached" in shell.run("sub", "a=1", "-b", nowhere, code=1)


def test_a_short_demo_loses_nothing(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        told = shell.json("demo", "--seconds", "4", "--no-plan", "--json")
    assert told["lost"] == told["doubled"] == told["disordered"] == told["in_doubt"] == 0
    assert told["delivered"] == told["must"] > 1000
    assert told["published"] == 1600


def test_a_demo_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        running = shell.start("demo", "--no-plan").until("publishers publish")
        assert running.end(signal.SIGINT) == 130
        assert shell.left() == []
