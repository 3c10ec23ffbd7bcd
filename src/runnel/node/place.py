"""A node's place in the network, remembered: a process that starts anew after a switch belongs where it was put.

Without a file for it (`state` in the configuration) a node that starts again has the neighbours that its configuration
names, as it had before any switch; then brokers of the present generation do not take it in.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from runnel.errors import InputError
from runnel.inspection.questions import OpenGeneration


class _Place(msgspec.Struct, forbid_unknown_fields=True):
    """What is in the file."""

    broker: str
    place: OpenGeneration


def load_place(file: str, broker: str) -> OpenGeneration | None:
    """What was saved, if anything was. If nothing can be saved, now is the time to say so, not in a switch."""
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
        found = msgspec.json.decode(Path(file).read_bytes(), type=_Place)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(
            f"state: {file} cannot be read: {error}; remove it to start as configured"
        ) from None
    if found.broker != broker:
        raise InputError(f"state: {file} is of broker {found.broker}, not {broker}")
    return found.place


def save_place(file: str, broker: str, place: OpenGeneration) -> None:
    """Remember it; whole or not at all."""
    if file:
        new = Path(f"{file}.new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(_Place(broker, place))) + b"\n")
        os.replace(new, file)
