"""The answer with which an example of a prompt is shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from vlmhyperbench.domain.specs import FewShotSpec


def answer_of(few_shot: FewShotSpec, references: Sequence[str], metadata: Mapping[str, JsonValue]) -> str:
    """Return an example's first reference, or the metadata that `few_shot` names; empty if it has no such answer."""
    if few_shot.answer_field is None:
        return next((text for text in references if text.strip()), "")
    value = metadata.get(few_shot.answer_field)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    return str(value) if str(value).strip() else ""
