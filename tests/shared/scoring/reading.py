"""Builders: one answer, read by one extractor."""

from __future__ import annotations

from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.scoring.extraction import extract


def read(name: str, answer: str, **params: object) -> str | None:
    """Read one answer; the reason in angle brackets where there is nothing."""
    spec = ExtractorSpec(name=name, params=params)  # type: ignore[arg-type]
    extracted = extract([answer], extractor=spec)
    return extracted.texts[0] if extracted.reasons[0] is None else f"<{extracted.reasons[0]}>"
