"""Write a document as JSON, complete, and read it again: what is read is written as it was, in every format.

Every figure stands twice in it: as the block that it is made from, and in `figures` as Plotly JSON, for notebooks and
the dashboard; `headline` has one row per run for machines.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from vlmhyperbench.decoding import decode, tag_of
from vlmhyperbench.reports.document import Document, Section, Tile, Tone
from vlmhyperbench.reports.writers.plots import to_plotly
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import JsonObject, JsonValue

SCHEMA = "vlmhb/report/v1"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def to_json(document: Document) -> bytes:
    """Return the report as UTF-8 JSON with sorted keys; NaN and infinities cannot occur."""
    value: JsonValue = {
        "schema": SCHEMA,
        "scope": document.scope,
        "id": document.id,
        "title": document.title,
        "subtitle": document.subtitle,
        "state": document.state,
        "tone": document.tone,
        "finished_at": document.finished_at or None,
        "verdict": list(document.verdict),
        "headline": {"rows": [dict(row) for row in document.headline]},
        "tiles": [asdict(tile) for tile in document.tiles],
        "runs": {run: dict(data) for run, data in document.data.items()},
        "sections": [
            {
                "name": section.name,
                "title": section.title,
                "lead": section.lead,
                "is_collapsed": section.is_collapsed,
                "blocks": [{"type": tag_of(type(block)), **asdict(block)} for block in section.blocks],
            }
            for section in document.sections
        ],
        "figures": {figure.name: to_plotly(figure) for figure in document.figures},
    }
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False, indent=1)
    return (text + "\n").encode()


def from_json(content: bytes) -> Document:
    """Read a report that `to_json` wrote; every writer makes the same bytes of it as of the original.

    The drawings in `figures` are made again from the blocks.

    Raises:
        InvalidInput: it is no such report; the message names the place.
    """
    found = parse_object(content, what="The report")
    if found.get("schema") != SCHEMA:
        raise InvalidInput(
            f"The report's schema is {str(found.get('schema'))[:100]!r}; this version reads {SCHEMA!r}.",
            cure="Name a report.json, and use the version that wrote it.",
        )
    headline = _object(found.pop("headline", None), "headline")
    runs = _object(found.pop("runs", None), "runs")
    body = decode(_Body, {name: item for name, item in found.items() if name not in {"schema", "figures"}}, "report")
    document = Document(
        scope=body.scope,
        id=body.id,
        title=body.title,
        subtitle=body.subtitle,
        state=body.state,
        tone=body.tone,
        finished_at=body.finished_at or "",
        verdict=body.verdict,
        tiles=body.tiles,
        sections=body.sections,
        headline=_rows(headline.get("rows"), "headline.rows"),
        data={run: _object(data, f"runs.{run[:100]}") for run, data in runs.items()},
    )
    _check(document)
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """What has the same shape in JSON as in a document."""

    scope: Literal["run", "experiment"]
    id: str
    title: str
    subtitle: str
    state: str
    tone: Tone
    finished_at: str | None
    verdict: tuple[str, str, str]
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]


def _object(value: JsonValue, place: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{place} is no object.")
    return value


def _rows(value: JsonValue, place: str) -> tuple[JsonObject, ...]:
    if not isinstance(value, list):
        raise InvalidInput(f"{place} is no list.")
    return tuple(_object(row, f"{place}[{i}]") for i, row in enumerate(value))


def _check(document: Document) -> None:
    """Refuse names that would be two files, or a file elsewhere."""
    if _ID.fullmatch(document.id) is None:
        raise InvalidInput(f"The report's id is {document.id[:100]!r}, which is none.")
    for name, often in Counter(figure.name for figure in document.figures).items():
        if often > 1:
            raise InvalidInput(f"{often} figures have the name {name!r}.")
    for image in document.images:
        if _SHA256.fullmatch(image) is None:
            raise InvalidInput(f"A case shows {image[:100]!r}, which is no SHA-256.")
