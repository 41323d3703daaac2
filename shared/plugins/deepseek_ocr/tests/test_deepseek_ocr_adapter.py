"""The DeepSeek-OCR adapter: the rule against repetition by itself, the prompts, and what is added to vLLM's."""

from __future__ import annotations

import pytest

from tests.support.wording import Wording
from vlmhyperbench_deepseek_ocr.adapter import END, NGRAMS, PROCESSOR, PROMPTS, SHIM, DeepSeekOcr
from vlmhyperbench_deepseek_ocr.shim.deepseek_ngrams import banned_tokens
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.testing.backends import PIXEL, check_translation
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_tiny_doc_vlm import names, path

IMAGE: JsonValue = {"type": "image_url", "image_url": {"url": PIXEL}}
PAGE: dict[str, JsonValue] = {
    "model": "m",
    "messages": [{"role": "user", "content": [IMAGE, {"type": "text", "text": "Read it."}]}],
}


@pytest.mark.parametrize(
    ("output", "size", "window", "banned"),
    [
        ([1, 2, 3, 1, 2], 3, 90, {3}),
        ([1, 2, 3, 1, 2, 4, 1, 2], 3, 90, {3, 4}),
        ([1, 2, 3, 1, 2, 4, 1, 2], 3, 5, {4}),
        ([1, 2, 3, 1, 2], 3, 4, set()),
        ([1, 2], 3, 90, set()),
        ([5, 6, 5], 1, 90, {5, 6}),
        ([5, 5, 5], 2, 90, {5}),
        ([1, 2, 3, 1, 2], 0, 90, set()),
    ],
)
def test_a_token_that_would_repeat_a_sequence_is_banned(
    output: list[int], size: int, window: int, banned: set[int]
) -> None:
    assert banned_tokens(output, size=size, window=window) == banned


def test_tokens_of_a_tables_cells_may_repeat() -> None:
    assert banned_tokens([1, 2, 3, 1, 2], size=3, window=90, allowed=[3]) == set()


def test_the_server_is_started_by_the_shim_with_the_rule() -> None:
    files = {name: str(path(name)) for name in names() if not name.endswith(".gguf")}
    load = LoadRequest(model="m", backend_class="deepseek_ocr", files=files)
    launch = DeepSeekOcr().plan_engine(load, port=1, python="python")
    assert isinstance(launch, EngineLaunch)
    assert launch.argv[:4] == ("python", "-I", str(SHIM), "--model")
    assert launch.argv[-2:] == ("--logits-processors", PROCESSOR)
    assert "--no-enable-prefix-caching" in launch.argv


def test_a_request_gets_the_rule_the_stop_text_and_special_tokens() -> None:
    body = DeepSeekOcr().to_engine(PAGE)
    assert body == {**PAGE, "stop": [END], "skip_special_tokens": False, "vllm_xargs": NGRAMS}
    own: dict[str, JsonValue] = {"stop": "x", "skip_special_tokens": True, "vllm_xargs": {"ngram_size": 0}}
    body = DeepSeekOcr().to_engine({**PAGE, **own})
    assert (body["stop"], body["skip_special_tokens"]) == (["x", END], True)
    assert body["vllm_xargs"] == {**NGRAMS, "ngram_size": 0}


@pytest.mark.parametrize("task", PROMPTS)
def test_a_task_puts_its_prompt_after_the_images(task: str) -> None:
    expected = [{"role": "user", "content": [IMAGE, {"type": "text", "text": PROMPTS[task]}]}]
    asked: tuple[JsonObject, ...] = ({"ocr_task": task}, {"model_params": {"ocr_task": task}})
    for more in asked:
        body = DeepSeekOcr().to_engine({**PAGE, **more})
        assert body["messages"] == expected
        assert "ocr_task" not in body


def test_an_unknown_task_is_refused_by_name(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        DeepSeekOcr().to_engine({**PAGE, "ocr_task": "poem"})
    wording(refused.value)


def test_translation_is_pure_and_total() -> None:
    check_translation(DeepSeekOcr())
