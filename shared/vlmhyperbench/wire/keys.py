"""Bodies of API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from vlmhyperbench.domain.api_keys import ALL_SCOPES, SCOPES
from vlmhyperbench.domain.base import Refused
from vlmhyperbench.wire.base import Input, Label, Output
from vlmhyperbench_sdk.suggestions import did_you_mean

MAX_LIFE_S = 5 * 366 * 24 * 3600
DEFAULT_LIFE_S = 90 * 24 * 3600


def _scope(text: str) -> str:
    if text != ALL_SCOPES and text not in SCOPES:
        raise Refused(f"there is no scope {text!r}", cure=did_you_mean(text, SCOPES))
    return text


Scope = Annotated[str, Field(max_length=40), AfterValidator(_scope)]


class KeyCreate(Input):
    """What a new key may do, for whom, and until when."""

    name: Label
    """Who works with it; stands in the records of what it did."""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES) + 1)]
    """`*` stands for all scopes."""
    expires_in_s: Annotated[int, Field(ge=60, le=MAX_LIFE_S)] | None = DEFAULT_LIFE_S
    """None: it does not expire, unless the key that makes it does."""


class ApiKey(Output):
    """An API key, without its secret."""

    prefix: str
    """Its public part, by which it is listed and revoked."""
    name: str
    scopes: list[str]
    state: Literal["valid", "expired", "revoked"]
    is_own: bool
    """Whether the request was made with it, or with a session that it opened."""
    created_at: datetime
    created_by: str | None
    """None for the keys of the stack itself."""
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


class KeyCreated(ApiKey):
    """A new key; the secret is shown only now."""

    key: str
