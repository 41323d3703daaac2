"""What a target costs, found when a run is pinned: the most particular entry, else the list of a package."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.shared.registry.test_judges import resolve as resolve_judged
from tests.shared.registry.writing import FILES, Shelf, load
from tests.support.wording import Wording
from vlmhyperbench.domain.identity import definition_of, identify
from vlmhyperbench.domain.judging import judging_of
from vlmhyperbench.domain.prices import Prices
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry

FROM = ", source: the contract, date: 2026-11-01}"
MODEL = {"models/m.yaml": FILES["models/m.yaml"] + "prices: {per_hour: 2" + FROM}
BACKEND = {"backends/engine.yaml": "prices: {per_hour: 1" + FROM}
OPENAI = {"backends/openai.yaml": "engine_params: {max_tokens_field: max_completion_tokens}\n"}
LISTED = {"endpoint": "https://api.openai.com/v1", "model_name": "gpt-4o"}
OWN = {"endpoint": "https://llm.example.com/v1", "model_name": "gpt-4o"}


def pin(root: Path, changes: dict[str, str], target: dict[str, object]) -> RunSpec:
    entry = RunEntry.model_validate({"target": target, "task": "t"})
    return resolve_run(load(root, changes), entry, plugins=Shelf())


def problems(root: Path, target: dict[str, object]) -> list[str]:
    with pytest.raises(RegistryErrors) as caught:
        pin(root, {}, target)
    return [str(error) for error in caught.value.errors]


def listed(monkeypatch: pytest.MonkeyPatch, prices: Callable[[Any, Any], object]) -> None:
    """List other prices for gpt-4o; `prices` gets the types of the list, and a price by the token to add to."""
    types = pytest.importorskip("genai_prices.types")
    found = pytest.importorskip("genai_prices").calc_price(
        types.Usage(input_tokens=1, output_tokens=1), "gpt-4o", provider_id="openai"
    )

    def price(**components: Decimal) -> object:
        return types.ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2), **components)

    monkeypatch.setattr(found.model, "prices", prices(types, price))


def test_the_most_particular_prices_are_pinned(tmp_path: Path) -> None:
    own = {"per_hour": 3, "source": "a quote", "date": "2026-11-02"}
    hours = [
        pin(tmp_path, BACKEND, {"model": "m"}).prices,
        pin(tmp_path, BACKEND | MODEL, {"model": "m"}).prices,
        pin(tmp_path, BACKEND | MODEL, {"model": "m", "prices": own}).prices,
    ]
    assert [prices and prices.per_hour for prices in hours] == [1, 2, 3]
    assert hours[2] == Prices(per_hour=3, source="a quote", date=datetime.date(2026, 11, 2))


def test_a_run_without_prices_says_why(tmp_path: Path) -> None:
    spec = pin(tmp_path, {}, {"model": "m"})
    assert spec.prices is None
    assert "m" in (spec.unpriced or "")
    assert "engine" in (spec.unpriced or "")


@pytest.mark.parametrize("missing", ["source", "date"])
def test_prices_that_are_written_need_source_and_date(tmp_path: Path, missing: str) -> None:
    fields: dict[str, object] = {"per_hour": 3, "source": "a quote", "date": "2026-11-02"}
    del fields[missing]
    with pytest.raises(ValueError, match=missing):
        RunEntry.model_validate({"target": {"model": "m", "prices": fields}, "task": "t"})


def test_an_endpoint_takes_the_defaults_of_its_backend(tmp_path: Path) -> None:
    changes = {"backends/openai.yaml": OPENAI["backends/openai.yaml"] + BACKEND["backends/engine.yaml"]}
    own = {"engine_params": {"timeout_s": 3}}
    spec = pin(tmp_path, changes, {**OWN, **own})
    assert spec.target.engine_params == {"max_tokens_field": "max_completion_tokens", "timeout_s": 3}
    assert spec.prices is not None
    assert spec.prices.per_hour == 1


def test_prices_change_neither_the_target_nor_the_identity_of_a_number(tmp_path: Path) -> None:
    free, paid = pin(tmp_path, {}, {"model": "m"}), pin(tmp_path, MODEL, {"model": "m"})
    assert free.target_digest == paid.target_digest

    def identity(spec: RunSpec) -> object:
        parts = {"metric": spec.metrics[0], "extractor": spec.extractors[0], "manifest_id": None, "engines": []}
        return identify(spec, environment="", **parts)

    assert identity(free) == identity(paid)


def test_a_provider_is_found_by_its_address(tmp_path: Path) -> None:
    pytest.importorskip("genai_prices")
    prices = pin(tmp_path, {}, LISTED).prices
    assert prices is not None
    assert prices.prompt_per_million is not None
    assert prices.completion_per_million is not None
    assert prices.prompt_per_million < prices.completion_per_million
    assert prices.date == datetime.datetime.now(datetime.UTC).date()
    assert (prices.source or "").startswith("genai-prices ")
    assert (prices.source or "").endswith(": openai gpt-4o")


def test_a_model_is_looked_up_where_its_address_says_nothing(tmp_path: Path) -> None:
    pytest.importorskip("genai_prices")
    written = {"provider": "openai", "model": "gpt-4o"}
    by_name = pin(tmp_path, {}, {"model": "m", "prices": written}).prices
    assert by_name == pin(tmp_path, {}, LISTED).prices


def test_a_price_that_rises_with_the_length_holds_up_to_its_first_step(tmp_path: Path) -> None:
    pytest.importorskip("genai_prices")
    written = {"provider": "google", "model": "gemini-2.5-pro"}
    prices = pin(tmp_path, {}, {"model": "m", "prices": written}).prices
    assert prices is not None
    assert prices.max_prompt_tokens == 200_000


def test_what_the_list_does_not_know_is_a_problem_where_it_was_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("genai_prices")
    [wrong] = problems(tmp_path, {"model": "m", "prices": {"provider": "openai", "model": "no-such-model"}})
    assert "no-such-model" in wrong
    spec = pin(tmp_path, {}, {**LISTED, "model_name": "no-such-model"})
    assert (spec.prices, "no-such-model" in (spec.unpriced or "")) == (None, True)


@pytest.mark.parametrize(
    ("component", "is_priced"),
    [
        ("requests_kcount", False),
        ("input_image_mtok", False),
        ("output_image_mtok", False),
        ("output_reasoning_mtok", False),
        ("output_citation_mtok", False),
        ("cache_write_mtok", True),
        ("input_audio_mtok", True),
        ("web_searches_kcount", True),
        ("storage_searches_kcount", True),
    ],
)
def test_a_listed_component_that_is_not_priced_makes_the_price_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, component: str, *, is_priced: bool
) -> None:
    listed(monkeypatch, lambda types, price: price(**{component: Decimal(1)}))
    spec = pin(tmp_path, {}, LISTED)
    assert ((spec.prices is not None), component in (spec.unpriced or "")) == (is_priced, not is_priced)
    if not is_priced:
        [wrong] = problems(tmp_path, {"model": "m", "prices": {"provider": "openai", "model": "gpt-4o"}})
        assert component in wrong


def test_a_price_that_depends_on_the_time_of_day_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    def by_the_hour(types: Any, price: Any) -> object:
        noon = types.TimeOfDateConstraint(start_time=datetime.time(0), end_time=datetime.time(12))
        return [types.ConditionalPrice(prices=price()), types.ConditionalPrice(noon, prices=price())]

    def since(day: datetime.date) -> Callable[[Any, Any], object]:
        def prices(types: Any, price: Any) -> object:
            return [
                *by_the_hour(types, price),
                types.ConditionalPrice(types.StartDateConstraint(day), prices=price()),
            ]

        return prices

    for prices, is_known in (
        (by_the_hour, False),
        (since(datetime.date(9999, 1, 1)), False),
        (since(datetime.date(2020, 1, 1)), True),
    ):
        listed(monkeypatch, prices)
        spec = pin(tmp_path, {}, LISTED)
        assert (spec.prices is not None, spec.unpriced is None) == (is_known, is_known)
        if not is_known:
            wording(spec.unpriced, VERSION=version("genai-prices"))


def test_of_prices_by_their_first_day_the_one_of_today_is_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = datetime.date(9999, 1, 1)
    listed(
        monkeypatch,
        lambda types, price: [types.ConditionalPrice(types.StartDateConstraint(later), prices=price())],
    )
    assert pin(tmp_path, {}, LISTED).prices is not None


def test_a_list_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert "not installed" in (pin(tmp_path, {}, LISTED).unpriced or "")
    [wrong] = problems(tmp_path, {"model": "m", "prices": {"provider": "openai", "model": "gpt-4o"}})
    assert "vlmhyperbench[prices]" in wrong


def test_a_judge_costs_what_its_target_costs_unless_its_entry_says_so(tmp_path: Path) -> None:
    target = "  target: {model: simulated, prices: {per_hour: 2" + FROM + "}\n  prompt: judge-same-answer\n"
    own = "  prices: {prompt_per_million: 1, completion_per_million: 2" + FROM + "\n"
    plain, priced = (
        resolve_judged(tmp_path / name, params).metrics[1]
        for name, params in (("plain", target), ("priced", target + own))
    )
    found = [judging_of(metric).prices for metric in (plain, priced)]
    assert [(prices.per_hour, prices.completion_per_million) if prices else None for prices in found] == [
        (2, None),
        (None, 2),
    ]
    assert definition_of(plain) == definition_of(priced)
