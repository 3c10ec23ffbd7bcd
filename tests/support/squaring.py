"""A job for tests of the laboratory; in a file that the processes of a pool can import."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def note_and_square(
    job: tuple[str, int, int], place: Path, seed: int
) -> tuple[int, dict[str, Any]]:
    """A job: it notes in a folder that it was done, and fails if the folder says so."""
    folder, number, _ = Path(job[0]), job[1], job[2]
    (folder / "begun").mkdir(exist_ok=True)
    (folder / "begun" / f"{number}-{seed}-{os.getpid()}").touch()
    if (folder / f"fail-{number}-{seed}").exists():
        raise ValueError("interrupted")
    return number * number + seed, {"seconds": 0.0}
