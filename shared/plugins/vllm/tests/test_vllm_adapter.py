"""The vLLM adapter: arguments are pinned, requests are mapped or refused by name, memory is estimated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.hf_server import JSON_STYLE, MAX_SEED
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.testing.backends import check_translation
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_tiny_doc_vlm import names, path
from vlmhyperbench_vllm.adapter import Vllm

FILES = {name: str(path(name)) for name in names() if not name.endswith(".gguf")}
QUESTION: dict[str, JsonValue] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def _load(**params: JsonValue) -> LoadRequest:
    return LoadRequest(model="m", backend_class="vllm", files=FILES, engine_params=params)


def _launch(**params: JsonValue) -> EngineLaunch:
    launch = Vllm().plan_engine(_load(**params), port=4321, python="/engine/python")
    assert isinstance(launch, EngineLaunch)
    return launch


def test_every_default_that_varies_is_on_the_command_line() -> None:
    assert _launch().argv == (
        *("/engine/python", "-I", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(Path(FILES["config.json"]).parent), "--served-model-name", "m"),
        *("--host", "127.0.0.1", "--port", "4321", "--tensor-parallel-size", "1", "--dtype", "float32"),
        *("--kv-cache-dtype", "auto", "--max-model-len", "1024", "--max-num-seqs", "64"),
        *("--max-num-batched-tokens", "8192", "--gpu-memory-utilization", "0.9"),
        *("--limit-mm-per-prompt", '{"image": 8, "video": 0, "audio": 0}', "--seed", "0", "--max-logprobs", "20"),
        *("--structured-outputs-config", '{"backend": "guidance"}', "--generation-config", "vllm"),
        *("--no-enable-prefix-caching", "--mm-processor-cache-gb", "0", "--uvicorn-log-level", "warning"),
    )


def test_each_parameter_is_an_argument() -> None:
    launch = _launch(
        tensor_parallel=2,
        quantization="fp8",
        max_model_len=512,
        kv_cache_gib=1.5,
        prefix_cache=True,
        enforce_eager=True,
        sampling_defaults="model",
        trust_remote_code=True,
    )
    options = " ".join(launch.argv)
    for expected in (
        *(
            "--tensor-parallel-size 2",
            "--quantization fp8",
            "--max-model-len 512",
            "--kv-cache-memory-bytes 1610612736",
        ),
        *("--enable-prefix-caching --mm-processor-cache-gb 4", "--enforce-eager", "--generation-config auto"),
        "--trust-remote-code",
    ):
        assert expected in options
    assert "--no-enable-prefix-caching" not in options


def test_the_engine_is_offline_and_tells_nobody() -> None:
    env = _launch().env
    expected = {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "DO_NOT_TRACK", "VLLM_NO_USAGE_STATS"}
    assert {name for name in expected if env[name] == "1"} == expected
    assert env["OTEL_SDK_DISABLED"] == "true"


@pytest.mark.parametrize(
    "params",
    [{"dtype": "int4"}, {"tensor_parallel": 0}, {"gpu_memory_share": 1.5}, {"prefix_cache": "off"}, {"n_ctx": 1}],
)
def test_a_wrong_parameter_is_refused_by_name(params: dict[str, JsonValue], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _launch(**params)
    wording(refused.value)


def test_a_model_without_a_config_is_refused() -> None:
    with pytest.raises(NotFound, match=r"config\.json"):
        Vllm().plan_engine(LoadRequest(model="m", backend_class="vllm"), port=1, python="p")


def test_a_regular_expression_becomes_a_structured_output() -> None:
    body = Vllm().to_engine({**QUESTION, "response_format": {"type": "regex", "regex": "[0-9]+"}})
    assert body["structured_outputs"] == {"regex": "[0-9]+"}
    assert "response_format" not in body


def test_a_schema_without_a_name_gets_one() -> None:
    wanted: JsonValue = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    body = Vllm().to_engine({**QUESTION, "response_format": wanted})
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"x-guidance": JSON_STYLE, "type": "object"}},
    }


def test_openai_fields_and_its_own_are_passed_on() -> None:
    more: dict[str, JsonValue] = {
        "stop": ["x"],
        "seed": 1,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 3,
        "min_p": 0.1,
        "n": 2,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.1,
        "max_tokens": 5,
        "logprobs": True,
        "top_logprobs": 2,
        "min_tokens": 1,
        "ignore_eos": True,
        "repetition_penalty": 1.1,
        "skip_special_tokens": False,
    }
    assert Vllm().to_engine({**QUESTION, **more}) == {**QUESTION, **more}


@pytest.mark.parametrize(
    "more",
    [
        {"seed": MAX_SEED + 1},
        {"guided_regex": "x"},
        {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "x"}},
    ],
)
def test_what_vllm_would_drop_is_refused_by_name(more: dict[str, JsonValue], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        Vllm().to_engine({**QUESTION, **more})
    wording(refused.value)


def test_translation_is_pure_and_total() -> None:
    check_translation(Vllm())


def test_memory_is_weights_cache_and_vision_tower() -> None:
    small, large = (Vllm().estimate_memory(_load(dtype=dtype)) for dtype in ("bfloat16", "float32"))
    assert small is not None
    assert large is not None
    assert large.device_bytes == 2 * small.device_bytes
    text = json.loads(Path(FILES["config.json"]).read_text())["text_config"]
    longer, shorter = (Vllm().estimate_memory(_load(max_model_len=tokens)) for tokens in (612, 512))
    assert longer is not None
    assert shorter is not None
    values = 2 * text["num_hidden_layers"] * text["num_key_value_heads"] * text["head_dim"]
    assert longer.device_bytes - shorter.device_bytes == 100 * values * 4
    assert Vllm().estimate_memory(LoadRequest(model="m", backend_class="vllm")) is None


def test_a_given_size_of_the_cache_is_what_it_takes_and_is_named_where_it_does_not_fit() -> None:
    given, chosen = Vllm().estimate_memory(_load(kv_cache_gib=2)), Vllm().estimate_memory(_load())
    more = Vllm().estimate_memory(_load(kv_cache_gib=3))
    assert given is not None
    assert chosen is not None
    assert more is not None
    assert more.device_bytes - given.device_bytes == 2**30
    assert given.knobs == ("kv_cache_gib", "dtype", "quantization")
    assert chosen.knobs == ("max_model_len", "kv_cache_dtype", "dtype", "quantization")
