"""Options and exit statuses that the commands share."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from pathlib import Path

from vlmhyperbench_sdk.errors import VlmHyperBenchError


def at_least_one(text: str) -> int:
    """Parse a count of at least 1 for `argparse`."""
    return _at_least(1, text)


def none_or_more(text: str) -> int:
    """Parse a count of at least 0 for `argparse`."""
    return _at_least(0, text)


def new_file(text: str) -> Path:
    """Parse the path of an output file and check early that its folder exists."""
    file = Path(text)
    if not file.parent.is_dir():
        raise ArgumentTypeError(f"there is no folder {file.parent}")
    if file.is_dir():
        raise ArgumentTypeError(f"{file} is a folder")
    return file


def run(main: Callable[[list[str]], int | None]) -> int:
    """Run a command and return its exit status: 1 for a wrong file, server or argument."""
    try:
        return main(sys.argv[1:]) or 0
    except (VlmHyperBenchError, OSError) as error:
        print(error, file=sys.stderr)
        return 1


def _at_least(minimum: int, text: str) -> int:
    if not text.isdecimal() or int(text) < minimum:
        raise ArgumentTypeError(f"{text!r} is no whole number from {minimum} on")
    return int(text)
