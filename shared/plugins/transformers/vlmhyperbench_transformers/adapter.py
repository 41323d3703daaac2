"""The transformers adapter: a Hugging Face model behind the server in `shim`, with all varying defaults pinned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from vlmhyperbench_sdk.chat import translate
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import LOOPBACK, EngineLaunch, MemoryEstimate, RemoteEngine
from vlmhyperbench_sdk.types import JsonObject, JsonValue
from vlmhyperbench_transformers.memory import estimate

SHIM = Path(__file__).parent / "shim" / "__main__.py"
CONFIG = "config.json"
"""Role, and name, of the file whose folder holds the model."""

INTEGERS: Mapping[str, tuple[int, int, int]] = {
    "max_context": (4096, 16, 10_000_000),
    "max_batch": (8, 1, 1024),
    "max_waiting": (256, 0, 100_000),
    "threads": (0, 0, 1024),
}
"""Parameter → default, minimum, maximum.

`max_context`: tokens of a prompt and its answer; the model's own maximum bounds it. `max_batch`: answers that are
decoded together. `max_waiting`: requests that may wait for a place; one more is refused with 429. `threads`: threads
of torch on a processor, 0 for its own choice.
"""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "dtype": ("auto", "float32", "bfloat16", "float16"),
    "attention": ("sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention"),
    "compile": ("off", "default", "max-autotune-no-cudagraphs"),
    "device_map": ("none", "auto", "balanced", "balanced_low_0", "sequential"),
    "trust_remote_code": ("off", "on"),
}
"""Parameter → allowed values; the first is the default. `dtype: auto` is that of the weights."""

_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")

VENDOR = ("top_k", "min_p", "repetition_penalty", "skip_special_tokens")
"""Fields beyond OpenAI's that the server supports, in a request or its `model_params`."""

_REFUSED = ("tools", "tool_choice", "parallel_tool_calls", "reasoning_effort")
_ENV = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class Transformers:
    """A folder of a Hugging Face model: one role for each file, which is the file's name; one is `config.json`."""

    measured_at: Literal["engine", "gateway"] = "engine"

    def plan_engine(
        self, load: LoadRequest, *, port: int, python: str, host: str = LOOPBACK
    ) -> EngineLaunch | RemoteEngine:
        """Start the server in `shim` with the engine's interpreter.

        Raises:
            InvalidInput: a parameter is unknown or out of range, or the files are not in one folder.
            NotFound: a model file is missing.
        """
        params = effective(load.engine_params)
        argv = [
            python,
            "-I",
            str(SHIM),
            "--host",
            host,
            "--port",
            str(port),
            "--name",
            load.model,
            "--folder",
            str(_folder(load)),
        ]
        for name, value in params.items():
            argv += [f"--{name.replace('_', '-')}", str(value)]
        warmup: JsonObject = {
            "model": load.model,
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 2,
            "ignore_eos": True,
            "temperature": 0,
        }
        return EngineLaunch(
            argv=tuple(argv),
            url=f"http://{host}:{port}",
            env=_ENV,
            engine="transformers",
            distribution="transformers",
            warmup=warmup,
        )

    def to_engine(self, request: JsonObject) -> dict[str, JsonValue]:
        """Translate to the server's fields, which are OpenAI's and `VENDOR`.

        Raises:
            InvalidInput: the request is malformed, has a field that the server does not support, or has tools.
        """
        body = translate(
            request,
            formats=("text", "json_object", "json_schema", "regex"),
            model_params=VENDOR,
            optional=("n", "ignore_eos", "min_tokens"),
            vendor=VENDOR,
        )
        for name in _REFUSED:
            if name in body:
                raise InvalidInput(
                    f"transformers cannot do what {name} asks for.", cure=f"Leave {name} out.", code="unsupported"
                )
        return body

    def estimate_memory(self, load: LoadRequest) -> MemoryEstimate | None:
        """Estimate weights, KV cache and the activations of the vision tower; `memory.estimate` states the formulas."""
        folder = load.files.get(CONFIG)
        if folder is None or not Path(folder).is_file():
            return None
        return estimate([Path(path) for path in load.files.values()], effective(load.engine_params))


_CORRECT = "Correct it in engine_params."


def effective(given: JsonObject) -> dict[str, int | str]:
    """Return every parameter, given or default.

    Raises:
        InvalidInput: a parameter is unknown or out of range.
    """
    for name in given:
        if name not in INTEGERS and name not in CHOICES and name != "device":
            known = ", ".join((*INTEGERS, *CHOICES, "device"))
            raise InvalidInput(f"transformers has no engine parameter {name!r}.", cure=f"Choose one of {known}.")
    params: dict[str, int | str] = {}
    for name, (default, minimum, maximum) in INTEGERS.items():
        value = given.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            message = f"transformers' {name} must be a whole number between {minimum} and {maximum}."
            raise InvalidInput(message, cure=_CORRECT)
        params[name] = value
    for name, allowed in CHOICES.items():
        choice = given.get(name, allowed[0])
        if choice not in allowed:
            raise InvalidInput(f"transformers' {name} must be one of {', '.join(allowed)}.", cure=_CORRECT)
        params[name] = str(choice)
    device = given.get("device", "auto")
    if not isinstance(device, str) or not _DEVICE.fullmatch(device):
        raise InvalidInput("transformers' device must be auto, cpu, cuda or cuda:N.", cure=_CORRECT)
    if params["device_map"] != "none" and device != "auto":
        raise InvalidInput("transformers takes either device or device_map.", cure="Leave one of them out.")
    return {**params, "device": device}


def _folder(load: LoadRequest) -> Path:
    if CONFIG not in load.files:
        raise NotFound(
            f"The model {load.model} has no file in the role {CONFIG}.",
            cure="Name each file of its folder under files in the entry of the model, with its name as the role.",
        )
    folder = Path(load.files[CONFIG]).parent
    for role, name in load.files.items():
        path = Path(name)
        if not path.is_file():
            raise NotFound(
                f"There is no file {path}.", cure="Put it there, or correct the path in the entry of the model."
            )
        if path != folder / role:
            raise InvalidInput(
                f"The file {path} of the model {load.model} is not {folder / role}.",
                cure="Put all files of the model into one folder, and give each its name as its role.",
            )
    return folder
