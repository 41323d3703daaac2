"""What several commands accept, and how they end where a user made a mistake."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

from vlmhyperbench_sdk.errors import VlmHyperBenchError


def at_least_one(text: str) -> int:
    """Read a count; `argparse` names the option."""
    return _at_least(1, text)


def none_or_more(text: str) -> int:
    """Read a count that may be 0."""
    return _at_least(0, text)


def new_file(text: str) -> Path:
    """Read where a file shall be written, while nothing is lost if it cannot be."""
    file = Path(text)
    if not file.parent.is_dir():
        raise ArgumentTypeError(f"there is no folder {file.parent}")
    if file.is_dir():
        raise ArgumentTypeError(f"{file} is a folder")
    return file


def run(main: Callable[[list[str]], int | None]) -> int:
    """Run a command, and return its exit status; 1 where a file, a server or what was asked for is wrong."""
    try:
        return main(sys.argv[1:]) or 0
    except (VlmHyperBenchError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ArgumentTypeError(f"{text!r} is no whole number from {least} on")
    return int(text)
