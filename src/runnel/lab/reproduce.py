"""Runs experiments one after the other, and writes down what they found.

Everything but `timings.json` follows from the names, the scale and the seed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runnel.errors import InputError
from runnel.lab.claims import Claim
from runnel.lab.experiment import Desk, Scale, Tell, find_experiment
from runnel.lab.report import Findings, Setup, write_report, write_timings


@dataclass(frozen=True, slots=True)
class Reproduced:
    """What came of it; `out` is where it was written."""

    found: Sequence[Findings]
    out: Path
    seconds: float

    @property
    def claims(self) -> list[Claim]:
        """Every claim of every experiment."""
        return [claim for findings in self.found for claim in findings.claims]

    @property
    def holds(self) -> bool:
        """Whether all of them do."""
        return all(findings.holds for findings in self.found)


def reproduce(
    names: Sequence[str], scale: Scale, seed: int, out: Path, tell: Tell | None = None
) -> Reproduced:
    """Run experiments by name; `tell` hears how much of all of them is done."""
    chosen = [find_experiment(name) for name in dict.fromkeys(names)]
    if not chosen:
        raise InputError("name at least one experiment")
    try:  # now, not after an hour
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{out}: results cannot be written here: {error.strerror}: choose another place with --out"
        ) from None
    weights = [one.seconds(scale) for one in chosen]
    began = time.perf_counter()
    found: list[Findings] = []
    timings: dict[str, dict[str, Any]] = {}
    for place, one in enumerate(chosen):
        before = sum(weights[:place])

        def told(share: float, what: str, place: int = place, before: float = before) -> None:
            if tell is not None:
                done = (before + share * weights[place]) / sum(weights)
                tell(done, f"{chosen[place].name}: {what}")

        desk = Desk(one, scale, seed, out / one.name, told)
        started = time.perf_counter()
        found.append(one.run(desk))
        seconds = round(time.perf_counter() - started, 3)
        timings[one.name] = {"seconds": seconds, "steps": desk.timings}
    setup = Setup([one.name for one in chosen], scale, seed)
    write_report(setup, found, out)
    write_timings(out / "timings.json", setup, timings)
    return Reproduced(found, out, time.perf_counter() - began)
