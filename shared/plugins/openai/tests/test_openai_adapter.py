"""The adapter of OpenAI-compatible URLs: URL, key, parameters."""

from __future__ import annotations

import pytest

from tests.support.wording import Wording
from vlmhyperbench_openai.adapter import OpenAICompatible
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import RemoteEngine
from vlmhyperbench_sdk.testing.backends import check_translation
from vlmhyperbench_sdk.types import JsonValue


def _plan(env: dict[str, str] | None = None, **params: JsonValue) -> RemoteEngine:
    load = LoadRequest(model="m", backend_class="openai", engine_params=params, env=env or {})
    planned = OpenAICompatible().plan_engine(load, port=1, python="python")
    assert isinstance(planned, RemoteEngine)
    return planned


@pytest.mark.parametrize(
    "url", ["https://api.example.com", "https://api.example.com/v1", "https://api.example.com/v1/"]
)
def test_the_url_is_named_without_its_version(url: str) -> None:
    assert _plan(url=url).url == "https://api.example.com"


def test_the_key_comes_from_the_named_secret() -> None:
    planned = _plan({"A": "first", "B": "second"}, url="https://h.example", api_key_secret="B")
    assert planned.headers == {"Authorization": "Bearer second"}


def test_a_single_secret_is_the_key_and_none_is_no_key() -> None:
    assert _plan({"A": "only"}, url="https://h.example").headers == {"Authorization": "Bearer only"}
    assert _plan(url="https://h.example").headers == {}


def test_what_is_missing_or_wrong_is_said(wording: Wording) -> None:
    with pytest.raises(InvalidInput, match="needs a url"):
        _plan()
    with pytest.raises(InvalidInput) as refused:
        _plan(url="https://u:p@h.example")
    wording(refused.value)
    with pytest.raises(InvalidInput, match="no parameter 'uri'"):
        _plan(uri="https://h.example")
    with pytest.raises(InvalidInput) as refused:
        _plan({"B": "2", "A": "1"}, url="https://h.example")
    wording(refused.value)
    with pytest.raises(NotFound) as refused:
        _plan({"A": "1"}, url="https://h.example", api_key_secret="C")
    wording(refused.value)


def test_headers_of_its_own_go_with_every_request_and_secret_ones_are_no_key(wording: Wording) -> None:
    headers: JsonValue = {"X-Tenant": {"secret": "T"}, "X-Title": "bench"}
    planned = _plan({"T": "blue", "K": "sk"}, url="https://h.example", headers=headers)
    assert planned.headers == {"X-Title": "bench", "X-Tenant": "blue", "Authorization": "Bearer sk"}
    assert "Authorization" not in _plan({"T": "blue"}, url="https://h.example", headers=headers).headers
    with pytest.raises(NotFound) as refused:
        _plan({"K": "sk"}, url="https://h.example", headers=headers)
    wording(refused.value)
    with pytest.raises(InvalidInput, match="Authorization"):
        _plan(
            {"K": "sk", "T": "blue"}, url="https://h.example", api_key_secret="K",
            headers={"authorization": {"secret": "T"}},
        )  # fmt: skip


def test_translation_is_pure_and_total_and_it_needs_no_memory() -> None:
    check_translation(OpenAICompatible())
    estimate = OpenAICompatible().estimate_memory(LoadRequest(model="m", backend_class="openai"))
    assert estimate is not None
    assert estimate.device_bytes == estimate.host_bytes == 0
