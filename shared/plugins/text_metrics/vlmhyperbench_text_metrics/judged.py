"""Measures of metrics that decide of each answer whether it is right, by a rule that may need the sample's metadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import NO_REFERENCE

Rule = Callable[[str, str, JsonObject], bool]
"""(answer, reference, metadata) → whether the answer is right."""


def measure_right(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    metadata: Sequence[JsonObject] | None,
    is_right: Rule,
) -> Measures:
    """Give 1 to an answer that is right by any of its references, else 0. All three of shape (samples,).

    The additive statistics are `correct` and `count`; a sample without a reference is unscored.
    """
    about = metadata if metadata is not None else [{}] * len(predictions)
    values = [
        float(any(is_right(answer, reference, own) for reference in accepted)) if accepted else None
        for answer, accepted, own in zip(predictions, references, about, strict=True)
    ]
    return Measures(
        values=values,
        reasons=[NO_REFERENCE if value is None else None for value in values],
        statistics={
            "correct": [value or 0.0 for value in values],
            "count": [float(value is not None) for value in values],
        },
    )


def texts_of(metadata: JsonObject, name: str) -> list[str]:
    """Return a list of texts of the metadata; empty where it has none."""
    listed = metadata.get(name)
    if isinstance(listed, str) or not isinstance(listed, Sequence):
        return []
    return [text if isinstance(text, str) else str(text) for text in listed]
