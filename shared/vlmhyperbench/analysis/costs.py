"""What answers cost, from a target's prices and from what was measured. Pure; what is unknown is never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from vlmhyperbench.domain.prices import Prices

_MILLION = 1e6
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What was taken of a target, over the answers that it gave to this run; None where nobody knows it."""

    answers: int
    prompt_tokens: int | None = None
    """Of all answers, cached ones included; None where one of them was not counted."""
    completion_tokens: int | None = None
    cached_tokens: int = 0
    """Of the prompt tokens, those that the server says it had in its cache."""
    images: int | None = None
    longest_prompt_tokens: int | None = None
    window_s: float | None = None
    """From the first request scheduled to the last answer's end, added up over all engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the answers of a run, or the verdicts of a judge, cost; numbers are None where that is unknown."""

    currency: str | None = None
    total: float | None = None
    per_answer: float | None = None
    per_million_tokens: float | None = None
    """Of prompt and completion together."""
    per_million_completion_tokens: float | None = None
    """The whole cost, prompts included, over the completion tokens."""
    basis: Literal["tokens", "hours"] | None = None
    hours: float | None = None
    """The measured time that was multiplied, where the price is by the hour."""
    unknown: str | None = None
    """Why there is no number."""

    def as_json(self) -> dict[str, float | str | None]:
        """Return it for machines."""
        return asdict(self)


def why_costs_differ_in_kind(baseline: Mapping[str, object], other: Mapping[str, object]) -> str | None:
    """Say why the costs of two headlines are not compared; None where both are known, in one currency."""
    for which, headline in (("the baseline", baseline), ("the other run", other)):
        if headline.get("cost_total") is None:
            return f"The cost of {which} is unknown: {headline.get('cost_unknown') or 'no prices were recorded'}."
    first, second = baseline.get("cost_currency"), other.get("cost_currency")
    return None if first == second else f"One cost is in {first}, the other in {second}."


def cost_of(prices: Prices | None, usage: Usage, *, unpriced: str | None = None) -> Cost:
    """Work out what was taken cost.

    Args:
        prices: of the target, as pinned.
        usage: what was taken of it.
        unpriced: why there are no prices.
    """
    if prices is None:
        return Cost(unknown=unpriced or "no prices were recorded for the target")
    if not usage.answers:
        return Cost(currency=prices.currency, unknown="no answer was asked for here")
    total = _of_time(prices, usage) if prices.per_hour is not None else _of_tokens(prices, usage)
    if isinstance(total, str):
        return Cost(currency=prices.currency, unknown=total)
    return Cost(
        currency=prices.currency,
        total=total,
        per_answer=total / usage.answers,
        per_million_tokens=_per_million(total, _sum(usage.prompt_tokens, usage.completion_tokens)),
        per_million_completion_tokens=_per_million(total, usage.completion_tokens),
        basis="tokens" if prices.per_hour is None else "hours",
        hours=None if prices.per_hour is None or usage.window_s is None else usage.window_s / _HOUR_S,
    )


def _of_time(prices: Prices, usage: Usage) -> float | str:
    if usage.window_s is None:
        return "its price is by the hour, and no time was measured"
    return (prices.per_hour or 0.0) * usage.window_s / _HOUR_S


def _of_tokens(prices: Prices, usage: Usage) -> float | str:
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return "not every answer came with a count of its tokens"
    if prices.max_prompt_tokens is not None and (usage.longest_prompt_tokens or 0) > prices.max_prompt_tokens:
        return f"a prompt is longer than the {prices.max_prompt_tokens:,} tokens up to which the price holds"
    if prices.per_image and usage.images is None:
        return "images have a price, and how many were sent is not recorded"
    cached = min(usage.cached_tokens, usage.prompt_tokens) if prices.cached_prompt_per_million is not None else 0
    of_tokens = (
        (usage.prompt_tokens - cached) * (prices.prompt_per_million or 0.0)
        + cached * (prices.cached_prompt_per_million or 0.0)
        + usage.completion_tokens * (prices.completion_per_million or 0.0)
    ) / _MILLION
    return of_tokens + (usage.images or 0) * (prices.per_image or 0.0)


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _per_million(total: float, tokens: int | None) -> float | None:
    return total / tokens * _MILLION if tokens else None
