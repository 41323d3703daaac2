"""What a target's answers cost: by the token, or by the hour of the machine that gives them. Pure."""

from __future__ import annotations

import datetime
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from vlmhyperbench.domain.base import Name, Refused, Spec


def _day(value: object) -> datetime.date:
    """Read a day as it is written; a number is none."""
    if type(value) is datetime.date:
        return value
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError:
        raise Refused("it is no day", cure="Write a day such as 2026-01-31.") from None


Day = Annotated[datetime.date, BeforeValidator(_day)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Prices(Spec):
    """The prices of one target, pinned with the run: either those of tokens, or that of an hour."""

    currency: Name = "USD"
    prompt_per_million: Amount | None = None
    completion_per_million: Amount | None = None
    cached_prompt_per_million: Amount | None = None
    """Of prompt tokens that the server says it had in its cache; without it they cost what the others do."""
    per_image: Amount | None = None
    """On top of the tokens, for every image that is sent; most providers count images as tokens."""
    max_prompt_tokens: Annotated[int, Field(ge=1)] | None = None
    """Longer prompts have another price, which nobody gave; None where one price holds for all."""
    per_hour: Amount | None = None
    """Of the machine or the accelerator that the engine runs on."""
    source: Name | None = None
    """Where the prices are from: an address, an invoice, a table and its version."""
    date: Day | None = None
    """The day on which they held."""

    @model_validator(mode="after")
    def _are_of_one_kind(self) -> Self:
        tokens = (self.prompt_per_million, self.completion_per_million)
        extra = (self.cached_prompt_per_million, self.per_image, self.max_prompt_tokens)
        if self.per_hour is not None and any(value is not None for value in (*tokens, *extra)):
            raise Refused("prices are either by the token or by the hour", cure="Leave out one of the two.")
        if self.per_hour is None and None in tokens:
            raise Refused(
                "prices by the token need both prompt_per_million and completion_per_million",
                cure="Add what is missing, or write per_hour alone.",
            )
        return self

    @property
    def origin(self) -> str:
        """Where and of when they are, as reports say it."""
        known = [part for part in (self.source, self.date.isoformat() if self.date else None) if part]
        return ", ".join(known) or "no source recorded"

    @property
    def in_words(self) -> str:
        """The prices as provenance shows them: `2.5 / 10 USD per million prompt / completion tokens`."""
        if self.per_hour is not None:
            return f"{self.per_hour:g} {self.currency} per hour"
        words = (
            f"{self.prompt_per_million:g} / {self.completion_per_million:g} {self.currency} per million "
            "prompt / completion tokens"
        )
        if self.cached_prompt_per_million is not None:
            words += f", {self.cached_prompt_per_million:g} of cached prompt tokens"
        if self.per_image is not None:
            words += f", {self.per_image:g} per image"
        if self.max_prompt_tokens is not None:
            words += f", for prompts of at most {self.max_prompt_tokens:,} tokens"
        return words
