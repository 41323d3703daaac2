"""Costs of answers, compared with numbers computed by hand; an unknown cost is never 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vlmhyperbench.analysis.costs import Usage, cost_of, why_costs_differ_in_kind
from vlmhyperbench.domain.prices import Prices

USAGE = Usage(
    answers=200,
    prompt_tokens=400_000,
    completion_tokens=50_000,
    cached_tokens=100_000,
    images=300,
    longest_prompt_tokens=2_500,
    window_s=90.0,
)
TOKENS = Prices(prompt_per_million=2.5, completion_per_million=10.0)


def test_the_cost_of_tokens_is_their_number_times_their_price() -> None:
    cost = cost_of(TOKENS, USAGE)
    # 0.4 M x 2.5 + 0.05 M x 10 = 1.0 + 0.5
    assert cost.total == pytest.approx(1.5)
    assert cost.per_answer == pytest.approx(0.0075)
    assert cost.per_million_tokens == pytest.approx(1.5 / 0.45)
    assert cost.per_million_completion_tokens == pytest.approx(30.0)
    assert (cost.currency, cost.basis, cost.hours, cost.unknown) == ("USD", "tokens", None, None)


def test_cached_prompt_tokens_have_their_own_price_where_there_is_one() -> None:
    prices = TOKENS.model_copy(update={"cached_prompt_per_million": 0.25})
    # 0.3 M x 2.5 + 0.1 M x 0.25 + 0.05 M x 10 = 0.75 + 0.025 + 0.5
    assert cost_of(prices, USAGE).total == pytest.approx(1.275)


def test_images_cost_extra_where_they_have_a_price() -> None:
    prices = TOKENS.model_copy(update={"per_image": 0.001})
    assert cost_of(prices, USAGE).total == pytest.approx(1.8)
    assert "images" in (cost_of(prices, replace(USAGE, images=None)).unknown or "")


def test_a_price_per_hour_applies_to_the_measured_time() -> None:
    cost = cost_of(Prices(per_hour=4.0, currency="EUR"), USAGE)
    # 90 s are 0.025 h; 0.025 x 4 = 0.1
    assert cost.total == pytest.approx(0.1)
    assert cost.per_answer == pytest.approx(0.0005)
    assert cost.per_million_completion_tokens == pytest.approx(2.0)
    assert (cost.currency, cost.basis, cost.hours) == ("EUR", "hours", 0.025)


def test_a_cost_by_the_hour_needs_no_token_counts() -> None:
    cost = cost_of(Prices(per_hour=4.0), replace(USAGE, prompt_tokens=None, completion_tokens=None))
    assert cost.total == pytest.approx(0.1)
    assert (cost.per_million_tokens, cost.per_million_completion_tokens) == (None, None)


def test_a_price_of_0_costs_0() -> None:
    assert cost_of(Prices(per_hour=0.0), USAGE).total == 0.0


@pytest.mark.parametrize(
    ("prices", "usage"),
    [
        (TOKENS, replace(USAGE, prompt_tokens=None)),
        (TOKENS, replace(USAGE, completion_tokens=None)),
        (TOKENS, Usage(answers=0)),
        (TOKENS.model_copy(update={"max_prompt_tokens": 2_499}), USAGE),
        (Prices(per_hour=4.0), replace(USAGE, window_s=None)),
        (None, USAGE),
    ],
)
def test_an_unknown_cost_has_no_number_and_a_reason(prices: Prices | None, usage: Usage) -> None:
    cost = cost_of(prices, usage)
    assert (cost.total, cost.per_answer, cost.per_million_tokens, cost.hours) == (None, None, None, None)
    assert cost.unknown


def test_prompts_up_to_the_longest_priced_length_have_the_price() -> None:
    assert cost_of(TOKENS.model_copy(update={"max_prompt_tokens": 2_500}), USAGE).total == pytest.approx(1.5)


def test_the_reason_why_there_are_no_prices_is_passed_on() -> None:
    assert cost_of(None, USAGE, unpriced="unlisted").unknown == "unlisted"


def test_only_known_costs_of_one_currency_are_compared() -> None:
    euros, dollars = ({"cost_total": 1.0, "cost_currency": currency} for currency in ("EUR", "USD"))
    unknown = {"cost_total": None, "cost_currency": "EUR", "cost_unknown": "unlisted"}
    assert why_costs_differ_in_kind(euros, {**euros, "cost_total": 2.0}) is None
    assert "USD" in (why_costs_differ_in_kind(euros, dollars) or "")
    for pair in ((euros, unknown), (unknown, euros)):
        assert "unlisted" in (why_costs_differ_in_kind(*pair) or "")
    assert why_costs_differ_in_kind({}, euros), "a file of an earlier version says nothing of cost"


def test_a_cost_as_json_has_every_field() -> None:
    assert cost_of(TOKENS, USAGE).as_json()["basis"] == "tokens"
