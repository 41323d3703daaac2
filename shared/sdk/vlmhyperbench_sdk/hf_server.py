"""What the adapters of servers for Hugging Face folders share, so that an entry means the same on each of them.

Each server has its own `auto` for the type in which a model computes: for float32 weights vLLM and SGLang take 16 bits,
and transformers 32. Answers, speeds and memory of one entry would differ by engine without anybody having chosen it, so
`resolve_dtype` is the only rule: what it returns is what the engine is started with and what an estimate counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from vlmhyperbench_sdk.chat import constraint_of
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.hf_folder import count_elements, read_config
from vlmhyperbench_sdk.hf_memory import context_tokens, text_config
from vlmhyperbench_sdk.params import Choice, EngineParams, Flag, Integer, read_engine_params
from vlmhyperbench_sdk.types import JsonObject, JsonValue

OFFLINE: Final[Mapping[str, str]] = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "OTEL_SDK_DISABLED": "true",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Environment of a server that fetches nothing and has no telemetry or tracing."""

DTYPE: Final = Choice(("auto", "bfloat16", "float16", "float32"))
"""The parameter `dtype`, which `resolve_dtype` resolves."""

SERVER_PARAMS: Final[EngineParams] = {
    "dtype": DTYPE,
    "tensor_parallel": Integer(default=1, minimum=1, maximum=64),
    "max_model_len": Integer(default=0, minimum=0, maximum=10_000_000),
    "max_num_seqs": Integer(default=64, minimum=1, maximum=4096),
    "images_per_prompt": Integer(default=8, minimum=0, maximum=1000),
    "seed": Integer(default=0, minimum=0, maximum=2**32 - 1),
    "prefix_cache": Flag(),
    "enforce_eager": Flag(),
    "sampling_defaults": Choice(("engine", "model")),
    "trust_remote_code": Flag(),
}
"""Parameters that vLLM and SGLang have alike; 0 of `max_model_len` lets the adapter choose."""

DEFAULT_CONTEXT_TOKENS: Final = 8192
"""Largest context that an adapter chooses by itself: longer contexts of models often fit into no memory."""

MAX_SEED: Final = 2**63 - 1

JSON_STYLE: Final[JsonObject] = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
"""Space in JSON for llguidance: at most one after a comma or a colon, since small models repeat it without end."""

_TENSORS: Final[Mapping[str, str]] = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
"""Type of a tensor, as safetensors names it → the same as engines name it."""


def read_server_params(engine: str, table: EngineParams, load: LoadRequest) -> dict[str, int | float | str]:
    """Return every parameter of a load, given or default, with those that the model decides in their place.

    They are `dtype` and, where the table has it, `max_model_len`, of which 0 is the model's own maximum, at most
    `DEFAULT_CONTEXT_TOKENS`.

    Raises:
        InvalidInput: a parameter is unknown or out of range, or the model states no type.
        NotFound: the model has no `config.json`.
    """
    params = read_engine_params(engine, table, load.engine_params)
    config = read_config(load)
    params["dtype"] = resolve_dtype(str(params["dtype"]), config, count_elements(load.files))
    if params.get("max_model_len") == 0:
        params["max_model_len"] = min(context_tokens(config) or DEFAULT_CONTEXT_TOKENS, DEFAULT_CONTEXT_TOKENS)
    return params


def resolve_dtype(stated: str, config: JsonObject, elements: Mapping[str, int]) -> str:
    """Return the type in which every engine loads a model and computes; `auto` is the model's own.

    That is what `config.json` states as `dtype` (formerly `torch_dtype`), for the whole or for its language model, else
    the type of most of its weights.

    Args:
        stated: The parameter `dtype`.
        config: The content of `config.json`.
        elements: Type of tensors → number of their elements (`hf_folder.count_elements`).

    Raises:
        InvalidInput: it is `auto`, and neither the configuration nor the weights state one of the types of `DTYPE`.
    """
    if stated != DTYPE.values[0]:
        return stated
    for part in (config, text_config(config)):
        if (own := str(part.get("dtype") or part.get("torch_dtype"))) in DTYPE.values[1:]:
            return own
    known = {name: elements[kind] for kind, name in _TENSORS.items() if elements.get(kind)}
    if not known:
        raise InvalidInput(
            "Neither config.json nor the weights state a type in which the model computes.",
            cure=f"Set dtype in engine_params to one of {', '.join(DTYPE.values[1:])}.",
        )
    return max(known, key=lambda name: known[name])


def check_seed(engine: str, body: JsonObject) -> None:
    """Refuse a seed of a translated request that does not fit into the engine's 64 bits with a sign.

    Raises:
        InvalidInput: it does not.
    """
    seed = body.get("seed")
    if isinstance(seed, int) and seed > MAX_SEED:
        raise InvalidInput(f"{engine}'s seed must be at most {MAX_SEED}.", cure="Choose a smaller seed.")


def take_pattern(body: dict[str, JsonValue], *, constraints: Collection[str]) -> str | None:
    """Take the regular expression out of a translated request, for a server that has another field for it.

    Formats of JSON become a schema with a name, which these servers require, and with `JSON_STYLE`.

    Args:
        body: The request; its `response_format` is removed where it is a regular expression.
        constraints: The server's own fields that constrain an answer.

    Raises:
        InvalidInput: the request has one of these fields beside a response format.
    """
    wanted = constraint_of(body, others=constraints)
    if wanted is None:
        return None
    if wanted["type"] == "regex":
        del body["response_format"]
        return str(wanted["regex"])
    wrapper = wanted.get("json_schema")
    given = wrapper if isinstance(wrapper, Mapping) else {"schema": {"type": "object"}}
    schema = given["schema"]
    own = schema if isinstance(schema, Mapping) else {}
    styled: JsonValue = {"name": "answer", **given, "schema": {"x-guidance": JSON_STYLE, **own}}
    body["response_format"] = {"type": "json_schema", "json_schema": styled}
    return None
