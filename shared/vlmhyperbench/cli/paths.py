"""Check which kind of file an argument names; text that cannot be a path at all names none and raises nothing."""

from __future__ import annotations

from pathlib import Path


def is_file(path: Path) -> bool:
    """Return whether the path is a regular file."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_dir(path: Path) -> bool:
    """Return whether the path is a folder."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def exists(path: Path) -> bool:
    """Return whether the path exists."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
