"""Cost of answers, from a target's prices and from measured usage. Pure; an unknown cost is None, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from vlmhyperbench.domain.prices import Prices

_MILLION = 1e6
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the answers of a run used of its target; None where unknown."""

    answers: int
    prompt_tokens: int | None = None
    """Prompt tokens of all answers, including cached tokens; None where an answer has no count."""
    completion_tokens: int | None = None
    cached_tokens: int = 0
    """Prompt tokens that the server reports as read from its cache."""
    images: int | None = None
    longest_prompt_tokens: int | None = None
    window_s: float | None = None
    """Time from the first request scheduled to the last answer's end, summed over all engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of the answers of a run, or of the verdicts of a judge; numbers are None where unknown."""

    currency: str | None = None
    total: float | None = None
    per_answer: float | None = None
    per_million_tokens: float | None = None
    """Cost per million tokens of prompt and completion together."""
    per_million_completion_tokens: float | None = None
    """The whole cost, including prompts, per million completion tokens."""
    basis: Literal["tokens", "hours"] | None = None
    hours: float | None = None
    """Measured time, where the price is by the hour."""
    unknown: str | None = None
    """Why the cost is unknown."""

    def as_json(self) -> dict[str, float | str | None]:
        """Return the cost as a JSON object."""
        return asdict(self)


def why_costs_differ_in_kind(baseline: Mapping[str, object], other: Mapping[str, object]) -> str | None:
    """Return why the costs of two headlines cannot be compared; None where both are known, in one currency."""
    for which, headline in (("the baseline", baseline), ("the other run", other)):
        if headline.get("cost_total") is None:
            return f"The cost of {which} is unknown: {headline.get('cost_unknown') or 'no prices were recorded'}."
    first, second = baseline.get("cost_currency"), other.get("cost_currency")
    return None if first == second else f"One cost is in {first}, the other in {second}."


def cost_of(prices: Prices | None, usage: Usage, *, unpriced: str | None = None) -> Cost:
    """Compute the cost of a usage.

    Args:
        prices: Prices of the target, as pinned with the run.
        usage: Usage of the target.
        unpriced: Why there are no prices.
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
