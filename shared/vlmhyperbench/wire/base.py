"""Base classes of all bodies: frozen, strict on input, tolerant of unknown fields on output."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from vlmhyperbench.domain.base import Refused, StrictNumbers
from vlmhyperbench.domain.visible import HIDDEN

Item = TypeVar("Item")


def _shown(text: str) -> str:
    if HIDDEN.search(text):
        message = (
            "it holds a character that is not shown (a control, half a surrogate pair, or one that turns the line)"
        )
        raise Refused(message, cure="Remove it.")
    return text


Label = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_shown)]
"""A name chosen by a user; characters that lists or terminals do not show are refused."""


class Input(StrictNumbers):
    """A request body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Output(BaseModel):
    """A response body: clients ignore unknown fields, so that fields can be added."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Page(Output, Generic[Item]):
    """A page of keyset pagination; `next` is the cursor of the next page, or None on the last page."""

    items: list[Item]
    next: str | None = None
