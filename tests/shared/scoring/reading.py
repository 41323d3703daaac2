"""Builders: one answer, read by one extractor."""

from __future__ import annotations

from collections.abc import Mapping

from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.scoring.extraction import extract
from vlmhyperbench.scoring.extractors import EXTRACTORS


def spec_of(name: str, params: Mapping[str, object]) -> ExtractorSpec:
    """Name an extractor in the version there is."""
    return ExtractorSpec(name=name, version=EXTRACTORS[name].version, params=params)


def read(name: str, answer: str, **params: object) -> str | None:
    """Read one answer; the reason in angle brackets where there is nothing."""
    extracted = extract([answer], extractor=spec_of(name, params))
    return extracted.texts[0] if extracted.reasons[0] is None else f"<{extracted.reasons[0]}>"
