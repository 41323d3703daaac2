"""The vLLM adapter: vLLM's own OpenAI server with every argument that changes answers or times pinned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from vlmhyperbench_sdk.chat import FORMATS, OPTIONAL, greeting, translate
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.hf_folder import CONFIG, count_elements, model_folder, read_config
from vlmhyperbench_sdk.hf_memory import estimate_hf_memory
from vlmhyperbench_sdk.hf_server import OFFLINE, SERVER_PARAMS, check_seed, read_server_params, take_pattern
from vlmhyperbench_sdk.params import Choice, EngineParams, Integer, Number
from vlmhyperbench_sdk.protocols import LOOPBACK, EngineLaunch, MemoryEstimate, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue

TRIED = ("0.32",)
"""Versions of vLLM with which the tests of this adapter were run."""

PARAMS: EngineParams = {
    **SERVER_PARAMS,
    "quantization": Choice(
        (
            *("none", "fp8", "int8_per_channel_weight_only", "awq", "awq_marlin", "gptq", "gptq_marlin"),
            *("compressed-tensors", "modelopt", "modelopt_fp4", "mxfp4", "torchao"),
        )
    ),
    "kv_cache_dtype": Choice(("auto", "bfloat16", "float16", "fp8")),
    "max_num_batched_tokens": Integer(default=8192, minimum=1, maximum=1_000_000),
    "gpu_memory_share": Number(default=0.9, minimum=0.01, maximum=1.0),
    "kv_cache_gib": Number(default=0, minimum=0, maximum=4096),
    # Only guidance enforces a format whole, or refuses it.
    "structured_outputs": Choice(("guidance", "auto", "xgrammar", "outlines")),
    "max_logprobs": Integer(default=20, minimum=0, maximum=1000),
}
"""All parameters; README.md says what each does. 0 of `kv_cache_gib` lets vLLM choose."""

SAMPLING = (
    *("top_k", "min_p", "repetition_penalty", "stop_token_ids", "include_stop_str_in_output", "skip_special_tokens"),
    *("spaces_between_special_tokens", "truncate_prompt_tokens", "allowed_token_ids", "bad_words", "vllm_xargs"),
    *("structured_outputs", "repetition_detection", "include_reasoning", "thinking_token_budget", "prompt_logprobs"),
)
"""Fields beyond OpenAI's that its server supports, in a request or its `model_params`; it ignores unknown ones."""

ENV: Mapping[str, str] = {
    **OFFLINE,
    "VLLM_NO_USAGE_STATS": "1",
    # On a processor vLLM would otherwise bind all of its threads to one core.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


class Vllm:
    """vLLM with a Hugging Face folder; images, text-only models, every response format, seeds."""

    measured_at: Literal["engine", "gateway"] = "engine"

    def plan_engine(
        self, load: LoadRequest, *, port: int, python: str, host: str = LOOPBACK
    ) -> EngineLaunch | RemoteEngine:
        """Start vLLM's server on loopback with the interpreter of its environment.

        Raises:
            InvalidInput: a parameter is unknown or out of range, the files are not in one folder, or state no type.
            NotFound: a model file is missing.
        """
        folder, params = model_folder(load), read_server_params("vLLM", PARAMS, load)
        argv = [python, "-I", "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
        argv += ["--served-model-name", load.model, "--host", host, "--port", str(port)]
        argv += _arguments(params)
        return EngineLaunch(
            argv=tuple(argv),
            url=f"http://{host}:{port}",
            env=ENV,
            engine="vllm",
            distribution="vllm",
            tried=TRIED,
            warmup=greeting(load.model),
        )

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Translate to vLLM's fields: a regular expression and JSON formats constrain by its structured outputs.

        Raises:
            InvalidInput: the request is malformed, has a field that vLLM does not support, a seed beyond its range, or
                two constraints.
        """
        body = translate(request, formats=FORMATS, model_params=SAMPLING, optional=OPTIONAL, vendor=SAMPLING)
        check_seed("vLLM", body)
        pattern = take_pattern(body, constraints=("structured_outputs",))
        return body if pattern is None else {**body, "structured_outputs": {"regex": pattern}}

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:
        """Estimate the least memory with which vLLM loads the model, on all of its devices together.

        It is the weights, the KV cache of `kv_cache_gib`, else one for an answer of `max_model_len` tokens, and one
        image in the vision tower (`hf_memory` states the formulas); more memory holds more answers at a time. On a
        processor the same bytes are the host's.
        """
        if CONFIG not in load.files:
            return None
        params = read_server_params("vLLM", PARAMS, load)
        quantised = params["quantization"] in {"fp8", "int8_per_channel_weight_only"}
        memory = estimate_hf_memory(
            read_config(load),
            count_elements(load.files),
            tokens=int(params["max_model_len"]),
            dtype=str(params["dtype"]),
            weights_dtype="fp8" if quantised else None,
            kv_dtype=str(params["kv_cache_dtype"]),
        )
        wanted = int(float(params["kv_cache_gib"]) * _GIB)
        cache = ("kv_cache_gib",) if wanted else ("max_model_len", "kv_cache_dtype")
        return MemoryEstimate(
            device_bytes=memory.weights_bytes + memory.vision_bytes + (wanted or memory.kv_bytes),
            host_bytes=_PROCESS_BYTES,
            source="static",
            knobs=(*cache, "dtype", "quantization"),
            parts={**memory.parts, "KV cache": wanted or memory.kv_bytes, "process": _PROCESS_BYTES},
            device_share=float(params["gpu_memory_share"]),
        )


_PROCESS_BYTES = 3 * 1024**3
"""Server and engine process without weights, measured."""

_GIB = 1024**3


def _arguments(params: Mapping[str, int | float | str]) -> list[str]:
    caches = bool(params["prefix_cache"])
    limits = {"image": params["images_per_prompt"], "video": 0, "audio": 0}
    argv = [
        *("--tensor-parallel-size", str(params["tensor_parallel"])),
        *("--dtype", str(params["dtype"])),
        *("--kv-cache-dtype", str(params["kv_cache_dtype"])),
        *("--max-model-len", str(params["max_model_len"])),
        *("--max-num-seqs", str(params["max_num_seqs"])),
        *("--max-num-batched-tokens", str(params["max_num_batched_tokens"])),
        *("--gpu-memory-utilization", str(params["gpu_memory_share"])),
        *("--limit-mm-per-prompt", json.dumps(limits)),
        *("--seed", str(params["seed"])),
        *("--max-logprobs", str(params["max_logprobs"])),
        *("--structured-outputs-config", json.dumps({"backend": params["structured_outputs"]})),
        *("--generation-config", "vllm" if params["sampling_defaults"] == "engine" else "auto"),
        # Processed images are kept by the second cache: both would shorten the first token of a repeated page.
        "--enable-prefix-caching" if caches else "--no-enable-prefix-caching",
        *("--mm-processor-cache-gb", "4" if caches else "0"),
        *("--uvicorn-log-level", "warning"),
    ]
    if params["quantization"] != "none":
        argv += ["--quantization", str(params["quantization"])]
    if params["kv_cache_gib"]:
        argv += ["--kv-cache-memory-bytes", str(int(float(params["kv_cache_gib"]) * _GIB))]
    argv += ["--enforce-eager"] if params["enforce_eager"] else []
    return argv + (["--trust-remote-code"] if params["trust_remote_code"] else [])
