"""Write a document as JSON and read it again: every writer makes the same bytes of what is read as of the original.

Every figure is in it twice: as the block that it is drawn from, and in `figures` as Plotly JSON, for notebooks and
dashboards.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass

from vlmhyperbench.decoding import decode, tag_of
from vlmhyperbench.reports.document import Document
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
        "finished_at": document.finished_at,
        "verdict": list(document.verdict),
        "headline": {"rows": [dict(row) for row in document.headline]},
        "tiles": [asdict(tile) for tile in document.tiles],
        "runs": {run: dict(summary) for run, summary in document.runs.items()},
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
    """Read a report that `to_json` wrote.

    The drawings in `figures` are made again from the blocks.

    Raises:
        InvalidInput: it is no such report; the message names the location in it.
    """
    report = dict(parse_object(content, what="The report"))
    schema = report.pop("schema", None)
    if schema != SCHEMA:
        stated = "no schema" if schema is None else f"the schema {str(schema)[:100]!r}"
        raise InvalidInput(
            f"The report has {stated}; this version reads {SCHEMA!r}.",
            cure="Name a report.json, and use the version that wrote it.",
        )
    report.pop("figures", None)
    try:
        report["headline"] = decode(_Headline, report.get("headline"), "headline").rows
        document = decode(Document, report, "report")
        _check(document)
    except InvalidInput as error:
        raise InvalidInput(error.message, cure="Name a report.json as the platform wrote it.") from error
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class _Headline:
    """The rows of the headline, which JSON has in an object."""

    rows: tuple[JsonObject, ...]


def _check(document: Document) -> None:
    """Refuse names from which two files of one name, or a file in another folder, would be made."""
    if _ID.fullmatch(document.id) is None:
        raise InvalidInput(
            f"The report's id {document.id[:100]!r} has other characters than letters, digits and hyphens."
        )
    for name, count in Counter(figure.name for figure in document.figures).items():
        if count > 1:
            raise InvalidInput(f"{count} figures have the name {name!r}.")
    for image in document.images:
        if _SHA256.fullmatch(image) is None:
            raise InvalidInput(f"A case shows the image {image[:100]!r}, which is not a SHA-256 hash.")
