"""Read the parsed answers out of a model's texts, by extractors with a name, a version and params.

A measure is keyed by its extractor: another way to read the same text is another extractor or another version.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from vlmhyperbench.domain.specs import ExtractorSpec
from vlmhyperbench.scoring.answers import Unreadable
from vlmhyperbench.scoring.extractors import EXTRACTORS, Extractor
from vlmhyperbench_sdk.errors import InvalidInput, NotFound

TEXT: Final = ExtractorSpec()
"""The extractor that changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """What was read out of a batch of answers, by column, as valid Unicode. Each of shape (answers,)."""

    texts: Sequence[str | None]
    """None where the extractor found nothing."""
    reasons: Sequence[str | None]
    """Why."""


def open_extractor(spec: ExtractorSpec) -> Extractor:
    """Make the extractor that a spec names.

    Raises:
        NotFound: there is no such extractor, or not in this version.
        InvalidInput: it refuses its params.
    """
    found = EXTRACTORS.get(spec.name)
    if found is None:
        near = difflib.get_close_matches(spec.name, EXTRACTORS, n=1) or sorted(EXTRACTORS)
        raise NotFound(f"There is no extractor {spec.name!r}.", cure=f"Write one of: {', '.join(near)}.")
    if spec.version != found.version:
        raise NotFound(
            f"The extractor {spec.name!r} has no version {spec.version}.", cure=f"Write {spec.name}:{found.version}."
        )
    try:
        return found.model_validate(spec.params)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "params"
        said = getattr(first.get("ctx", {}).get("error"), "cure", "")
        known = ", ".join(found.model_fields) or "none"
        raise InvalidInput(
            f"The extractor {spec.name!r} refuses its params: {field}: {first['msg']}.",
            cure=said or f"Correct it; {spec.name} has these params: {known}.",
        ) from error


def extract(texts: Sequence[str], *, extractor: ExtractorSpec = TEXT) -> Extracted:
    """Read the parsed answers. Shape of `texts`: (answers,).

    Half a surrogate pair, which JSON can write and UTF-8 cannot, is read as U+FFFD.

    Raises:
        NotFound, InvalidInput: as `open_extractor`.
    """
    opened = open_extractor(extractor)
    if extractor == TEXT:
        return Extracted(texts=list(map(_valid, texts)), reasons=[None] * len(texts))
    read = [_read(opened, text) for text in texts]
    return Extracted(texts=[text for text, _ in read], reasons=[reason for _, reason in read])


def _read(extractor: Extractor, answer: str) -> tuple[str | None, str | None]:
    try:
        return _valid(extractor.read(answer)), None
    except Unreadable as error:
        return None, _valid(str(error))


def _valid(text: str) -> str:
    """Replace what cannot be stored: everything behind extraction may rely on valid Unicode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
