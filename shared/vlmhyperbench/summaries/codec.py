"""Write a summary as JSON and read it again, strictly: the value that is read equals the value that was written.

Version rule: `SCHEMA` names the form of a summary and the meaning of its numbers. A change of either needs the next
version number. A summary of another version is not read; it is computed anew from the facts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from vlmhyperbench.decoding import decode
from vlmhyperbench.summaries.summary import RunSummary
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import JsonObject

NAME = "summary.json"
SCHEMA = "vlmhb/summary/v1"


def to_json(summary: RunSummary) -> bytes:
    """Return a summary as UTF-8 JSON with sorted keys; NaN and infinities cannot occur."""
    text = json.dumps(to_object(summary), ensure_ascii=False, sort_keys=True, allow_nan=False, indent=1)
    return (text + "\n").encode()


def from_json(content: bytes) -> RunSummary:
    """Read a summary that `to_json` wrote.

    Raises:
        InvalidInput: it is no summary, or of another version; the message names the location.
    """
    return from_object(parse_object(content, what="The summary", any_text=True))


def to_object(summary: RunSummary) -> dict[str, Any]:
    """Return a summary as a JSON object."""
    return {"schema": SCHEMA, **_plain(summary)}


def from_object(stored: JsonObject) -> RunSummary:
    """Read a summary that `to_object` returned.

    Raises:
        InvalidInput: it is no summary, or of another version; the message names the location.
    """
    if stored.get("schema") != SCHEMA:
        raise InvalidInput(
            f"The summary's schema is {str(stored.get('schema'))[:100]!r}; this version reads {SCHEMA!r}.",
            cure="Write the report of the run again.",
        )
    return decode(RunSummary, {name: item for name, item in stored.items() if name != "schema"}, "summary")


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
