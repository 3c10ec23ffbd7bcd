"""Whether criteria were declared before the run that they judge: git knows, where it is there.

Results carry git's id of the file of criteria at the run. The commit that first had this file must come before the one
that first had these results. So criteria are committed first, and results in a commit of their own. A history that is
cut off, or an export without one, says nothing.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from runnel.lab.results import Results


def find_late_criteria(results: Results, file: Path, criteria: dict[str, Path]) -> list[str]:
    """Which experiments of a committed file of results were judged by criteria that were not committed before it."""
    made = _first_commit_with(file, _git(file, "hash-object", file.name))
    if made is None:
        return []  # not committed yet, or no git
    found = []
    for one in results.experiments:
        declared = _first_commit_with(criteria[one.name], one.file)
        if declared is None:
            found.append(f"{one.name}: criteria {one.file} were never committed")
        elif declared == made or _git(file, "merge-base", declared, made) != declared:
            found.append(f"{one.name}: criteria {one.file} were not committed before the results")
    return found


def knows_history(folder: Path) -> bool:
    """Whether git is there, with the whole history of this folder."""
    return _git(folder / "any", "rev-parse", "--is-shallow-repository") == "false"


def _first_commit_with(file: Path, content: str | None) -> str | None:
    """The first commit in which a file has this content, by git's id of it."""
    if not content:
        return None
    search = ("log", "--full-history", "-m", "--format=%H")  # a merge may be the first to have it
    found = _git(file, *search, "--find-object", content, "--", file.name)
    return found.split()[-1] if found else None


def _git(file: Path, *arguments: str) -> str | None:
    """What git says about the folder of a file; None if it cannot say."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=file.parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
