"""Turn flags into the choices of a run, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from pydantic import BaseModel, JsonValue

from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.errors import RegistryError, RegistryErrors, field_of
from vlmhyperbench.registry.validation import validate
from vlmhyperbench_sdk.jsontext import parse_json, parse_object

Model = TypeVar("Model", bound=BaseModel)


def check(model: type[Model], given: Mapping[str, JsonValue]) -> Model:
    """Make the body of what was given; None is what was not.

    Raises:
        RegistryErrors: a value is none; every error, with its field.
    """
    choices, problems = validate(model, {key: value for key, value in given.items() if value is not None})
    if choices is None:
        raise RegistryErrors(
            [
                RegistryError(field=field_of(problem.path), message=problem.message, cure=problem.cure)
                for problem in problems
            ]
        )
    return choices


def read_param(text: str) -> tuple[str, JsonValue]:
    """Read NAME=VALUE; the value is JSON, or else text.

    Raises:
        InvalidInput: there is no `=`, or no name before it.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"{text!r} is no parameter.", cure="Write NAME=VALUE.", code="usage")
    try:
        return name, cast("JsonValue", parse_json(value))
    except InvalidInput:
        return name, value  # plain text needs no quotes


def read_extractor(text: str) -> JsonValue:
    """Read an extractor: its name, or JSON with its params.

    Raises:
        InvalidInput: it begins like JSON and is none.
    """
    if not text.lstrip().startswith("{"):
        return text
    try:
        return cast("JsonValue", parse_object(text, what="The extractor"))
    except InvalidInput as error:
        raise InvalidInput(error.message, cure='Write {"name": …, "params": {…}}.', code="usage") from error
