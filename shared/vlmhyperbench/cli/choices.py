"""Turn flags into the fields of a run, validated before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from pydantic import BaseModel, JsonValue

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.validation import validate
from vlmhyperbench_sdk.jsontext import parse_json, parse_object

Model = TypeVar("Model", bound=BaseModel)


def check(model: type[Model], given: Mapping[str, JsonValue]) -> Model:
    """Validate the given values, in which None stands for a flag that is not given.

    Raises:
        RegistryErrors: values are not valid; lists every error with its field.
    """
    choices, problems = validate(model, {key: value for key, value in given.items() if value is not None})
    if choices is None:
        raise RegistryErrors.of(problems)
    return choices


def read_param(text: str) -> tuple[str, JsonValue]:
    """Parse NAME=VALUE; a value that is not JSON is text.

    Raises:
        InvalidInput: there is no `=`, or no name before it.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"{text!r} is not a parameter.", cure="Write NAME=VALUE.", code="usage")
    try:
        return name, cast("JsonValue", parse_json(value))
    except InvalidInput:
        return name, value  # plain text needs no quotes


def read_extractor(text: str) -> JsonValue:
    """Parse an extractor: its name, or JSON with its name and params.

    Raises:
        InvalidInput: the text begins with `{` and is not a JSON object.
    """
    if not text.lstrip().startswith("{"):
        return text
    try:
        return cast("JsonValue", parse_object(text, what="--extractor"))
    except InvalidInput as error:
        raise InvalidInput(error.message, cure='Write a name, or {"name": …, "params": {…}}.', code="usage") from error
