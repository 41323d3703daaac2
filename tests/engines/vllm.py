"""What tests with vLLM itself share: where it lies, a load of the tiny document reader, requests and their texts."""

from __future__ import annotations

from benchmarks.loadgen_conformance.clients import PEERS
from tests.support.needs import skip_or_fail
from vlmhyperbench_sdk.gateway import EngineEnvironment, LoadRequest
from vlmhyperbench_sdk.testing.gateways import GatewayProcess
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_tiny_doc_vlm import names, path

PYTHON = PEERS / "vllm" / "bin" / "python"
VERSION = "0.2"

UNENFORCEABLE: tuple[JsonValue, ...] = (
    {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}},
    {"type": "json_schema", "json_schema": {"schema": {"type": "array", "uniqueItems": True}}},
    {"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {"not": {"type": "string"}}}}}},
    {"type": "json_schema", "json_schema": {"schema": {"type": "string", "pattern": "^(?=a)[a-z]$"}}},
    {"type": "regex", "regex": "a(?=b)"},
    {"type": "regex", "regex": "[0-9"},
)
"""Formats that llguidance refuses, since it cannot enforce all of them."""


def tiny_load(backend: str) -> LoadRequest:
    """Return a load of the tiny reader; the test is skipped, or fails with `VLMHB_NEED_CLIENTS`, without vLLM."""
    if not PYTHON.exists():
        skip_or_fail(f"vLLM is not installed: there is no {PYTHON} (`make clients` installs it)")
    files = {name: str(path(name, VERSION)) for name in names(VERSION) if not name.endswith(".gguf")}
    params: JsonObject = {
        "kv_cache_gib": 1,
        "gpu_memory_share": 0.2,
        "max_num_seqs": 8,
        "enforce_eager": True,
        "images_per_prompt": 2,
    }
    return LoadRequest(model="tiny", backend_class=backend, files=files, engine_params=params, load_timeout_s=600)


def vllm_gateway() -> GatewayProcess:
    """Return a gateway whose engines run in vLLM's environment."""
    return GatewayProcess(env=EngineEnvironment(python=str(PYTHON)).to_variables())


def question(content: JsonValue = "Hello there", **more: JsonValue) -> dict[str, JsonValue]:
    """Return a greedy request for a short answer."""
    messages: JsonValue = [{"role": "user", "content": content}]
    return {"model": "tiny", "messages": messages, "max_tokens": 12, "temperature": 0, **more}


def choice_of(gateway: GatewayProcess, request: JsonObject) -> JsonObject:
    """Ask, and return the first choice of the answer."""
    answer = gateway.chat(request)
    assert answer.status == 200, answer.body
    choices = answer.json()["choices"]
    assert isinstance(choices, list)
    first: JsonObject = choices[0]
    return first


def text_of(gateway: GatewayProcess, request: JsonObject) -> str:
    """Ask, and return the text of the answer."""
    message = choice_of(gateway, request)["message"]
    assert isinstance(message, dict)
    return str(message["content"])
