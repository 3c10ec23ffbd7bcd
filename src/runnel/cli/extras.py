"""What not everybody has installed, and what to do about it."""

from __future__ import annotations

from importlib.util import find_spec

from runnel.errors import InputError


def require_lab() -> None:
    """An InputError that says what to install, if what computes and draws for the laboratory is not there."""
    for name in ("numpy", "matplotlib"):
        if find_spec(name) is None:
            raise InputError(f"{name} is not installed: pip install 'runnel[lab]'")
