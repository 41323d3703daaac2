"""Write a document as JSON: complete, with every figure as Plotly JSON, and `headline` rows for machines."""

from __future__ import annotations

import json
from dataclasses import asdict

from vlmhyperbench.analysis.figures import FigureSpec
from vlmhyperbench.reports.document import Block, Document
from vlmhyperbench.reports.plots import to_plotly
from vlmhyperbench_sdk.types import JsonValue

SCHEMA = "vlmhb/report/v1"


def to_json(document: Document) -> bytes:
    """Return the report as UTF-8 JSON with sorted keys; NaN and infinities cannot occur."""
    value: JsonValue = {
        "schema": SCHEMA,
        "scope": document.scope,
        "id": document.id,
        "title": document.title,
        "subtitle": document.subtitle,
        "state": document.state,
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
                "blocks": [_block(block) for block in section.blocks],
            }
            for section in document.sections
        ],
        "figures": {figure.name: to_plotly(figure) for figure in document.figures},
    }
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False, indent=1)
    return (text + "\n").encode()


def _block(block: Block) -> JsonValue:
    if isinstance(block, FigureSpec):
        return {
            "type": "figure",
            "name": block.name,
            "title": block.title,
            "alt": block.alt,
            "note": block.note,
            "table": {"columns": list(block.table.columns), "rows": [list(row) for row in block.table.rows]},
        }
    fields: dict[str, JsonValue] = asdict(block)
    return {"type": type(block).__name__.lower(), **fields}
