"""Deprecated names of keys, which are accepted with a warning."""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from vlmhyperbench.registry.documents import Document
from vlmhyperbench.registry.errors import Path, RegistryError, SourceLocation

SPELLINGS: Final[dict[str, dict[str, str]]] = {
    "models": {
        "framework": "backends",
        "model_name": "name",
        "class_name": "backend_class",
        "parameters": "engine_params",
    },
    "backends": {"class_name": "default_backend_class", "parameters": "engine_params"},
    "datasets": {"iterator_class": "type", "parameters": "params"},
    "metrics": {"class_name": "class_path", "parameters": "params"},
    "reports": {"class_name": "class_path"},
    "tasks": {"ml_task": "category"},
    "runs": {"ml_task": "task", "generation": "decoding"},
}
"""Kind → deprecated key → current key."""


def modernise(kind: str, document: Document) -> tuple[Document, list[str], list[RegistryError]]:
    """Rename deprecated top-level keys of an entry; return warnings, and errors where both names are present."""
    warnings: list[str] = []
    errors: list[RegistryError] = []
    value: dict[str, JsonValue] = {}
    locations: dict[Path, SourceLocation] = dict(document.locations)
    spellings = SPELLINGS.get(kind, {})
    for key, item in document.value.items():
        new = spellings.get(key)
        if new is None:
            value[key] = item
            continue
        location = document.location_of((key,))
        if new in document.value:
            errors.append(
                RegistryError(
                    file=location.file,
                    line=location.line,
                    field=key,
                    message=f"{new} is written too, and has the same meaning.",
                    cure=f"Remove {key}, the deprecated name of {new}.",
                )
            )
            continue
        if key != "generation":
            warnings.append(f"{location.file}:{location.line}: {key} is the deprecated name of {new}. Write {new}.")
        value[new] = [item] if key == "framework" else item
        for path in [path for path in locations if path[:1] == (key,)]:
            locations[(new, *path[1:])] = locations.pop(path)
    return Document(value, locations), warnings, errors
