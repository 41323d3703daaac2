"""The llama.cpp adapter: a GGUF model behind llama.cpp's server, with all varying defaults pinned."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

from vlmhyperbench_llamacpp.compute import CONTEXT_BYTES, CONTEXT_HOST_BYTES, ENCODER_BYTES, estimate_compute
from vlmhyperbench_llamacpp.dry_run import dry_run
from vlmhyperbench_llamacpp.formats import constrain
from vlmhyperbench_llamacpp.image_formats import readable
from vlmhyperbench_llamacpp.image_tokens import ImageTokens, image_tokens_of
from vlmhyperbench_llamacpp.memory import PROCESS_BYTES, estimate_llama_memory, is_projector_on_device
from vlmhyperbench_sdk.chat import FORMATS, greeting, translate
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.gguf import read_header
from vlmhyperbench_sdk.message_images import map_images
from vlmhyperbench_sdk.params import Choice, EngineParams, Integer, read_engine_params
from vlmhyperbench_sdk.protocols import LOOPBACK, EngineLaunch, LoadKnobs, MemoryEstimate, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue

SHIM = Path(__file__).with_name("shim.py")

ROLES = ("weights", "mmproj", "chat_template")

TRIED = ("2026.10",)
"""Versions of xllamacpp with which the tests of this adapter were run."""

PARAMS: EngineParams = {
    "n_ctx": Integer(default=4096, minimum=256, maximum=10_000_000),
    "parallel": Integer(default=4, minimum=1, maximum=256),
    "threads": Integer(default=0, minimum=0, maximum=1024),
    "n_batch": Integer(default=2048, minimum=1, maximum=65_536),
    "n_ubatch": Integer(default=512, minimum=1, maximum=65_536),
    "n_gpu_layers": Integer(default=0, minimum=-1, maximum=100_000),
    "flash_attn": Choice(("on", "off")),
    "cache_type_k": Choice(("f16", "f32", "bf16", "q8_0", "q4_0")),
    "cache_type_v": Choice(("f16", "f32", "bf16", "q8_0", "q4_0")),
    "mmproj_offload": Choice(("on", "off")),
    "image_max_tokens": Integer(default=0, minimum=0, maximum=1_000_000),
}
"""`n_ctx` is the context of a slot, in tokens; 0 threads: half of the cores; 0 `image_max_tokens`: the model's own.

`mmproj_offload` puts the image projector on the accelerator if any layer is there.

Threads of llama.cpp wait for each other by spinning: on cores that other processes use too, a thread per core is six
times slower than half as many (measured: 0.8 against 5 answers/s on two busy cores).
"""

SAMPLING = (
    *("top_k", "min_p", "typical_p", "repeat_penalty", "repeat_last_n", "samplers", "mirostat", "mirostat_tau"),
    *("mirostat_eta", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
    *("dry_sequence_breakers", "dynatemp_range", "dynatemp_exponent", "xtc_probability", "xtc_threshold"),
    *("top_n_sigma", "min_keep", "n_probs", "grammar", "reasoning_format", "return_tokens", "timings_per_token"),
    "chat_template_kwargs",
)
"""Fields beyond OpenAI's that its server supports, in a request or its `model_params`."""


KNOBS = ("n_ctx", "parallel", "cache_type_k", "cache_type_v", "n_gpu_layers")
"""Parameters that change the memory."""

LOAD_KNOBS = {
    "context_tokens": ("n_ctx",),
    "parallel": ("parallel",),
    "ubatch": ("n_ubatch",),
    "gpu_layers": ("n_gpu_layers",),
    "cache_type": ("cache_type_k", "cache_type_v"),
    "projector_on_device": ("mmproj_offload",),
    "image_tokens": ("image_max_tokens",),
}
"""What a parameter means to the memory of a load."""

NEUTRAL: JsonObject = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
"""What a request that samples does not state; llama.cpp's own values would cut the distribution."""


class LlamaCpp:
    """GGUF weights (role `weights`), and optionally an image projector (`mmproj`) and a Jinja file (`chat_template`).

    The file stands in place of the chat template in the header of the weights.
    """

    measured_at: Literal["engine", "gateway"] = "engine"

    def plan_engine(
        self, load: LoadRequest, *, port: int, python: str, host: str = LOOPBACK
    ) -> EngineLaunch | RemoteEngine:
        """Start the shim, which serves llama.cpp through `xllamacpp`.

        Raises:
            InvalidInput: a parameter is unknown or out of range.
            NotFound: a model file is missing.
        """
        params = _effective(load.engine_params)
        for role in load.files:
            if role not in ROLES:
                raise InvalidInput(f"llama.cpp takes no file in the role {role!r}.", cure=f"Give {', '.join(ROLES)}.")
        argv = [python, "-I", str(SHIM), "--host", host, "--port", str(port), "--alias", load.model]
        argv += ["--model", str(_file(load, "weights"))]
        if "mmproj" in load.files:
            argv += ["--mmproj", str(_file(load, "mmproj"))]
        if "chat_template" in load.files:
            argv += ["--chat-template", str(_file(load, "chat_template"))]
        for name, value in params.items():
            argv += [f"--{name.replace('_', '-')}", str(value)]
        return EngineLaunch(
            argv=tuple(argv),
            url=f"http://{host}:{port}",
            engine="llama.cpp",
            distribution="xllamacpp",
            tried=TRIED,
            warmup=greeting(load.model, cache_prompt=False),
        )

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Translate to llama.cpp's fields and formats of images; its prompt cache stays off.

        Repeated images would falsify TTFT with it.

        Raises:
            InvalidInput: the request is malformed, has a broken image, a field that llama.cpp does not support, or a
                format that it cannot enforce whole, or asks for a minimum length.
        """
        body = translate(request, formats=FORMATS, model_params=SAMPLING, optional=("n", "ignore_eos"), vendor=SAMPLING)
        body = dict(map_images(body, readable))
        constrain(body)
        body["cache_prompt"] = False
        if body.get("temperature") != 0:
            body = {**NEUTRAL, **body}
        return body

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:
        """Estimate weights, KV cache and process from the headers of the files; `memory` states the formulas.

        Raises:
            InvalidInput: a parameter is unknown or out of range, or a file is not what its role says.
            NotFound: a model file is missing.
        """
        if "weights" not in load.files:
            return None
        mmproj = _file(load, "mmproj") if "mmproj" in load.files else None
        memory = estimate_llama_memory(_file(load, "weights"), mmproj, _effective(load.engine_params))
        return MemoryEstimate(
            device_bytes=memory.device_bytes,
            host_bytes=memory.host_bytes + PROCESS_BYTES,
            source="static",
            knobs=KNOBS,
            parts={
                "weights": memory.device_weights + memory.host_weights - memory.projector,
                "KV cache": memory.device_cache + memory.host_cache,
                "vision tower": memory.projector,
                "process": PROCESS_BYTES,
            },
        )

    def knobs(self, load: LoadRequest) -> LoadKnobs | None:
        """Return which parameters set what, and the layers of the model.

        Raises:
            InvalidInput: a parameter is unknown or out of range, or the file is no GGUF.
            NotFound: a model file is missing.
        """
        if "weights" not in load.files:
            return None
        params = _effective(load.engine_params)
        has_projector = "mmproj" in load.files
        tokens = image_tokens_of(read_header(_file(load, "mmproj")), params) if has_projector else ImageTokens()
        return LoadKnobs(
            names=LOAD_KNOBS,
            values=params,
            layers=read_header(_file(load, "weights")).whole("block_count") or 0,
            image_tokens=tokens.max_tokens,
            min_image_tokens=tokens.min_limit,
            projector_on_device=has_projector and is_projector_on_device(params),
        )

    def estimate_whole(self, load: LoadRequest) -> MemoryEstimate | None:
        """Estimate with compute buffers, which lie on the accelerator if any layer does, and what an accelerator adds.

        That is the context of its driver, and the buffers of a vision tower on it.

        Raises:
            InvalidInput: a parameter is unknown or out of range, or a file is not what its role says.
            NotFound: a model file is missing.
        """
        estimate = self.estimate_memory(load)
        if estimate is None:
            return None
        params = _effective(load.engine_params)
        compute = estimate_compute(read_header(_file(load, "weights")), params)
        parts = {**estimate.parts, "compute buffers": compute}
        if params["n_gpu_layers"] == 0:
            return replace(estimate, host_bytes=estimate.host_bytes + compute, parts=parts)
        encoder = ENCODER_BYTES if "mmproj" in load.files and is_projector_on_device(params) else 0
        process = CONTEXT_HOST_BYTES - PROCESS_BYTES
        parts |= {"process": CONTEXT_BYTES + CONTEXT_HOST_BYTES} | ({"vision buffers": encoder} if encoder else {})
        return replace(
            estimate,
            device_bytes=estimate.device_bytes + compute + CONTEXT_BYTES + encoder,
            host_bytes=estimate.host_bytes + process,
            parts=parts,
        )

    def dry_run(self, load: LoadRequest, *, python: str) -> MemoryEstimate:
        """Let llama.cpp size its buffers, weights and cache without taking memory for them.

        Raises:
            InvalidInput: a parameter is unknown or out of range.
            NotFound: a model file is missing.
            Unavailable: the engine is not installed, or its dry run fails.
        """
        weights = replace(load, files={"weights": str(_file(load, "weights"))})
        launch = self.plan_engine(weights, port=0, python=python)
        argv = launch.argv if isinstance(launch, EngineLaunch) else ()
        return dry_run(
            (*argv, "--dry-run"),
            mmproj=_file(load, "mmproj") if "mmproj" in load.files else None,
            is_on_device=is_projector_on_device(_effective(load.engine_params)),
            process_bytes=PROCESS_BYTES,
            knobs=KNOBS,
        )


def _effective(given: JsonObject) -> dict[str, int | float | str]:
    """Return every pinned parameter, given or default."""
    params = read_engine_params("llama.cpp", PARAMS, given)
    return params | {"threads": params["threads"] or max(1, (os.cpu_count() or 1) // 2)}


def _file(load: LoadRequest, role: str) -> Path:
    path = load.files.get(role)
    if path is None:
        raise NotFound(
            f"The model {load.model} has no file in the role {role}.",
            cure="Name it under files in the entry of the model.",
        )
    if not Path(path).is_file():
        raise NotFound(f"There is no file {path}.", cure="Put it there, or correct the path in the entry of the model.")
    return Path(path)
