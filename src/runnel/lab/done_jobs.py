"""Results of jobs on disk, so that a reproduction that was interrupted goes on where it stopped.

A result is kept under a digest of everything that it follows from: the job, its seed, and the source of Runnel. With
another source, or another Python, nothing that was kept is found. When all is written, what was kept is removed.
"""

from __future__ import annotations

import hashlib
import pickle
import platform
import re
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import runnel
from runnel.trace.folder import write_whole

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a function, other in every process
_SOURCE = (".py", ".toml", ".so", ".pyd")


class DoneJobs:
    """Results of the jobs of an experiment, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, step: str, job: Any, seed: int) -> Any:
        """The result of a job, if it was kept; otherwise None."""
        try:
            return pickle.loads(self._file(step, job, seed).read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError):
            return None

    def keep(self, step: str, job: Any, seed: int, result: Any) -> None:
        """Keep the result of a job."""
        file = self._file(step, job, seed)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file.with_suffix(".tmp"), file, pickle.dumps(result), sync=False)

    def remove(self) -> None:
        """Remove everything that was kept."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, step: str, job: Any, seed: int) -> Path:
        whole = f"{digest_of_source()}\n{step}\n{_ADDRESS.sub('', repr(job))}\n{seed}"
        return self._folder / f"{hashlib.sha256(whole.encode()).hexdigest()}.pickle"


@lru_cache(maxsize=1)
def digest_of_source() -> str:
    """A name for the source of Runnel, its compiled parts and the Python that runs it."""
    found = hashlib.sha256(platform.python_version().encode())
    root = Path(runnel.__file__).parent
    for file in sorted(root.rglob("*")):
        if file.suffix in _SOURCE:
            found.update(str(file.relative_to(root)).encode())
            found.update(file.read_bytes())
    return found.hexdigest()
