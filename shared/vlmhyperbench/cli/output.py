"""What every command prints: data on stdout (text, or one JSON envelope), progress and complaints on stderr.

Text may hold names of files, of models and of runs, and what models said: everything that is printed for people goes
through `visible`, so that nothing in it moves the cursor, paints the screen or turns the line. JSON escapes by itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from vlmhyperbench.domain.visible import visible
from vlmhyperbench.errors import VlmHyperBenchError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from vlmhyperbench.cli.shown import Shown

SCHEMA = "vlmhb/v1"


def emit(
    kind: str,
    data: BaseModel | Sequence[BaseModel] | object,
    *,
    next_cursor: str | None = None,
    warnings: Sequence[str] = (),
) -> None:
    """Print the envelope that every command prints with `--json`, on one line."""
    envelope = {"schema": SCHEMA, "kind": kind, "data": _plain(data), "next": next_cursor, "warnings": list(warnings)}
    text = json.dumps(envelope, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:  # a terminal of another encoding, or half a surrogate pair
        text = json.dumps(envelope, allow_nan=False)
    print(text, flush=True)


def say(text: str = "") -> None:
    """Print a line of the answer."""
    print(visible(text), flush=True)


def note(text: str, shown: Shown | None = None) -> None:
    """Print a line of progress on stderr."""
    if shown is None or not shown.quiet:
        print(visible(text), file=sys.stderr, flush=True)


def complain(error: VlmHyperBenchError, *, as_json: bool) -> None:
    """Say what is wrong, where, and the cure; each of several errors on its own line."""
    parts = [_part(part) for part in getattr(error, "errors", ())]
    if as_json:
        data = {"code": error.code, "message": error.message, "cure": error.cure, "errors": parts}
        emit("error", data)
    headline = error.message if not parts else f"{len(parts)} thing{'s are' if len(parts) > 1 else ' is'} wrong:"
    note(f"error: {headline}")
    for part in parts:
        where = ":".join(str(part[name]) for name in ("file", "line") if part[name])
        field = f" {part['field']}:" if part["field"] else ""
        cure = f" {part['cure']}" if part["cure"] else ""
        note(f"  {where + ':' if where else '-'}{field} {part['message']}{cure}")
    if error.cure and error.cure not in [part["cure"] for part in parts]:
        note(f"  {error.cure}")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print rows under their columns: a table on a terminal, tab-separated elsewhere."""
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
        drawn.add_row(*(Text(_cell(value)) for value in row))  # what looks like rich's markup is the text's own
    Console().print(drawn)


def _cell(value: object) -> str:
    """Write a cell on one line: lines and tabs of an answer would be rows and columns."""
    return "–" if value is None else visible(" ".join(str(value).split()), keep="")


def _part(part: object) -> dict[str, Any]:
    fields = ("message", "field", "file", "line", "cure")
    found = {name: getattr(part, name, None) for name in fields}
    return {**found, "message": found["message"] or str(part), "file": str(found["file"]) if found["file"] else None}


def _plain(data: object) -> object:
    if hasattr(data, "model_dump"):
        return data.model_dump(mode="json")
    if is_dataclass(data) and not isinstance(data, type):
        return asdict(data)
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]
    return data
