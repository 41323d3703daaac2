"""Print the output of commands: results on stdout (as text or JSON), progress and errors on stderr.

Text may contain names of files, models and runs, and answers of models. All of it passes through `visible`, so that no
control character in it reaches the terminal. JSON escapes control characters itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from vlmhyperbench.domain.visible import visible
from vlmhyperbench.errors import DoesNotFit, VlmHyperBenchError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from vlmhyperbench.cli.output_flags import OutputFlags
    from vlmhyperbench.environments.base import PreparationStep, Tell

SCHEMA = "vlmhb/v1"

_STEPS: Final[dict[PreparationStep, str]] = {
    "fetching": "Building the wheel of a package",
    "resolving": "Resolving packages",
    "waiting": "Another process builds it. Waiting",
    "renting": "Renting a machine",
    "installing": "Preparing the image",
    "converting": "Converting the weights",
    "quantizing": "Quantising the weights",
    "testing": "Running the tests of the package",
}


def emit(
    kind: str,
    data: BaseModel | Sequence[BaseModel] | object,
    *,
    next_cursor: str | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Print the JSON envelope that every command prints with `--json`, on one line."""
    envelope = {"schema": SCHEMA, "kind": kind, "data": _plain(data), "next": next_cursor, "warnings": list(warnings)}
    text = json.dumps(envelope, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # the terminal has another encoding, or the text has a lone surrogate
        text = json.dumps(envelope, allow_nan=False)
    print(text, flush=True)


def say(text: str = "") -> None:
    """Print a line of the result on stdout."""
    print(visible(text), flush=True)


def note(text: str, flags: OutputFlags | None = None) -> None:
    """Print a line of progress on stderr, unless the flags ask for none."""
    if flags is None or not flags.quiet:
        print(visible(text), file=sys.stderr, flush=True)


def teller(output: OutputFlags, name: str) -> Tell:
    """Return what prints the steps of a preparation as progress, after the name of what is prepared."""

    async def tell(step: PreparationStep, packages: int | None) -> None:
        text = _STEPS[step]
        if packages is not None:
            text = f"Installing {packages} package{'' if packages == 1 else 's'}"
        note(f"{name}: {text} …", output)

    return tell


def byte_teller(output: OutputFlags, name: str) -> Callable[[int, int], Awaitable[None]]:
    """Return what prints how much of a model has arrived at its machine, after the name of what it is for."""

    async def tell(done: int, total: int) -> None:
        note(f"{name}: Sending the model: {done / 2**20:,.0f} of {total / 2**20:,.0f} MiB …", output)

    return tell


def print_error(error: VlmHyperBenchError, *, as_json: bool) -> None:
    """Print an error with its location and cure; if it consists of several errors, each on its own line."""
    parts = [_part(part) for part in getattr(error, "errors", ())]
    if as_json:
        data = {"code": error.code, "message": error.message, "cure": error.cure, "errors": parts}
        emit("error", data | ({"shortage": dict(error.facts)} if isinstance(error, DoesNotFit) else {}))
    if len(parts) > 1:
        note(f"error: {len(parts)} errors:")
        for part in parts:
            note(f"  {_located(part)} {part['cure'] or ''}".rstrip())
        cures = [error.cure] if error.cure not in [part["cure"] for part in parts] else []
    else:
        note(f"error: {_located(parts[0]) if parts else error.message}")
        cures = [parts[0]["cure"] if parts else "", error.cure]
    for cure in dict.fromkeys(filter(None, cures)):
        note(f"  {cure}")


def _located(part: dict[str, Any]) -> str:
    """Return the message of an error after its location and field, as far as these are known."""
    location = ":".join(str(part[name]) for name in ("file", "line") if part[name])
    return ": ".join(text for text in (location, part["field"], part["message"]) if text)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print a table with titles: drawn on a terminal, tab-separated elsewhere."""
    if not sys.stdout.isatty():
        say("\t".join(columns))
        for row in rows:
            say("\t".join(_cell(value) for value in row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        drawn.add_column(Text(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(_cell(value)) for value in row))  # as `Text`, markup of rich in the value has no effect
    Console().print(drawn)


def _cell(value: object) -> str:
    """Return the text of a cell on one line, so that line breaks and tabs in a value add no rows or columns."""
    return "–" if value is None else visible(" ".join(str(value).split()), keep="")


def _part(part: object) -> dict[str, Any]:
    fields = ("message", "field", "file", "line", "cure")
    values = {name: getattr(part, name, None) for name in fields}
    return {
        **values,
        "message": values["message"] or str(part),
        "file": str(values["file"]) if values["file"] else None,
    }


def _plain(data: object) -> object:
    if hasattr(data, "model_dump"):
        return data.model_dump(mode="json")
    if is_dataclass(data) and not isinstance(data, type):
        return asdict(data)
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]
    return data
