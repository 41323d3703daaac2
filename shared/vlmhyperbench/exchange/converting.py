"""Convert a file of any tool to the neutral format, in a child process because the file is untrusted."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vlmhyperbench.bounded import ChildBounds, run_bounded
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.exchange.answers import write_answers
from vlmhyperbench.exchange.reading import AUTO, read
from vlmhyperbench_sdk.types import JsonObject, JsonValue

BOUNDS: Final = ChildBounds(memory_bytes=3 * 1024**3, cpu_s=3600, wall_s=7200)
"""Resource limits of the child on the importing machine; the largest need is a log of 256 MiB in a single piece."""


async def convert(
    path: Path,
    out: Path,
    format: str = AUTO,  # noqa: A002 (the word of the command line)
    *,
    bounds: ChildBounds = BOUNDS,
    filter_name: str | None = None,
    results: Path | None = None,
    key: str | None = None,
    requests: Path | None = None,
) -> list[str]:
    """Write the answers of a file to `out` in the neutral format, and return the warnings about them.

    Arguments are those of `reading.read`.

    Raises:
        NotFound: a file cannot be read.
        InvalidInput: the file is malformed, or reading it exceeds a limit.
        Unavailable: the answers cannot be written.
    """
    options = {"filter_name": filter_name, "results": results, "key": key, "requests": requests}
    given: JsonObject = {name: None if value is None else str(value) for name, value in options.items()}
    notes = await run_bounded(convert_here, str(path), str(out), format, given, what=str(path), bounds=bounds)
    if not isinstance(notes, list):
        raise Unavailable(f"The process that read {path} returned no result.")
    return list(map(str, notes))


def convert_here(path: str, out: str, form: str, options: dict[str, str | None]) -> list[JsonValue]:
    """Convert in this process; the entry point of the child."""
    results, requests = (Path(text) if text else None for text in (options["results"], options["requests"]))
    source = read(
        Path(path), form, filter_name=options["filter_name"], key=options["key"], results=results, requests=requests
    )
    write_answers(Path(out), source)
    return list(source.notes)
