"""Documents as lines of text, one for each value, as readers see them compared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Union, cast

from vlmhyperbench_document_metrics.documents import Container, JsonAnswers, NotJson, read_container
from vlmhyperbench_sdk.types import JsonValue

_PLAIN_KEY = re.compile(r"[\w-]+")

Leaf = Callable[[Union[str, float, bool, None]], Union[str, None]]
"""Writes a value as it is compared; None for a value that does not count."""


def compared_documents(texts: Sequence[str], reading: JsonAnswers, leaf: Leaf) -> list[str]:
    """Return an answer and its references as lines `path: value`, the members of objects in the order of their keys.

    A text that is no document is shown as a single value.
    """
    if not texts:
        return []
    answer, *references = texts
    documents = list(map(read_container, references))
    first = next((document for document in documents if document is not None), None)
    shown = [
        _shown(text if document is None else document, leaf)
        for text, document in zip(references, documents, strict=True)
    ]
    return [_shown(answer if first is None else _read(answer, first, reading), leaf), *shown]


def _read(answer: str, reference: Container, reading: JsonAnswers) -> JsonValue:
    try:
        return reading.read(answer, reference)
    except NotJson:
        return answer


def _shown(value: JsonValue, leaf: Leaf) -> str:
    return "\n".join(f"{path}: {text}" if path else text for path, text in _lines(value, leaf, ""))


def _lines(value: JsonValue, leaf: Leaf, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key in sorted(value):
            name = key if _PLAIN_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)
            yield from _lines(value[key], leaf, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, item in enumerate(value, 1):
            yield from _lines(item, leaf, f"{path}[{number}]")
    elif (text := leaf(cast("str", value))) is not None:
        yield path, text
