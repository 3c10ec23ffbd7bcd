"""The programs of the README do what it says, copied into files as a reader would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from time import monotonic

from processes import Processes

from runnel.inspection.ask import Asker
from runnel.inspection.questions import TableRows
from runnel.net.addresses import parse_address

README = Path(__file__).parents[2] / "README.md"
_PROGRAM = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WITHIN_S = 60


def programs(folder: Path, address: str) -> dict[str, Path]:
    """The programs, as files, at the broker that listens here."""
    written = {}
    for name, text in _PROGRAM.findall(README.read_text(encoding="utf-8")):
        written[name] = folder / name
        written[name].write_text(text.replace("runnel://127.0.0.1:7001", address), encoding="utf-8")
    return written


def start(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-u", str(path)], stdout=subprocess.PIPE, text=True)


def wait_for_subscriptions(address: str, count: int) -> None:
    """Until so many subscriptions stand at the broker, which is asked again and again."""
    host, port = parse_address(address)
    deadline = monotonic() + _WITHIN_S
    with Asker(host, port) as asker:
        while len(asker.ask(TableRows())["subscriptions"]) < count:
            assert monotonic() < deadline, "the programs of the README did not subscribe"


def test_the_subscriber_gets_what_the_publisher_of_the_readme_sends(
    processes: Processes, tmp_path: Path
) -> None:
    address = processes.broker("B1").said
    files = programs(tmp_path, address)
    with start(files["subscriber.py"]) as asyncio_one, start(files["blocking.py"]) as blocking_one:
        try:
            wait_for_subscriptions(address, 2)
            subprocess.run(
                [sys.executable, str(files["publisher.py"])], check=True, timeout=_WITHIN_S
            )
            assert asyncio_one.stdout is not None and blocking_one.stdout is not None
            lines = [asyncio_one.stdout.readline() for _ in range(2)]
            assert [line.partition(" at ")[0] for line in lines] == [
                "YHOO 18.37 from nasdaq",
                "YHOO 19.02 from nasdaq",
            ]
            told = [blocking_one.stdout.readline() for _ in range(3)]
            assert ["18.37" in told[0], "21.5" in told[1], "19.02" in told[2]] == [True] * 3
        finally:
            asyncio_one.kill()
            blocking_one.kill()


def test_the_test_of_the_readme_passes(tmp_path: Path) -> None:
    file = programs(tmp_path, "")["test_quotes.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S, cwd=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
