"""Every bug planted by hand is caught by the checkers within a bounded number of seeds."""

import pytest

from runnel.sim.summary import run_seed
from simulation import (  # noqa: F401 - they bring their own
    generation_mutations,
    loss_mutations,
    migration_mutations,
)
from simulation.mutations import MUTATIONS

SEEDS_MAX = 300


def test_there_are_enough() -> None:
    assert len(MUTATIONS) >= 20


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_bug_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTATIONS[name](monkeypatch.setattr)
    found = next(filter(None, (run_seed(seed).violation for seed in range(1, SEEDS_MAX + 1))), "")
    assert found, "nobody noticed"
    # A name that is no more would be noticed too, but then it is not the bug that was planted.
    assert "AttributeError" not in found and "NameError" not in found, found
