"""The SGLang adapter: arguments are pinned and known to SGLang, requests are mapped or refused by name."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.loadgen_conformance.clients import PEERS
from tests.support.wording import Wording
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.hf_server import MAX_SEED
from vlmhyperbench_sdk.params import Choice
from vlmhyperbench_sdk.protocols import EngineLaunch
from vlmhyperbench_sdk.testing.backends import check_translation
from vlmhyperbench_sdk.types import JsonValue
from vlmhyperbench_sglang.adapter import CPU_ENGINE, CPU_STUB, CPU_WARNING, PARAMS, SAMPLING, TRIED, SGLang
from vlmhyperbench_tiny_doc_vlm import names, path

FILES = {name: str(path(name)) for name in names() if not name.endswith(".gguf")}
QUESTION: dict[str, JsonValue] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
INSTALLED = next((PEERS / "sglang").glob("lib/python3*/site-packages/sglang/srt"), None)
RECORDED = Path(__file__).with_name("recorded.json")
"""What SGLang's server takes, as `tests/engines/sglang_options.py` prints it."""
EVERY: dict[str, JsonValue] = {
    "quantization": "fp8",
    "enforce_eager": True,
    "sampling_defaults": "model",
    "trust_remote_code": True,
}
ALL_PARAMS: list[dict[str, JsonValue]] = [
    EVERY,
    *({name: value} for name, param in PARAMS.items() if isinstance(param, Choice) for value in param.values),
]
"""Parameters with which every option, and every choice of one, is used."""


def _load(**params: JsonValue) -> LoadRequest:
    return LoadRequest(model="m", backend_class="sglang", files=FILES, engine_params=params)


def _launch(**params: JsonValue) -> EngineLaunch:
    launch = SGLang().plan_engine(_load(**params), port=4321, python="/engine/python")
    assert isinstance(launch, EngineLaunch)
    return launch


def test_every_default_that_varies_is_on_the_command_line() -> None:
    launch = _launch()
    assert launch.argv == (
        *("/engine/python", "-I", "-m", "sglang.launch_server", "--model-path", str(Path(FILES["config.json"]).parent)),
        *("--served-model-name", "m", "--host", "127.0.0.1", "--port", "4321", "--tp-size", "1", "--dtype", "float32"),
        *("--kv-cache-dtype", "auto", "--context-length", "1024", "--max-running-requests", "64"),
        *("--mem-fraction-static", "0.85", "--limit-mm-data-per-request", '{"image": 8, "video": 0, "audio": 0}'),
        *("--random-seed", "0", "--grammar-backend", "llguidance", "--sampling-defaults", "openai"),
        *("--log-level-http", "warning", "--enable-cache-report", "--enable-multimodal", "--disable-radix-cache"),
    )
    assert launch.env["SGLANG_VLM_CACHE_SIZE_MB"] == "0"
    assert launch.engine == "sglang"


def test_the_prefix_cache_keeps_images_too_where_it_is_asked_for() -> None:
    launch = _launch(prefix_cache=True)
    assert "--disable-radix-cache" not in launch.argv
    assert "SGLANG_VLM_CACHE_SIZE_MB" not in launch.env


def test_a_processor_is_used_only_on_request_of_the_environment_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "--device" not in _launch().argv
    assert _launch().warnings == ()
    monkeypatch.setenv(CPU_STUB, str(tmp_path))
    launch = _launch()
    assert launch.argv[launch.argv.index("--device") + 1] == "cpu"
    assert (launch.engine, launch.env["LD_LIBRARY_PATH"]) == (CPU_ENGINE, str(tmp_path))
    assert launch.warnings == (CPU_WARNING,)


@pytest.mark.parametrize("stub", [None, "/stub"])
def test_every_argument_and_field_is_one_of_the_version_that_is_tried(
    monkeypatch: pytest.MonkeyPatch, stub: str | None
) -> None:
    if stub:
        monkeypatch.setenv(CPU_STUB, stub)
    recorded = json.loads(RECORDED.read_text())
    assert recorded["version"].startswith(TRIED)
    assert set(SAMPLING) - set(recorded["fields"]) == set()
    for params in ALL_PARAMS:
        argv = _launch(**params).argv
        assert {word for word in argv if word.startswith("--")} - set(recorded["options"]) == set()
        for option, value in pairwise(argv):
            assert value in recorded["choices"].get(option, [value]), option


@pytest.mark.skipif(INSTALLED is None, reason=f"SGLang is not installed in {PEERS}: `make clients` installs it")
def test_arguments_and_fields_are_in_the_sources_of_the_installed_version() -> None:
    assert INSTALLED is not None
    fields = "\n".join(file.read_text() for file in (INSTALLED / "arg_groups" / "fields").glob("*.py"))
    known = set(re.findall(r"^    ([a-z_0-9]+): ", fields, re.MULTILINE))
    flags = {word[2:].replace("-", "_") for params in ALL_PARAMS for word in _launch(**params).argv if word[:2] == "--"}
    assert flags - known == set()
    protocol = (INSTALLED / "entrypoints" / "openai" / "protocol.py").read_text()
    request = protocol.partition("class ChatCompletionRequest")[2].partition("\nclass ")[0]
    assert set(SAMPLING) - set(re.findall(r"^    ([a-z_]+): ", request, re.MULTILINE)) == set()


@pytest.mark.parametrize("params", [{"structured_outputs": "auto"}, {"max_num_seqs": 0}, {"kv_cache_gib": 1}])
def test_a_wrong_parameter_is_refused_by_name(params: dict[str, JsonValue], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _launch(**params)
    wording(refused.value)


def test_a_regular_expression_is_its_own_field_and_top_k_is_off_at_minus_one() -> None:
    body = SGLang().to_engine({**QUESTION, "response_format": {"type": "regex", "regex": "[0-9]+"}, "top_k": 0})
    assert body == {**QUESTION, "regex": "[0-9]+", "top_k": -1}


@pytest.mark.parametrize("greedy", [{"temperature": 0}, {"top_k": 1}])
def test_a_seed_of_a_greedy_answer_is_passed_on(greedy: dict[str, JsonValue]) -> None:
    assert SGLang().to_engine({**QUESTION, "seed": 3, **greedy})["seed"] == 3


@pytest.mark.parametrize(
    "more",
    [
        {"seed": 3},
        {"seed": 3, "temperature": 0.5},
        {"seed": MAX_SEED + 1, "temperature": 0},
        {"guided_regex": "x"},
        {"response_format": {"type": "json_object"}, "ebnf": "x"},
    ],
)
def test_what_sglang_would_drop_is_refused_by_name(more: dict[str, JsonValue], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        SGLang().to_engine({**QUESTION, **more})
    wording(refused.value)


def test_translation_is_pure_and_total() -> None:
    check_translation(SGLang())


def test_memory_grows_with_the_context_and_shrinks_with_an_eight_bit_cache() -> None:
    loads = (_load(), _load(max_model_len=512), _load(kv_cache_dtype="fp8_e5m2"))
    full, short, small = (SGLang().estimate_memory(load) for load in loads)
    assert full is not None
    assert short is not None
    assert small is not None
    assert full.device_bytes - short.device_bytes == 512 * (full.device_bytes - small.device_bytes) * 4 // (1024 * 3)
    assert SGLang().estimate_memory(LoadRequest(model="m", backend_class="sglang")) is None
