"""Entries that the API reads for its clients: the schema of a kind, and the YAML that a person has written."""

from __future__ import annotations

import functools

from vlmhyperbench.registry.documents import parse_document
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.schemas import json_schema, model_of
from vlmhyperbench.registry.validation import validate
from vlmhyperbench.wire.registry import ParsedEntry

_SHOWN = "YAML"
"""What errors call the text, which has no file."""

schema_of = functools.cache(json_schema)
"""The JSON Schema of a kind; it is the same as long as the process runs."""


def parsed(kind: str, yaml: str) -> ParsedEntry:
    """Read the YAML of an entry; call it in a thread.

    Raises:
        NotFound: there is no such kind.
        RegistryErrors: it is not the YAML of such an entry; lists every error with its line.
    """
    model = model_of(kind)
    document, errors = parse_document(yaml, _SHOWN)
    if document is None:
        raise RegistryErrors(errors)
    entry, problems = validate(model, document.value)
    if entry is None:
        raise RegistryErrors.of(problems, document.location_of)
    return ParsedEntry(kind=kind, entry=document.value)
