"""Read entities, labelled spans of words, from tags or from a JSON list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Union

from vlmhyperbench_document_metrics.documents import JsonAnswers, NotJson
from vlmhyperbench_sdk.types import JsonValue

Entity = tuple[str, Union[int, float], Union[int, float]]
"""Label in lower case, and the numbers of its first and its last word, from 1."""

OUTSIDE = frozenset({"o", "other"})
"""Labels of words that belong to no entity."""
_TAG = re.compile(r"O|[BI]-\S+")


def entities_of_tags(tags: Sequence[str]) -> set[Entity]:
    """Return the entities of a tag for each word: O, B-LABEL or I-LABEL.

    An entity begins at a B, and at an I after an O or after another label, as seqeval reads them without a scheme.
    """
    return set(_spans(tags))


def _spans(tags: Sequence[str]) -> Iterator[Entity]:
    label, first = "", 0
    for number, tag in enumerate([*tags, "O"], 1):
        prefix, _, own = tag.partition("-")
        own = own.lower()
        if label and (prefix != "I" or own != label):
            yield label, first, number - 1
            label = ""
        if own and not label and own not in OUTSIDE:
            label, first = own, number


def read_tags(text: str) -> list[str] | None:
    """Return the tags of a text in which white space separates them; None for any other text."""
    tags = text.split()
    return tags if tags and all(map(_TAG.fullmatch, tags)) else None


def read_entities(text: str, reading: JsonAnswers) -> set[Entity] | None:
    """Return the entities of an answer: tags, a JSON list of tags, or one of objects; None for any other text.

    An object has `label`, `first` and `last`. An item of another form is an entity that none of a page equals.
    """
    tags = read_tags(text)
    if tags is not None:
        return entities_of_tags(tags)
    try:
        value = reading.read(text, [])
    except NotJson:
        return None
    if not isinstance(value, list):
        return None
    texts = [item for item in value if isinstance(item, str)]
    if value and len(texts) == len(value):
        return entities_of_tags(texts) if all(map(_TAG.fullmatch, texts)) else None
    return {entity for number, item in enumerate(value) if (entity := _entity(item, number)) is not None}


def _entity(item: JsonValue, number: int) -> Entity | None:
    if isinstance(item, dict):
        label, first, last = item.get("label"), item.get("first"), item.get("last", item.get("first"))
        if isinstance(label, str) and isinstance(first, (int, float)) and isinstance(last, (int, float)):
            return None if label.strip().lower() in OUTSIDE else (label.strip().lower(), first, last)
    return "", -number, -number
