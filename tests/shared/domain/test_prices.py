"""Prices are per token or per hour, and name their source."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.wording import Wording
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.prices import Prices

DAY = datetime.date(2026, 11, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"prompt_per_million": 1.0},
        {"completion_per_million": 1.0},
        {"per_hour": 2.0, "prompt_per_million": 1.0, "completion_per_million": 1.0},
        {"per_hour": 2.0, "per_image": 0.1},
        {"per_hour": -1.0},
        {"per_hour": float("nan")},
        {"per_hour": float("inf")},
    ],
)
def test_prices_need_exactly_one_of_tokens_and_hours(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Prices(**fields)


def test_a_price_may_be_zero() -> None:
    assert Prices(per_hour=0.0).per_hour == 0.0


def test_prices_per_hour_are_described_in_words(wording: Wording) -> None:
    prices = Prices(per_hour=2.5, currency="EUR", source="the rent", date=DAY)
    wording(prices.in_words)
    assert prices.origin == "the rent, 2026-11-01"


def test_prices_per_token_are_described_in_words(wording: Wording) -> None:
    plain = Prices(prompt_per_million=2.5, completion_per_million=10.0)
    wording(plain.in_words)
    wording(plain.origin)
    whole = Prices(
        prompt_per_million=2.5,
        completion_per_million=10.0,
        cached_prompt_per_million=0.25,
        per_image=0.002,
        max_prompt_tokens=200_000,
    )
    wording(whole.in_words)


def test_a_date_survives_storage() -> None:
    prices = Prices(per_hour=1.0, date=DAY)
    assert Prices.model_validate(prices.model_dump(mode="json")) == prices
    assert len(digest_of(prices)) == 64


@pytest.mark.parametrize("value", [0, 1.5, True, "", "1st of May", "2026-13-01"])
def test_a_value_that_is_not_a_date_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        Prices.model_validate({"per_hour": 1.0, "date": value})
