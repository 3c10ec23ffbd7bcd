"""Plans in files."""

from __future__ import annotations

from pathlib import Path

from runnel.allocation.plan import Plan, from_json, to_json
from runnel.errors import InputError


def read_plan(path: Path) -> Plan:
    """A plan from a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    try:
        return from_json(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def write_plan(plan: Plan, path: Path) -> None:
    """Keep a plan; the file appears under its name when it is whole."""
    half = path.with_name(f"{path.name}.part")
    try:
        half.write_bytes(to_json(plan))
        half.replace(path)
    except OSError as error:
        raise InputError(f"--out: {path}: {error.strerror}") from None
