"""Response body of an evaluation identity: everything that determines a quality number."""

from __future__ import annotations

from uuid import UUID

from pydantic import JsonValue

from vlmhyperbench.wire.base import Output


class Evaluation(Output):
    """An evaluation identity: everything that determines a quality number, under a short id."""

    id: str
    components: dict[str, JsonValue]
    """`weights, engine, prompt, dataset, decoding, extractor, metric, judge`."""
    run_id: UUID
    """The newest run that has a score with this identity."""
