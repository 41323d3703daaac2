"""What every body has in common: frozen, strict where it comes in, tolerant where an older client reads it."""

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
"""A name that a person gives; what would hide in a list or a terminal is refused."""


class Input(StrictNumbers):
    """A body that a caller sends: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Output(BaseModel):
    """A body that the API answers: a client ignores fields that it does not know yet."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Page(Output, Generic[Item]):
    """A keyset page; `next` is the cursor of the page after it, or None on the last."""

    items: list[Item]
    next: str | None = None
