"""What every pinned model is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

SHA256: Final = r"^[0-9a-f]{64}$"
Sha256 = Annotated[str, Field(pattern=SHA256)]
Name = Annotated[str, Field(min_length=1, max_length=200)]

_NUMBERS = ("int", "float", "bool")


def _parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Walk a core schema: dicts inside of dicts, lists and tuples."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, (list, tuple)):
            waiting += part


class Refused(ValueError):
    """What a model's own check refuses, with its cure: validators raise it, so that no refusal lacks one."""

    def __init__(self, message: str, *, cure: str) -> None:
        super().__init__(message)
        self.cure = cure


class StrictNumbers(BaseModel):
    """Base of models in which true is not 1, and "10" not 10: numbers and booleans are what they were written as.

    Pydantic's own strict mode would also refuse lists for tuples and text for ids, which is all that JSON has.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        schema = handler(source)
        for part in _parts_of(schema):
            if part.get("type") in _NUMBERS:
                part["strict"] = True
        return schema


class Spec(StrictNumbers):
    """Base of every pinned model: immutable, and unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
