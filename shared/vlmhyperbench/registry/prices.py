"""Prices of targets, looked up when a run is submitted: in the registry, or in the list of the package genai-prices."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from pydantic import Discriminator, Field, Tag

from vlmhyperbench.domain.base import Name
from vlmhyperbench.domain.prices import Day, Prices
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.extras import needed_for
from vlmhyperbench.registry.values import Strict

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, PriceCalculation, Tier, TieredPrices

_PRICED = frozenset({"input_mtok", "output_mtok", "cache_read_mtok"})
_NEVER_USED = re.compile("cache_write|audio|web_searches|storage_searches")
"""Listed components that no request of a run uses: cache writes, audio, searches."""


class WrittenPrices(Prices):
    """Prices by the token or by the hour, with their source and date."""

    source: Name
    date: Day


class ListedPrices(Strict):
    """Prices that the package genai-prices lists for a model of a provider."""

    provider: Annotated[str, Field(min_length=1, max_length=100)]
    """As genai-prices calls it: `openai`, `openrouter` …"""
    model: Annotated[str, Field(min_length=1, max_length=200)]
    """As the provider calls it."""


def _prices_tag(value: object) -> str:
    names = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return "listed" if "provider" in names or "model" in names else "written out"


PricesChoice = Annotated[
    Annotated[ListedPrices, Tag("listed")] | Annotated[WrittenPrices, Tag("written out")], Discriminator(_prices_tag)
]


def pinned(choice: WrittenPrices | ListedPrices) -> Prices:
    """Return the prices that an entry names.

    Raises:
        LookupError: the list has none for this provider and model, or none that a run's tokens determine.
        Unavailable: the list is not installed.
    """
    if isinstance(choice, ListedPrices):
        return _listed(choice.model, provider_id=choice.provider)
    return Prices.model_validate(choice.model_dump())


def found_for(url: str, model: str) -> Prices | str:
    """Return the listed prices of a model at a provider's own URL, or the reason why there are none."""
    try:
        return _listed(model, provider_api_url=url)
    except (LookupError, Unavailable) as error:
        why = error.message if isinstance(error, Unavailable) else str(error)
        return f"no prices are written for the endpoint, and none were found: {why.rstrip('.')}"


def _listed(model: str, *, provider_id: str | None = None, provider_api_url: str | None = None) -> Prices:
    with needed_for("Looking prices up", extra="prices"):
        from genai_prices import Usage, calc_price  # an extra, with a table of a megabyte and a half

    name = f"genai-prices {version('genai-prices')}"
    usage = Usage(input_tokens=1, output_tokens=1)
    try:
        calculated = (
            calc_price(usage, model, provider_api_url=provider_api_url)
            if provider_id is None
            else calc_price(usage, model, provider_id=provider_id)
        )
    except LookupError:
        where = provider_id or urlsplit(provider_api_url or "").hostname
        raise LookupError(f"{name} lists no model {model!r} at {where}") from None
    return _as_prices(calculated, name)


def _as_prices(calculated: PriceCalculation, name: str) -> Prices:
    price, where = calculated.model_price, f"{calculated.provider.id} {calculated.model.id}"
    given = (price.input_mtok, price.output_mtok, price.cache_read_mtok)
    if None in given[:2]:
        raise LookupError(f"{name} lists no price by the token for {where}")
    if unpriced := _components_not_priced(price):
        raise LookupError(f"{name} lists prices for {where} that are not supported: {', '.join(unpriced)}")
    if _depends_on_the_hour(calculated.model):
        raise LookupError(f"{name} lists prices for {where} that depend on the time of day")
    prompt, completion, cached = map(_below_every_tier, given)
    return Prices(
        prompt_per_million=prompt,
        completion_per_million=completion,
        cached_prompt_per_million=cached,
        max_prompt_tokens=min((tier.start for value in given for tier in _tiers(value)), default=None),
        source=f"{name}: {where}",
        date=datetime.datetime.now(datetime.UTC).date(),
    )


def _components_not_priced(price: ModelPrice) -> list[str]:
    """Return the priced components of answers other than prompt and completion tokens."""
    listed = {name for name, value in vars(price).items() if value is not None and not name.startswith("_")}
    return sorted(name for name in listed - _PRICED if not _NEVER_USED.search(name))


def _depends_on_the_hour(model: ModelInfo) -> bool:
    """Return whether the price depends on the time of day; the last listed price whose condition is met applies."""
    from genai_prices.types import TimeOfDateConstraint

    now = datetime.datetime.now(datetime.UTC)
    for conditional in reversed(model.prices if isinstance(model.prices, list) else []):
        if isinstance(conditional.constraint, TimeOfDateConstraint):
            return True
        if conditional.constraint is None or conditional.constraint.active(now):
            return False
    return False


def _tiers(price: Decimal | TieredPrices | None) -> list[Tier]:
    """Return the prices of longer prompts, if the price depends on the length."""
    return [] if price is None or isinstance(price, Decimal) else price.tiers


def _below_every_tier(price: Decimal | TieredPrices | None) -> float | None:
    return None if price is None else float(price if isinstance(price, Decimal) else price.base)
