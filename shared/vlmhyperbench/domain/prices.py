"""Prices of a target, per token or per hour of its machine. Pure."""

from __future__ import annotations

import datetime
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from vlmhyperbench.domain.base import Name, Refused, Spec


def _day(value: object) -> datetime.date:
    """Parse an ISO date; numbers are refused."""
    if type(value) is datetime.date:
        return value
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError:
        raise Refused("it is not a date", cure="Write a date such as 2026-01-31.") from None


Day = Annotated[datetime.date, BeforeValidator(_day)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Prices(Spec):
    """The prices of one target, pinned with the run: either per token or per hour."""

    currency: Name = "USD"
    prompt_per_million: Amount | None = None
    completion_per_million: Amount | None = None
    cached_prompt_per_million: Amount | None = None
    """Price of prompt tokens that the server reports as cached; None: that of all other prompt tokens."""
    per_image: Amount | None = None
    """Price per sent image in addition to its tokens; most providers only count images as tokens."""
    max_prompt_tokens: Annotated[int, Field(ge=1)] | None = None
    """Maximum length of a prompt to which these prices apply; the price of longer ones is unknown. None: no maximum."""
    per_hour: Amount | None = None
    """Price per hour of the machine or the accelerator on which the engine runs."""
    source: Name | None = None
    """Source of the prices: an address, an invoice, or a table and its version."""
    date: Day | None = None
    """The date on which they applied."""

    @model_validator(mode="after")
    def _are_of_one_kind(self) -> Self:
        tokens = (self.prompt_per_million, self.completion_per_million)
        extra = (self.cached_prompt_per_million, self.per_image, self.max_prompt_tokens)
        if self.per_hour is not None and any(value is not None for value in (*tokens, *extra)):
            raise Refused("prices are either per token or per hour", cure="Leave out one of the two.")
        if self.per_hour is None and None in tokens:
            raise Refused(
                "prices per token need both prompt_per_million and completion_per_million",
                cure="Add the missing one, or write only per_hour.",
            )
        return self

    @property
    def origin(self) -> str:
        """Source and date of the prices, as reports show them."""
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
