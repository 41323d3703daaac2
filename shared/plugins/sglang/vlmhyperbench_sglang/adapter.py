"""The SGLang adapter: SGLang's own OpenAI server with every argument that changes answers or times pinned."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Literal

from vlmhyperbench_sdk.chat import FORMATS, OPTIONAL, greeting, translate
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.hf_folder import CONFIG, count_elements, model_folder, read_config
from vlmhyperbench_sdk.hf_memory import estimate_hf_memory
from vlmhyperbench_sdk.hf_server import OFFLINE, SERVER_PARAMS, check_seed, read_server_params, take_pattern
from vlmhyperbench_sdk.params import Choice, EngineParams, Number
from vlmhyperbench_sdk.protocols import LOOPBACK, EngineLaunch, MemoryEstimate, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue

TRIED = ("0.5.23",)
"""The version of SGLang whose arguments and fields this adapter uses; README.md says how far it was tried."""

PARAMS: EngineParams = {
    **SERVER_PARAMS,
    "quantization": Choice(
        (
            *("none", "fp8", "awq", "awq_marlin", "gptq", "gptq_marlin", "compressed-tensors", "modelopt"),
            *("modelopt_fp4", "w8a8_int8", "w8a8_fp8", "mxfp4"),
        )
    ),
    "kv_cache_dtype": Choice(("auto", "bfloat16", "fp8_e4m3", "fp8_e5m2")),
    "gpu_memory_share": Number(default=0.85, minimum=0.01, maximum=1.0),
    # Only llguidance enforces a format whole, or refuses it.
    "structured_outputs": Choice(("llguidance", "xgrammar", "outlines")),
}
"""All parameters; README.md says what each does."""

SAMPLING = (
    *("top_k", "min_p", "repetition_penalty", "stop_token_ids", "stop_regex", "no_stop_trim", "skip_special_tokens"),
    *("ebnf", "regex", "separate_reasoning", "custom_params", "custom_logit_processor", "images_config"),
)
"""Fields beyond OpenAI's that its server supports, in a request or its `model_params`."""

CPU_STUB = "SGLANG_CPU_STUB_DRIVER"
"""Variable of the environment that starts SGLang on a processor, for tests: the folder of a `libcuda.so.1` without
functions, without which SGLang does not import where no graphics card is."""

CPU_ENGINE = "sglang (test mode on a processor)"
"""Name of the engine in that mode, so that nobody takes its speed for SGLang's."""

CPU_WARNING = (
    "SGLang ran on a processor, with a stub in place of the driver, PyTorch's attention and transformers' model code: "
    "neither its speed nor its memory is that of SGLang."
)

_PROCESS_BYTES = 4 * 1024**3


class SGLang:
    """SGLang with a Hugging Face folder; images, text-only models, every response format, seeds of greedy answers."""

    measured_at: Literal["engine", "gateway"] = "engine"

    def plan_engine(
        self, load: LoadRequest, *, port: int, python: str, host: str = LOOPBACK
    ) -> EngineLaunch | RemoteEngine:
        """Start SGLang's server on loopback with the interpreter of its environment.

        Raises:
            InvalidInput: a parameter is unknown or out of range, the files are not in one folder, or state no type.
            NotFound: a model file is missing.
        """
        folder, params = model_folder(load), read_server_params("SGLang", PARAMS, load)
        stub = os.environ.get(CPU_STUB)
        argv = [python, "-I", "-m", "sglang.launch_server", "--model-path", str(folder)]
        argv += ["--served-model-name", load.model, "--host", host, "--port", str(port)]
        argv += _arguments(params)
        # Encoded images are kept beside the prefix cache: both would shorten the first token of a repeated page.
        env = {**OFFLINE} if params["prefix_cache"] else {**OFFLINE, "SGLANG_VLM_CACHE_SIZE_MB": "0"}
        if stub:
            argv += _ON_PROCESSOR
            env |= {"SGLANG_USE_CPU_ENGINE": "1", "LD_LIBRARY_PATH": stub}
        return EngineLaunch(
            argv=tuple(argv),
            url=f"http://{host}:{port}",
            env=env,
            engine=CPU_ENGINE if stub else "sglang",
            distribution="sglang",
            tried=TRIED,
            warnings=(CPU_WARNING,) if stub else (),
            warmup=greeting(load.model),
        )

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Translate to SGLang's fields: a regular expression is its own field, `top_k` 0 is its -1.

        SGLang draws answers from a request's seed only in its deterministic mode, which is slower and not used here;
        a seed of an answer that is not greedy is refused.

        Raises:
            InvalidInput: the request is malformed, has a field or a seed that SGLang does not support, or two
                constraints.
        """
        body = translate(request, formats=FORMATS, model_params=SAMPLING, optional=OPTIONAL, vendor=SAMPLING)
        check_seed("SGLang", body)
        if "seed" in body and body.get("temperature") != 0 and body.get("top_k") != 1:
            raise InvalidInput(
                "SGLang draws answers from no seed of a request.",
                cure="Leave seed out, or set temperature to 0.",
                code="unsupported",
            )
        if (pattern := take_pattern(body, constraints=("regex", "ebnf"))) is not None:
            body["regex"] = pattern
        if body.get("top_k") == 0:
            body["top_k"] = -1
        return body

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:
        """Estimate the least memory with which SGLang loads the model, on all of its devices together.

        It is the weights, a KV cache for one answer of `max_model_len` tokens, and one image in the vision tower
        (`hf_memory` states the formulas); more memory holds more answers at a time.
        """
        if CONFIG not in load.files:
            return None
        params = read_server_params("SGLang", PARAMS, load)
        memory = estimate_hf_memory(
            read_config(load),
            count_elements(load.files),
            tokens=int(params["max_model_len"]),
            dtype=str(params["dtype"]),
            weights_dtype="fp8" if params["quantization"] == "fp8" else None,
            kv_dtype="fp8" if str(params["kv_cache_dtype"]).startswith("fp8") else str(params["kv_cache_dtype"]),
        )
        return MemoryEstimate(
            device_bytes=memory.total_bytes,
            host_bytes=_PROCESS_BYTES,
            source="static",
            knobs=("max_model_len", "kv_cache_dtype", "dtype", "quantization"),
            parts={**memory.parts, "process": _PROCESS_BYTES},
            device_share=float(params["gpu_memory_share"]),
        )


_ON_PROCESSOR = (
    *("--device", "cpu", "--attention-backend", "torch_native", "--disable-overlap-schedule"),
    *("--max-total-tokens", "4096", "--model-impl", "transformers"),
)


def _arguments(params: Mapping[str, int | float | str]) -> list[str]:
    limits = {"image": params["images_per_prompt"], "video": 0, "audio": 0}
    argv = [
        *("--tp-size", str(params["tensor_parallel"])),
        *("--dtype", str(params["dtype"])),
        *("--kv-cache-dtype", str(params["kv_cache_dtype"])),
        *("--context-length", str(params["max_model_len"])),
        *("--max-running-requests", str(params["max_num_seqs"])),
        *("--mem-fraction-static", str(params["gpu_memory_share"])),
        *("--limit-mm-data-per-request", json.dumps(limits)),
        *("--random-seed", str(params["seed"])),
        *("--grammar-backend", str(params["structured_outputs"])),
        *("--sampling-defaults", "openai" if params["sampling_defaults"] == "engine" else "model"),
        *("--log-level-http", "warning"),
        "--enable-cache-report",
        # Without it SGLang serves some models, such as Gemma 3, without their images; text-only models ignore it.
        "--enable-multimodal",
    ]
    if params["quantization"] != "none":
        argv += ["--quantization", str(params["quantization"])]
    if not params["prefix_cache"]:
        argv.append("--disable-radix-cache")
    if params["enforce_eager"]:
        argv += ["--cuda-graph-backend-decode", "disabled", "--cuda-graph-backend-prefill", "disabled"]
    return argv + (["--trust-remote-code"] if params["trust_remote_code"] else [])
