"""Ask what an argument names: a text that cannot be a path at all names no file, and is none of an error."""

from __future__ import annotations

from pathlib import Path


def is_file(path: Path) -> bool:
    """Whether a regular file is there, whatever stands in the way of looking."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_dir(path: Path) -> bool:
    """Whether a folder is there."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def exists(path: Path) -> bool:
    """Whether anything is there."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
