"""Saves the generation that a node belongs to, so that it returns to its place in the network after a restart.

Without a file for it (`state` in the configuration) a restarted node has the neighbours that its configuration names,
as before any switch; then brokers of the present generation refuse it.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from runnel.errors import InputError
from runnel.modules.generations.questions import OpenGeneration


class _SavedGeneration(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the file."""

    broker: str
    place: OpenGeneration


def load_generation(file: str, broker: str) -> OpenGeneration | None:
    """The saved generation, if any. Raises InputError now, not during a switch, if the file cannot be written."""
    if not file:
        return None
    try:
        new = Path(f"{file}.new")
        new.touch()
        new.unlink()
    except OSError as error:
        raise InputError(
            f"state: {file} cannot be written: {error.strerror}; choose a file in a directory that is there"
        ) from None
    if not Path(file).exists():
        return None
    try:
        found = msgspec.json.decode(Path(file).read_bytes(), type=_SavedGeneration)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(
            f"state: {file} cannot be read: {error}; remove it to start as configured"
        ) from None
    if found.broker != broker:
        raise InputError(f"state: {file} is of broker {found.broker}, not {broker}")
    return found.place


def save_generation(file: str, broker: str, place: OpenGeneration) -> None:
    """Write the file, atomically."""
    if file:
        new = Path(f"{file}.new")
        new.write_bytes(
            msgspec.json.format(msgspec.json.encode(_SavedGeneration(broker, place))) + b"\n"
        )
        os.replace(new, file)
