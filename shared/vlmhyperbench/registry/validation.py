"""Validate data as an entry: Pydantic's errors become problems with paths, and unknown keys get a suggestion."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from vlmhyperbench.errors import pydantic_message
from vlmhyperbench.registry.cures import cure_of
from vlmhyperbench.registry.errors import Path, Problem
from vlmhyperbench.registry.values import sentence_of
from vlmhyperbench_sdk.suggestions import did_you_mean

M = TypeVar("M", bound=BaseModel)

_MESSAGES: Final = {
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "it has no keys and values"),
    "too_short": "it has too few items",
    "too_long": "it has too many items",
}
"""Messages for the kinds of errors whose own messages name classes of Python."""


def validate(model: type[M], value: JsonValue) -> tuple[M | None, list[Problem]]:
    """Validate data as a model; return it, or all problems."""
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        return None, problems_of(model, value, error.errors(include_url=False))


def problems_of(model: type[BaseModel], value: JsonValue, errors: Sequence[ErrorDetails]) -> list[Problem]:
    """Convert Pydantic's errors to paths as written by the user (without union tags), with suggestions for keys."""
    return [_problem(model, value, details) for details in errors if not _is_echo(details, errors)]


def _is_echo(details: ErrorDetails, errors: Sequence[ErrorDetails]) -> bool:
    """Drop Pydantic's "too short" error of a list whose items are all invalid."""
    location = details["loc"]
    return details["type"] == "too_short" and any(
        other["loc"][: len(location)] == location and len(other["loc"]) > len(location) for other in errors
    )


def _problem(model: type[BaseModel], value: JsonValue, details: ErrorDetails) -> Problem:
    kind, location = details["type"], details["loc"]
    path = _path(value, location, keep_last=kind in {"missing", "extra_forbidden"})
    if kind == "extra_forbidden":
        known = _known_keys(model, location[:-1])
        return Problem(path=path, message="there is no such key.", cure=did_you_mean(str(location[-1]), known))
    if kind == "missing":
        return Problem(path=path, message="it is missing.", cure=cure_of(details))
    message = _MESSAGES.get(kind) or pydantic_message(details)
    given = details["input"]
    explained = sentence_of(str(details.get("ctx", {}).get("pattern"))) if kind == "string_pattern_mismatch" else None
    if explained is not None:
        return Problem(path=path, message=f"{explained[0]} (it is {str(given)[:80]!r}).", cure=explained[1])
    if not isinstance(given, (dict, list, tuple)):
        message += (
            f" (it is {given[:80]!r})" if isinstance(given, str) else f" (it is {json.dumps(given, default=str)})"
        )
    cure = "Put it in quotes." if kind == "string_type" and isinstance(given, (int, float)) else cure_of(details)
    return Problem(path=path, message=f"{message[:1].lower()}{message[1:]}.", cure=cure)


def _path(value: JsonValue, location: tuple[int | str, ...], *, keep_last: bool) -> Path:
    """Remove the parts of a Pydantic location that are not in the data: the tags of unions."""
    path: list[int | str] = []
    for position, step in enumerate(location):
        inner = _step(value, step)
        if inner is not None:
            value = inner[0]
        elif not (keep_last and position == len(location) - 1):
            continue
        path.append(step)
    return tuple(path)


def _step(value: JsonValue, step: int | str) -> tuple[JsonValue] | None:
    """Follow one step of a path into data, or report that it does not exist."""
    if isinstance(value, dict) and isinstance(step, str) and step in value:
        return (value[step],)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return (value[step],)
    return None


def _known_keys(model: type[BaseModel], location: tuple[int | str, ...]) -> set[str]:
    """Return the keys allowed at a path; list positions, mapping keys and union tags are skipped."""
    candidates = {model}
    for step in location:
        fields = [candidate.model_fields[step] for candidate in candidates if step in candidate.model_fields]
        if fields:
            candidates = {model for field in fields for model in _models_in(field.annotation)}
    return {field.alias or name for candidate in candidates for name, field in candidate.model_fields.items()}


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models_in(part)
