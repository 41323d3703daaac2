"""The transformers adapter: a Hugging Face model behind the server in `shim`, with all varying defaults pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from vlmhyperbench_sdk.chat import FORMATS, OPTIONAL, greeting, translate
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.hf_folder import CONFIG, count_elements, model_folder, read_config
from vlmhyperbench_sdk.hf_memory import context_tokens, estimate_hf_memory
from vlmhyperbench_sdk.hf_server import DTYPE, OFFLINE, read_server_params
from vlmhyperbench_sdk.params import Choice, EngineParams, Flag, Integer, Pattern
from vlmhyperbench_sdk.protocols import LOOPBACK, EngineLaunch, MemoryEstimate, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue

SHIM = Path(__file__).parent / "shim" / "__main__.py"

TRIED = ("5.23",)
"""Versions of transformers with which the tests of this adapter were run."""

PARAMS: EngineParams = {
    "max_context": Integer(default=4096, minimum=16, maximum=10_000_000),
    "max_batch": Integer(default=8, minimum=1, maximum=1024),
    "max_waiting": Integer(default=256, minimum=0, maximum=100_000),
    "threads": Integer(default=0, minimum=0, maximum=1024),
    "dtype": DTYPE,
    "attention": Choice(("sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention")),
    "compile": Choice(("off", "default", "max-autotune-no-cudagraphs")),
    "device": Pattern(default="auto", pattern=r"auto|cpu|cuda(:\d{1,3})?", form="auto, cpu, cuda or cuda:N"),
    "device_map": Choice(("none", "auto", "balanced", "balanced_low_0", "sequential")),
    "sampling_defaults": Choice(("engine", "model")),
    "trust_remote_code": Flag(),
}
"""All parameters; README.md says what each does. 0 threads: half of the cores."""

VENDOR = ("top_k", "min_p", "repetition_penalty", "skip_special_tokens")
"""Fields beyond OpenAI's that the server supports, in a request or its `model_params`."""

_REFUSED = ("tools", "tool_choice", "parallel_tool_calls", "reasoning_effort")


class Transformers:
    """A folder of a Hugging Face model: one role for each file, which is the file's name; one is `config.json`."""

    measured_at: Literal["engine", "gateway"] = "engine"

    def plan_engine(
        self, load: LoadRequest, *, port: int, python: str, host: str = LOOPBACK
    ) -> EngineLaunch | RemoteEngine:
        """Start the server in `shim` with the engine's interpreter.

        Raises:
            InvalidInput: a parameter is unknown or out of range, the files are not in one folder, or state no type.
            NotFound: a model file is missing.
        """
        folder, params = model_folder(load), _read(load)
        argv = [python, "-I", str(SHIM), "--host", host, "--port", str(port), "--name", load.model]
        argv += ["--folder", str(folder)]
        for name, value in params.items():
            written = ("on" if value else "off") if isinstance(value, bool) else str(value)
            argv += [f"--{name.replace('_', '-')}", written]
        return EngineLaunch(
            argv=tuple(argv),
            url=f"http://{host}:{port}",
            env=OFFLINE,
            engine="transformers",
            distribution="transformers",
            tried=TRIED,
            warmup=greeting(load.model, max_tokens=2, ignore_eos=True),
        )

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Translate to the server's fields, which are OpenAI's and `VENDOR`.

        Raises:
            InvalidInput: the request is malformed, has a field that the server does not support, or has tools.
        """
        body = translate(request, formats=FORMATS, model_params=VENDOR, optional=OPTIONAL, vendor=VENDOR)
        for name in _REFUSED:
            if name in body:
                raise InvalidInput(
                    f"transformers cannot do what {name} asks for.", cure=f"Leave {name} out.", code="unsupported"
                )
        return body

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:
        """Estimate the least memory with which the model loads and answers, on all of its devices together.

        It is the weights, a KV cache for one answer of `max_context` tokens, and one image in the vision tower
        (`hf_memory` states the formulas); more memory holds more answers at a time, up to `max_batch`.
        """
        if CONFIG not in load.files:
            return None
        params, config = _read(load), read_config(load)
        wanted = int(params["max_context"])
        memory = estimate_hf_memory(
            config,
            count_elements(load.files),
            tokens=min(wanted, context_tokens(config) or wanted),
            dtype=str(params["dtype"]),
        )
        on_device = 0 if params["device"] == "cpu" else memory.total_bytes
        return MemoryEstimate(
            device_bytes=on_device,
            host_bytes=memory.total_bytes - on_device + _PROCESS_BYTES,
            source="static",
            knobs=("max_context", "dtype"),
            parts={**memory.parts, "process": _PROCESS_BYTES},
        )


_PROCESS_BYTES = 400 * 1024**2
"""A process with torch and transformers, without any model, measured on a processor."""


def _read(load: LoadRequest) -> dict[str, int | float | str]:
    """Return every parameter, given or default.

    Raises:
        InvalidInput: a parameter is unknown or out of range, both device and device_map are given, or the model states
            no type.
        NotFound: the model has no `config.json`.
    """
    params = read_server_params("transformers", PARAMS, load)
    if params["device_map"] != "none" and params["device"] != "auto":
        raise InvalidInput("transformers takes either device or device_map.", cure="Leave one of them out.")
    return params
