"""Name the command that unpacks a compressed table: no reader takes one, since its content has no known bound."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

COMMANDS: Final = {
    ".gz": "gunzip -k", ".bz2": "bunzip2 -k", ".xz": "unxz -k", ".zst": "zstd -d", ".lz4": "lz4 -d", ".br": "brotli -d",
}  # fmt: skip
"""Ending of a compressed file → the command that unpacks it and keeps it."""


def unpacking(name: str) -> str | None:
    """Return how to unpack a compressed file, as an instruction; None if its ending is that of none."""
    command = COMMANDS.get(PurePath(name).suffix.lower())
    return None if command is None else f"Unpack it first: `{command} {PurePath(name).name}`."
