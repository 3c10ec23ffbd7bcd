"""Reads and writes the files of plans."""

from __future__ import annotations

from pathlib import Path

from runnel.errors import InputError
from runnel.planning.documents.plan import Plan, from_json, to_json


def read_plan(path: Path) -> Plan:
    """Read a plan from a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    try:
        return from_json(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def write_plan(plan: Plan, path: Path) -> None:
    """Write a plan; the file gets its name only when it is complete."""
    half = path.with_name(f"{path.name}.part")
    try:
        half.write_bytes(to_json(plan))
        half.replace(path)
    except OSError as error:
        raise InputError(f"--out: {path}: {error.strerror}") from None
