"""Base classes and field types of all pinned models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

SHA256: Final = r"^[0-9a-f]{64}$"
Sha256 = Annotated[str, Field(pattern=SHA256)]
Name = Annotated[str, Field(min_length=1, max_length=200)]

_NUMBERS = ("int", "float", "bool")


def _parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield all dicts nested in a core schema."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, (list, tuple)):
            waiting += part


class Refused(ValueError):
    """Raised by the validators of models: a refused value, always with its cure."""

    def __init__(self, message: str, *, cure: str) -> None:
        super().__init__(message)
        self.cure = cure


def written_as(form: str, problem: str, *, cure: str) -> AfterValidator:
    """Return a validator of text that must match a form as a whole; it refuses other text with its cure."""
    pattern = re.compile(form, re.ASCII)

    def check(text: str) -> str:
        if pattern.fullmatch(text) is None:
            raise Refused(problem, cure=cure)
        return text

    return AfterValidator(check)


class StrictNumbers(BaseModel):
    """Base of models that do not convert between numbers, booleans and text: true is not 1, and "10" is not 10.

    Pydantic's own strict mode would also refuse lists for tuples and text for ids, although JSON has nothing else.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        schema = handler(source)
        for part in _parts_of(schema):
            if part.get("type") in _NUMBERS:
                part["strict"] = True
        return schema


class Spec(StrictNumbers):
    """Base of all pinned models: immutable, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
