"""Estimate the memory of a Hugging Face model from `config.json` and the headers of its safetensors files."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from vlmhyperbench_sdk.protocols import MemoryEstimate
from vlmhyperbench_sdk.types import JsonObject

PROCESS_BYTES = 1024**3
"""A process with torch and transformers, and a context of CUDA, without any model."""
_DEVICE_OVERHEAD_BYTES = 512 * 1024**2
_MAX_HEADER_BYTES = 100_000_000
_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
"""Type of safetensors → bytes; others have 1."""
_OF_DTYPE = {"float32": 4, "bfloat16": 2, "float16": 2}
_FLOATS = ("F64", "F32", "F16", "BF16")


def estimate(files: Sequence[Path], params: Mapping[str, int | str]) -> MemoryEstimate:
    """Return weights + KV cache + activations of the vision tower, all on the device, unless that is the processor.

    Weights: elements of all tensors by the bytes of `dtype`; integer tensors (quantised weights) keep their type.
    KV cache: 2 x layers x KV heads x head size x bytes for each token (Kwon et al., "Efficient Memory Management for
    Large Language Model Serving with PagedAttention", SOSP 2023, section 3), for `max_batch` answers of `max_context`
    tokens. Vision tower: the activations of one layer, patches x (4 x hidden + intermediate) x bytes, for a full
    image; attention is not materialised by `sdpa` (Dao et al., "FlashAttention", NeurIPS 2022).
    """
    config = _read_config(files)
    text, vision = _text_config(config), _object(config.get("vision_config"))
    dtype = str(params["dtype"])
    weights, stored = _weights(files, _OF_DTYPE.get(dtype))
    size = _OF_DTYPE.get(dtype) or _OF_DTYPE.get(str(config.get("dtype") or config.get("torch_dtype"))) or stored
    tokens = int(params["max_batch"]) * min(int(params["max_context"]), _int(text, "max_position_embeddings", 2**62))
    total = weights + tokens * _kv_bytes_per_token(text) * size + _vision_bytes(vision, size)
    if params["device"] == "cpu":
        return MemoryEstimate(device_bytes=0, host_bytes=total + PROCESS_BYTES, source="static")
    return MemoryEstimate(device_bytes=total + _DEVICE_OVERHEAD_BYTES, host_bytes=PROCESS_BYTES, source="static")


def _read_config(files: Sequence[Path]) -> JsonObject:
    path = next((path for path in files if path.name == "config.json"), None)
    try:
        return _object(json.loads(path.read_text(encoding="utf-8"))) if path else {}
    except (OSError, ValueError):
        return {}


def _text_config(config: JsonObject) -> JsonObject:
    for name in ("text_config", "llm_config", "language_config"):
        if nested := _object(config.get(name)):
            return nested
    return config


def _kv_bytes_per_token(text: JsonObject) -> int:
    """Return the number of values that a token adds to the cache."""
    heads = _int(text, "num_attention_heads", 1)
    head = _int(text, "head_dim", _int(text, "hidden_size", 0) // max(1, heads))
    return 2 * _int(text, "num_hidden_layers", 0) * _int(text, "num_key_value_heads", heads) * head


def _vision_bytes(vision: JsonObject, size: int) -> int:
    side, patch = _int(vision, "image_size", 1024), _int(vision, "patch_size", 14)
    hidden = _int(vision, "hidden_size", _int(vision, "embed_dim", 0))
    patches = (side // max(1, patch)) ** 2
    return patches * (4 * hidden + _int(vision, "intermediate_size", 4 * hidden)) * size


def _weights(files: Sequence[Path], wanted: int | None) -> tuple[int, int]:
    """Return the bytes of all weights, and those of an element of the largest share of them."""
    total, by_size = 0, {2: 0}
    for path in files:
        if path.suffix == ".safetensors":
            for kind, elements in _tensors(path):
                size = _BYTES.get(kind, 1)
                by_size[size] = by_size.get(size, 0) + elements
                total += elements * (wanted if wanted and kind in _FLOATS else size)
        elif path.suffix in {".bin", ".pt", ".pth"} and path.is_file():
            total += path.stat().st_size
    return total, max(by_size, key=lambda size: by_size[size])


def _tensors(path: Path) -> list[tuple[str, int]]:
    """Read type and number of elements of each tensor; a file that cannot be read has its size as bytes.

    The header is a length in 8 bytes and a JSON object (safetensors, "Format").
    """
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > _MAX_HEADER_BYTES:
                raise ValueError(length)
            header = json.loads(file.read(length))
        tensors = [entry for name, entry in header.items() if name != "__metadata__"]
        return [(str(entry["dtype"]), math.prod(entry["shape"])) for entry in tensors]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
        return [("U8", path.stat().st_size)] if path.is_file() else []


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _int(config: JsonObject, name: str, default: int) -> int:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
