"""Runnel: content-based publish/subscribe."""

from runnel.version import __version__

__all__ = ["__version__"]
