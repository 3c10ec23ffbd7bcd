"""What lies in `examples/` does what it says, at real brokers; and the programs of the README are those."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

from process.commands import Shell
from process.processes import RunningPrograms
from runnel.modules.inspection.questions import TableRows
from runnel.net.addresses import parse_address
from runnel.operate.ask import Asker

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
ADDRESS = "runnel://127.0.0.1:7001"
"""The one that all of them name."""

_PROGRAM = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WITHIN_S = 60


def without_docstring(source: str) -> str:
    """A program as a page shows it, which says around it what it is for."""
    said = ast.parse(source).body[0]
    return "".join(source.splitlines(keepends=True)[said.end_lineno :]).lstrip("\n")


def test_the_programs_of_the_readme_are_those() -> None:
    shown = dict(_PROGRAM.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert sorted(shown) == ["blocking.py", "publisher.py", "subscriber.py", "test_quotes.py"]
    for name, text in shown.items():
        assert text == without_docstring((EXAMPLES / name).read_text(encoding="utf-8")), name


def test_every_example_is_listed_and_none_other() -> None:
    listed = re.findall(r"\]\(([^)/]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    there = [path.name for path in EXAMPLES.iterdir() if path.is_file()]
    assert sorted(listed) == sorted(set(there) - {"README.md"})


@contextmanager
def started(name: str, folder: Path, address: str) -> Iterator[subprocess.Popen[str]]:
    """A program of the examples, at the broker that listens here."""
    file = folder / name
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    assert ADDRESS in text
    file.write_text(text.replace(ADDRESS, address), encoding="utf-8")
    command = [sys.executable, "-u", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def wait_for_subscriptions(address: str, count: int) -> None:
    """Until so many subscriptions stand at the broker, which is asked again and again."""
    deadline = monotonic() + _WITHIN_S
    with Asker(parse_address(address)) as asker:
        while len(asker.ask(TableRows())["subscriptions"]) < count:
            assert monotonic() < deadline, "the examples did not subscribe"


def next_line(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline()


def test_subscribers_get_what_the_publisher_sends(
    processes: RunningPrograms, tmp_path: Path
) -> None:
    address = processes.broker("B1").said
    with (
        started("subscriber.py", tmp_path, address) as asyncio_one,
        started("blocking.py", tmp_path, address) as blocking_one,
        started("threads.py", tmp_path, address) as threads,
    ):
        wait_for_subscriptions(address, 4)
        with started("publisher.py", tmp_path, address) as publisher:
            assert publisher.wait(_WITHIN_S) == 0
        assert [next_line(asyncio_one).partition(" at ")[0] for _ in range(2)] == [
            "YHOO 18.37 from nasdaq",
            "YHOO 19.02 from nasdaq",
        ]
        told = [next_line(blocking_one) for _ in range(3)]
        assert ["18.37" in told[0], "21.5" in told[1], "19.02" in told[2]] == [True] * 3
        assert [next_line(threads) for _ in range(2)] == [
            "symbol = 'YHOO' AND close < 20 first at 18.37\n",
            "symbol = 'YHOO' AND close >= 20 first at 21.5\n",
        ]
        assert threads.wait(_WITHIN_S) == 0


def test_the_test_passes(tmp_path: Path) -> None:
    file = tmp_path / "test_quotes.py"
    file.write_bytes((EXAMPLES / file.name).read_bytes())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S, cwd=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.toml")))
def test_the_networks_can_be_run_and_are_those_that_the_command_prints(
    tmp_path: Path, name: str
) -> None:
    text = (EXAMPLES / f"{name}.toml").read_text(encoding="utf-8")
    with Shell(tmp_path) as shell:
        assert shell.run("up", "--example", name) == text
        (tmp_path / "net.toml").write_text(re.sub(r"(port = |:)7[01]01\b", r"\g<1>0", text))
        done = shell.json("up", "net.toml", "--until-done", "--seconds", "0.5", "--json")
    assert sum(row["delivered"] for row in done["clients"]) > 0
