"""Every bug planted by hand is caught by the checkers within a bounded number of seeds."""

import pytest

from runnel.client.gaps import GapKeeper
from runnel.errors import BugError
from runnel.sim.checkers import Violation
from runnel.sim.summary import run_seed
from simulation import (  # noqa: F401 - they bring their own
    generation_mutations,
    loss_mutations,
    migration_mutations,
)
from simulation.mutations import MUTATIONS

SEEDS_MAX = 300
FINDINGS = {
    Violation.__name__,
    BugError.__name__,
}  # what the checker raises, and what invariants do
STALE = {"AttributeError", "NameError", "TypeError"}


def test_there_are_enough() -> None:
    assert len(MUTATIONS) >= 20


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[name](monkeypatch.setattr)
    for seed in range(1, SEEDS_MAX + 1):
        found = run_seed(seed)
        # A name or a signature that is no more fails too, but that is not the bug that was planted.
        assert found.error not in STALE, f"seed {seed}: {found.violation}"
        if (
            found.error in FINDINGS
        ):  # any other exception is nobody's finding: the next seed may show one
            return
    pytest.fail("nobody noticed")


def test_an_exception_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GapKeeper, "memory_lost", lambda self, home, watermark_ns: None)
    errors = {run_seed(seed).error for seed in range(1, 6)}
    assert "TypeError" in errors and not errors & FINDINGS
