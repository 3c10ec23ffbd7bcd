"""Optional packages: an error that says what to install if one is missing."""

from __future__ import annotations

from importlib.util import find_spec

from runnel.errors import InputError


def require_lab() -> None:
    """Raise an InputError that says what to install, if the packages of the laboratory are missing."""
    for name in ("numpy", "matplotlib"):
        if find_spec(name) is None:
            raise InputError(f"{name} is not installed: pip install 'runnel[lab]'")
