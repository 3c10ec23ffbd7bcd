"""A strategy and a module of one's own on real nodes, named in their configuration and nowhere else."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import pytest

from process.peers import peer
from process.processes import RUNNEL, RunningPrograms
from runnel.broker.questions import Question
from runnel.modules.inspection.questions import Status
from runnel.net.addresses import parse_address
from runnel.operate.ask import ask


class AskTally(Question, frozen=True):
    """What the module is asked; it is defined there, and its file is for brokers to import."""

    asked_as: ClassVar[str] = "tally"

    neighbour: str


HELPERS = str(Path(__file__).parents[1] / "support")


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers find the files of this folder, as they would find an installed package."""
    monkeypatch.setenv("PYTHONPATH", HELPERS, prepend=":")


def test_real_nodes_flood_if_they_are_told_to(processes: RunningPrograms) -> None:
    flood: dict[str, Any] = {"extensions": ["flooding"], "routing": {"strategy": "flood"}}
    first = processes.broker("B1", **flood)
    second = processes.broker("B2", {"B1": first.said}, **flood)
    third = processes.broker("B3", {"B2": second.said}, **flood)

    async def main() -> None:
        async with peer("alice", first.said) as alice, peer("carol", third.said) as carol:
            quotes = await alice.advertise("n >= 0")
            await carol.subscribe("n >= 500")
            for n in range(1000):
                await alice.publish(quotes, n=n)
            await alice.settle()
            await carol.until(lambda: len(carol.got) >= 500)
            assert carol.got == [("alice", n) for n in range(500, 1000)]

    asyncio.run(main())
    asked = [ask(parse_address(one.said), Status()) for one in (first, second, third)]
    # All of it went everywhere, whoever wanted it; and nobody but the last broker knows that anybody does.
    assert [told["meter"]["publications_in"] for told in asked] == [1000, 1000, 1000]
    assert [told["subscriptions"] for told in asked] == [0, 0, 0]
    assert [one.stop() for one in (first, second, third)] == [0, 0, 0]


def test_a_module_is_there_with_all_that_it_brings(processes: RunningPrograms) -> None:
    tally: dict[str, Any] = {"extensions": ["tallying"], "tally": {"every_s": 0.05}}
    first = processes.broker("B1", **tally)
    second = processes.broker("B2", {"B1": first.said}, **tally)
    counts = (ask(parse_address(first.said), AskTally("B2"))["count"] for _ in range(10_000))
    assert any(count is not None for count in counts)
    said = subprocess.run(
        [RUNNEL, "status", first.said], capture_output=True, text=True, timeout=30, check=True
    ).stdout
    assert "tally" in said and "neighbours heard of 1" in said
    assert [one.stop() for one in (first, second)] == [0, 0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('extensions = ["tallying"]\n[tally]\nevery_s = 0', "tally.every_s: must be at least 0.05"),
        ('extensions = ["tallying"]\n[tally]\nevry_s = 1', "did you mean every_s?"),
        ("[tally]\nevery_s = 1", "tally: there is no such key"),
        ('extensions = ["talying"]', "extensions: talying cannot be imported"),
        ('[routing]\nstrategy = "flood"', "routing.strategy: must be one of tree"),
        (
            'extensions = ["flooding"]\n[routing]\nstrategy = "flood"\ncovering = true',
            "routing.covering: there is no such key",
        ),
    ],
)
def test_complaints_name_what_extensions_bring(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    path.write_text(f'name = "B1"\nlisten = "127.0.0.1:0"\n{text}\n', encoding="utf-8")
    ended = subprocess.run(
        [RUNNEL, "broker", "--config", str(path)], capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 2
    assert complaint in " ".join(ended.stderr.split())
