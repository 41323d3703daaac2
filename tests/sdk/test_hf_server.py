"""What adapters of Hugging Face servers share: one rule for types and contexts, and for what a request may hold."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench_deepseek_ocr.adapter import DeepSeekOcr
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.hf_server import (
    DEFAULT_CONTEXT_TOKENS,
    DTYPE,
    JSON_STYLE,
    MAX_SEED,
    check_seed,
    read_server_params,
    resolve_dtype,
    take_pattern,
)
from vlmhyperbench_sdk.params import EngineParams, Integer
from vlmhyperbench_sdk.protocols import Backend, EngineLaunch
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_sglang.adapter import SGLang
from vlmhyperbench_transformers.adapter import Transformers
from vlmhyperbench_vllm.adapter import Vllm

TABLE: EngineParams = {"dtype": DTYPE, "max_model_len": Integer(default=0, minimum=0, maximum=100_000)}
ADAPTERS: tuple[Backend, ...] = (Transformers(), Vllm(), SGLang(), DeepSeekOcr())
PARAMETERS = 1_000_000


def _load(folder: Path, config: JsonObject, kind: str = "F32", **params: JsonValue) -> LoadRequest:
    """Return the load of a model of which only the headers are there."""
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps({"w": {"dtype": kind, "shape": [PARAMETERS]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    files = {file.name: str(file) for file in folder.iterdir()}
    return LoadRequest(model="m", backend_class="e", files=files, engine_params=params)


@pytest.mark.parametrize(
    ("config", "elements", "expected"),
    [
        ({"dtype": "bfloat16", "text_config": {"dtype": "float16"}}, {"F32": 9}, "bfloat16"),
        ({"torch_dtype": "float32"}, {"BF16": 9}, "float32"),
        ({"text_config": {"torch_dtype": "float16"}}, {"F32": 9}, "float16"),
        ({}, {"F32": 9}, "float32"),
        ({}, {"F32": 1, "BF16": 2, "U8": 9}, "bfloat16"),
        ({"dtype": "float8_e4m3fn"}, {"F8_E4M3": 9, "F16": 1}, "float16"),
    ],
)
def test_auto_is_what_the_model_states_else_the_type_of_most_weights(
    config: JsonObject, elements: Mapping[str, int], expected: str
) -> None:
    assert resolve_dtype("auto", config, elements) == expected
    assert resolve_dtype("float16", config, elements) == "float16"


@pytest.mark.parametrize("elements", [{}, {"U8": 9}, {"BF16": 0}])
def test_a_model_without_a_type_is_refused_until_one_is_given(elements: Mapping[str, int], wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        resolve_dtype("auto", {}, elements)
    wording(refused.value)
    assert resolve_dtype("float32", {}, elements) == "float32"


@pytest.mark.parametrize(("kind", "dtype", "size"), [("F32", "float32", 4), ("BF16", "bfloat16", 2)])
@pytest.mark.parametrize("config", [{}, {"dtype": None}], ids=["no dtype", "null"])
def test_every_engine_is_started_with_the_type_that_its_estimate_counts(
    tmp_path: Path, config: JsonObject, kind: str, dtype: str, size: int
) -> None:
    for adapter in ADAPTERS:
        load = _load(tmp_path, config, kind)
        launch, estimate = adapter.plan_engine(load, port=1, python="p"), adapter.estimate_memory(load)
        assert isinstance(launch, EngineLaunch)
        assert estimate is not None
        assert launch.argv[launch.argv.index("--dtype") + 1] == dtype
        assert estimate.parts["weights"] == PARAMETERS * size


def test_a_type_that_is_asked_for_is_the_one_of_engine_and_estimate(tmp_path: Path) -> None:
    for adapter in ADAPTERS:
        load = _load(tmp_path, {"dtype": "bfloat16"}, dtype="float32")
        launch, estimate = adapter.plan_engine(load, port=1, python="p"), adapter.estimate_memory(load)
        assert isinstance(launch, EngineLaunch)
        assert estimate is not None
        assert launch.argv[launch.argv.index("--dtype") + 1] == "float32"
        assert estimate.parts["weights"] == PARAMETERS * 4


@pytest.mark.parametrize(
    ("own", "given", "expected"),
    [(512, 0, 512), (100_000, 0, DEFAULT_CONTEXT_TOKENS), (None, 0, DEFAULT_CONTEXT_TOKENS), (512, 9, 9)],
)
def test_a_context_is_the_models_own_unless_that_is_long_or_another_is_given(
    tmp_path: Path, own: int | None, given: int, expected: int
) -> None:
    load = _load(tmp_path, {"max_position_embeddings": own}, max_model_len=given)
    assert read_server_params("engine", TABLE, load) == {"dtype": "float32", "max_model_len": expected}


def test_a_seed_of_more_than_63_bits_is_refused(wording: Wording) -> None:
    check_seed("engine", {})
    check_seed("engine", {"seed": MAX_SEED})
    with pytest.raises(InvalidInput) as refused:
        check_seed("engine", {"seed": MAX_SEED + 1})
    wording(refused.value)


def test_a_pattern_is_taken_out_and_a_schema_is_named() -> None:
    schema: dict[str, JsonValue] = {"type": "object"}
    styled: JsonValue = {"x-guidance": JSON_STYLE, **schema}
    cases: list[tuple[JsonValue, JsonValue, str | None]] = [
        (None, None, None),
        ({"type": "text"}, {"type": "text"}, None),
        ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "answer", "schema": styled}}, None),
        ({"type": "regex", "regex": "a+"}, None, "a+"),
        (
            {"type": "json_schema", "json_schema": {"schema": schema}},
            {"type": "json_schema", "json_schema": {"name": "answer", "schema": styled}},
            None,
        ),
        (
            {"type": "json_schema", "json_schema": {"name": "own", "schema": schema}},
            {"type": "json_schema", "json_schema": {"name": "own", "schema": styled}},
            None,
        ),
    ]
    for wanted, kept, pattern in cases:
        body: dict[str, JsonValue] = {} if wanted is None else {"response_format": wanted}
        assert take_pattern(body, constraints=("ebnf",)) == pattern
        assert body == ({} if kept is None else {"response_format": kept})


def test_a_second_constraint_is_refused_and_beside_free_text_it_is_not(wording: Wording) -> None:
    assert take_pattern({"response_format": {"type": "text"}, "ebnf": "x"}, constraints=("ebnf",)) is None
    with pytest.raises(InvalidInput) as refused:
        take_pattern({"response_format": {"type": "json_object"}, "ebnf": "x"}, constraints=("regex", "ebnf"))
    wording(refused.value)
