"""Estimate the memory that llama.cpp takes for a model, from the headers of its files; pure but for reading them.

It is what llama.cpp allocates for sure: weights, KV cache, projector, process. Its buffers for computing, up to a few
hundred MiB, are not in it, so that nothing is refused which would fit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.gguf import GgufHeader, read_weights

CACHE_BLOCKS: Mapping[str, tuple[int, int]] = {
    "f32": (1, 4),
    "f16": (1, 2),
    "bf16": (1, 2),
    "q8_0": (32, 34),
    "q4_0": (32, 18),
}
"""Type of the cache → values and bytes of a block (ggml's table of types)."""

PADDING_CELLS = 256
PROCESS_BYTES = 35 * 1024**2
"""Server without a model, measured."""

WINDOW_PATTERNS: Mapping[str, int] = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "cohere2": 4, "gpt-oss": 2}
"""Architecture → every how many layers one has no window, where files do not state it (llama.cpp, `load_hparams`)."""

MAX_LAYERS: Final = 512
"""llama.cpp's `LLAMA_MAX_LAYERS`."""

_LAYER = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaMemory:
    """The parts of an estimate in bytes, on accelerators and on the host."""

    device_weights: int
    host_weights: int
    device_cache: int
    host_cache: int
    projector: int
    """Part of the weights: the image projector with its vision tower."""

    @property
    def device_bytes(self) -> int:
        """What accelerators need."""
        return self.device_weights + self.device_cache

    @property
    def host_bytes(self) -> int:
        """What the machine needs, without the process."""
        return self.host_weights + self.host_cache


def estimate_llama_memory(weights: Path, mmproj: Path | None, params: Mapping[str, int | float | str]) -> LlamaMemory:
    """Estimate the memory of a model with the parameters of its load.

    KV cache of a layer: (row of keys + row of values) x cells x slots. A row is the KV heads times the size of a head,
    in blocks of the cache's type. Cells are the context of a slot, padded to 256; a layer with a sliding window has
    cells for the window and one batch (llama.cpp, `llama-kv-cache.cpp`, `llama-kv-cache-iswa.cpp`). The output is
    offloaded first, then layers from the last one on; the embeddings of the input stay on the host (`llama-model.cpp`).

    Raises:
        InvalidInput: a file is no GGUF, or cut off, or a part of a model, or has no weights or more layers than a model
            may have, or a projector and a model are confused.
        OSError: a file cannot be read.
    """
    header = read_weights(weights)
    if header.is_projector:
        raise InvalidInput(f"{weights} is an image projector.", cure="Give it as mmproj, and its model as weights.")
    if mmproj is not None and not read_weights(mmproj).is_projector:
        raise InvalidInput(f"{mmproj} is no image projector.", cure="Give the mmproj file that belongs to the model.")
    layers = header.whole("block_count") or _stored_layers(header)
    if layers > MAX_LAYERS:
        message = f"{weights} states {layers:,} layers; llama.cpp takes at most {MAX_LAYERS}."
        raise InvalidInput(message, cure="Give a whole model, or fetch it again.")
    wanted = int(params["n_gpu_layers"])
    first_on_device = max(layers + 1 - (layers + 1 if wanted < 0 else wanted), 0)
    on_device = sum(size for name, size in header.tensor_bytes.items() if _place(name, layers) >= first_on_device)
    if wanted and "output.weight" not in header.tensor_bytes and first_on_device <= layers:
        on_device += header.tensor_bytes.get("token_embd.weight", 0)  # tied: the output is a copy of it
    cache = [_cache_bytes(header, layer, layers, params) for layer in range(layers)]
    projector = mmproj.stat().st_size if mmproj is not None else 0
    embeddings_and_rest = sum(
        size for name, size in header.tensor_bytes.items() if _place(name, layers) < first_on_device
    )
    return LlamaMemory(
        device_weights=on_device + (projector if is_projector_on_device(params) else 0),
        host_weights=embeddings_and_rest + (0 if is_projector_on_device(params) else projector),
        device_cache=sum(cache[first_on_device:]),
        host_cache=sum(cache[:first_on_device]),
        projector=projector,
    )


def is_projector_on_device(params: Mapping[str, int | float | str]) -> bool:
    """Return whether an image projector is loaded on an accelerator."""
    return params["n_gpu_layers"] != 0 and params.get("mmproj_offload", "on") == "on"


def most_heads(header: GgufHeader) -> int:
    """Return the number of attention heads, of the layer that has most."""
    value = header.of_model("attention.head_count")
    heads = value if isinstance(value, list) else [value]
    return max((int(count) for count in heads if isinstance(count, int)), default=0)


def _stored_layers(header: GgufHeader) -> int:
    """Return how many layers have tensors: an architecture may state its number by another key."""
    return max((_place(name, -1) + 1 for name in header.tensor_bytes), default=0)


def _place(tensor: str, layers: int) -> int:
    """Return the layer of a tensor: the input's embeddings are before all of them, the output after them."""
    match = _LAYER.match(tensor)
    if match is not None:
        return int(match[1])
    return layers if tensor.startswith("output") else -1


def _cache_bytes(header: GgufHeader, layer: int, layers: int, params: Mapping[str, int | float | str]) -> int:
    heads = _of_layer(header, "attention.head_count_kv", layer)
    all_heads = _of_layer(header, "attention.head_count", layer) or 1
    heads = all_heads if heads is None else heads
    size = (header.whole("embedding_length") or 0) // all_heads
    is_latent = header.whole("attention.key_length_mla") is not None  # one latent vector serves as keys and values
    keys = _row(str(params["cache_type_k"]), heads * (header.whole("attention.key_length") or size))
    values = (
        0 if is_latent else _row(str(params["cache_type_v"]), heads * (header.whole("attention.value_length") or size))
    )
    cells = _padded(int(params["n_ctx"]))
    window = header.whole("attention.sliding_window")
    if window and _has_window(header, layer, layers):
        cells = min(cells, _padded(window + int(params["n_ubatch"])))
    return (keys + values) * cells * int(params["parallel"])


def _has_window(header: GgufHeader, layer: int, layers: int) -> bool:
    """Return whether a layer has the window; where nothing states it, all have, which is the least memory."""
    stated = header.of_model("attention.sliding_window_pattern")
    if isinstance(stated, list) and len(stated) == layers:
        return bool(stated[layer])
    period = stated if isinstance(stated, int) else WINDOW_PATTERNS.get(str(header.values.get("general.architecture")))
    return not period or layer % period < period - 1


def _of_layer(header: GgufHeader, name: str, layer: int) -> int | None:
    value = header.of_model(name)
    if isinstance(value, list):
        return int(value[layer]) if layer < len(value) else None
    return value if isinstance(value, int) else None


def _row(kind: str, values: int) -> int:
    block, size = CACHE_BLOCKS[kind]
    return values // block * size


def _padded(cells: int) -> int:
    return -(-cells // PADDING_CELLS) * PADDING_CELLS
