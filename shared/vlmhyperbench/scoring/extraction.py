"""Parse the answers in a model's texts, by extractors with a name, a version and params.

A measure is keyed by its extractor: another way to parse the same text is another extractor or another version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.domain.valid_text import valid_unicode
from vlmhyperbench.errors import pydantic_message
from vlmhyperbench.scoring.answers import Unreadable
from vlmhyperbench.scoring.extractors import EXTRACTORS, Extractor
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.suggestions import did_you_mean

TEXT: Final = ExtractorSpec()
"""The extractor that changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """The parsed answers of a batch, by column, as valid Unicode. Each of shape (answers,)."""

    texts: Sequence[str | None]
    """None if the extractor could not parse the answer."""
    reasons: Sequence[str | None]
    """Reason why a text is None."""


def open_extractor(spec: ExtractorSpec) -> Extractor:
    """Construct the extractor that a spec names.

    Raises:
        NotFound: there is no such extractor, or not in this version.
        InvalidInput: it refuses its params.
    """
    extractor = EXTRACTORS.get(spec.name)
    if extractor is None:
        raise NotFound(f"There is no extractor {spec.name!r}.", cure=did_you_mean(spec.name, EXTRACTORS))
    if spec.version != extractor.version:
        raise NotFound(
            f"The extractor {spec.name!r} has no version {spec.version}.",
            cure=f"Write {spec.name}:{extractor.version}.",
        )
    try:
        return extractor.model_validate(spec.params)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "params"
        cure = getattr(first.get("ctx", {}).get("error"), "cure", "")
        known = ", ".join(extractor.model_fields) or "none"
        raise InvalidInput(
            f"The extractor {spec.name!r} refuses its params: {field}: {pydantic_message(first)}.",
            cure=cure or f"Correct it; {spec.name} has these params: {known}.",
        ) from error


def extract(texts: Sequence[str], *, extractor: ExtractorSpec = TEXT) -> Extracted:
    """Parse answers. Shape of `texts`: (answers,).

    A lone surrogate, which JSON can contain and UTF-8 cannot, is read as U+FFFD.

    Raises:
        NotFound, InvalidInput: as `open_extractor`.
    """
    opened = open_extractor(extractor)
    if extractor == TEXT:
        return Extracted(texts=list(map(valid_unicode, texts)), reasons=[None] * len(texts))
    read = [_read(opened, text) for text in texts]
    return Extracted(texts=[text for text, _ in read], reasons=[reason for _, reason in read])


def _read(extractor: Extractor, answer: str) -> tuple[str | None, str | None]:
    try:
        return valid_unicode(extractor.read(answer)), None
    except Unreadable as error:
        return None, valid_unicode(str(error))
