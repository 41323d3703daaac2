"""The rules of the DeepSeek-OCR adapter inside of vLLM itself, with the tiny document reader in place of the model."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.engines.vllm import choice_of, question, text_of, tiny_load, vllm_gateway
from vlmhyperbench_deepseek_ocr.adapter import END
from vlmhyperbench_sdk.testing.gateways import GatewayProcess
from vlmhyperbench_sdk.types import JsonObject, JsonValue

WINDOW = 30
pytestmark = pytest.mark.timeout(900)  # an engine starts in it


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    load = tiny_load("deepseek_ocr")
    with vllm_gateway() as process:
        answer = process.load(load)
        assert answer.status == 200, answer.body[-2000:]
        yield process


def _tokens(gateway: GatewayProcess, **xargs: JsonValue) -> list[str]:
    """Return the tokens of a long answer under a rule against repetition."""
    request = question(max_tokens=100, ignore_eos=True, logprobs=True, vllm_xargs=xargs)
    logprobs = choice_of(gateway, request)["logprobs"]
    assert isinstance(logprobs, dict)
    return [str(token["token"]) for token in logprobs["content"]]


def _repeats(tokens: list[str]) -> int:
    """Count pairs of tokens that began again within the window."""
    pairs = list(pairwise(tokens))
    return sum(pair in pairs[max(0, at - WINDOW + 1) : at] for at, pair in enumerate(pairs))


def test_no_sequence_repeats_within_the_window(gateway: GatewayProcess) -> None:
    free = _tokens(gateway, ngram_size=0)
    ruled = _tokens(gateway, ngram_size=2, window_size=WINDOW)
    assert len(free) == len(ruled) == 100
    assert _repeats(free) > 0
    assert _repeats(ruled) == 0


def test_tokens_on_the_list_may_repeat(gateway: GatewayProcess) -> None:
    every = list(range(267))
    free = _tokens(gateway, ngram_size=0)
    assert _tokens(gateway, ngram_size=2, window_size=WINDOW, whitelist_token_ids=every) == free


def test_the_rule_of_the_model_is_applied_where_a_request_names_none(gateway: GatewayProcess) -> None:
    long: JsonObject = question(max_tokens=400, ignore_eos=True, logprobs=True)
    logprobs = choice_of(gateway, long)["logprobs"]
    assert isinstance(logprobs, dict)
    tokens = [str(token["token"]) for token in logprobs["content"]]
    sequences = [tuple(tokens[at : at + 30]) for at in range(len(tokens) - 29)]
    assert all(sequence not in sequences[max(0, at - 60) : at] for at, sequence in enumerate(sequences))


@pytest.mark.parametrize("xargs", [{"ngram_size": -1}, {"ngram_size": 2, "window_size": "x"}])
def test_a_rule_that_cannot_be_applied_is_refused(gateway: GatewayProcess, xargs: JsonValue) -> None:
    assert gateway.chat(question(vllm_xargs=xargs)).status == 400
    assert text_of(gateway, question())


def test_the_end_of_an_answer_is_a_stop_text(gateway: GatewayProcess) -> None:
    forced: JsonValue = {"type": "regex", "regex": f"ab{END.replace('|', '[|]')}cd"}
    assert text_of(gateway, question(response_format=forced, max_tokens=80)) == "ab"


def test_two_requests_at_a_time_keep_their_own_rules(gateway: GatewayProcess) -> None:
    ruled = question(max_tokens=40, ignore_eos=True, vllm_xargs={"ngram_size": 2, "window_size": WINDOW}, n=1)
    free = question(max_tokens=40, ignore_eos=True, vllm_xargs={"ngram_size": 0})
    alone = (text_of(gateway, ruled), text_of(gateway, free))
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda request: text_of(gateway, request), [ruled, free] * 4))
    assert together == [*alone] * 4
    assert alone[0] != alone[1]
