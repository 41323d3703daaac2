"""What decides a quality number, behind its short id."""

from __future__ import annotations

from uuid import UUID

from pydantic import JsonValue

from vlmhyperbench.wire.base import Output


class Evaluation(Output):
    """An evaluation identity."""

    id: str
    components: dict[str, JsonValue]
    """`weights, engine, prompt, dataset, decoding, extractor, metric, judge`."""
    run_id: UUID
    """The newest run that has a number with it."""
