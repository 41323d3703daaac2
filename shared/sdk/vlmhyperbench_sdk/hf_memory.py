"""Estimate the memory of a Hugging Face model from its configuration and its tensors; pure.

need = weights + KV cache + activations of the vision tower. The memory of the engine itself (its process, the context
of CUDA, captured graphs) is not in it: a comparison with free memory needs a margin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from vlmhyperbench_sdk.types import JsonObject

DTYPE_BYTES: Mapping[str, int] = {"float32": 4, "float16": 2, "bfloat16": 2, "fp8": 1}
"""Type of weights or cache, as engines name it → bytes of an element."""

TENSOR_BYTES: Mapping[str, int] = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2}
"""Type of a tensor, as safetensors names it → bytes of an element; others have 1."""

FLOAT_TENSORS = frozenset({"F64", "F32", "F16", "BF16"})
"""Types that an engine converts to its own at the load; quantised tensors keep theirs."""

TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
DEFAULT_PATCHES = 4096
"""Patches of an image where the configuration does not bound them: 1,024 x 1,024 pixels in patches of 16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HfMemory:
    """The parts of an estimate, in bytes."""

    weights_bytes: int
    kv_bytes: int
    vision_bytes: int

    @property
    def total_bytes(self) -> int:
        """The sum of the parts."""
        return self.weights_bytes + self.kv_bytes + self.vision_bytes

    @property
    def parts(self) -> dict[str, int]:
        """The parts by their names, for `MemoryEstimate.parts`."""
        return {"weights": self.weights_bytes, "KV cache": self.kv_bytes, "vision tower": self.vision_bytes}


def estimate_hf_memory(
    config: JsonObject,
    elements: Mapping[str, int],
    *,
    tokens: int,
    dtype: str,
    images: int = 1,
    weights_dtype: str | None = None,
    kv_dtype: str = "auto",
) -> HfMemory:
    """Estimate the memory of a model.

    Args:
        config: The content of `config.json`.
        elements: Type of tensors → number of their elements (`hf_folder.count_elements`).
        tokens: Tokens that the KV cache must hold, of all answers at a time.
        dtype: Type in which the model computes (`hf_server.resolve_dtype`).
        images: Images that the vision tower encodes at a time.
        weights_dtype: Type of the weights where the engine quantises them at the load; None: `dtype`.
        kv_dtype: Type of the KV cache; `auto` is `dtype`.

    Sources: KV cache, 2 x layers x KV heads x head size x bytes for each token: Kwon et al. 2023, arXiv:2309.06180,
    section 3; with latent attention, layers x (latent + rotary) x bytes: DeepSeek-AI 2024, arXiv:2405.04434, section
    2.1; layers with a sliding window hold at most its length. Vision tower: patches x (4 x hidden + intermediate) x
    bytes, the activations of one layer: attention keeps no matrix (Dao et al. 2022, arXiv:2205.14135).
    """
    compute, stored = DTYPE_BYTES[dtype], DTYPE_BYTES[weights_dtype or dtype]
    weights = sum(
        count * (stored if kind in FLOAT_TENSORS else TENSOR_BYTES.get(kind, 1)) for kind, count in elements.items()
    )
    return HfMemory(
        weights_bytes=weights,
        kv_bytes=_kv_values(text_config(config), tokens) * DTYPE_BYTES.get(kv_dtype, compute),
        vision_bytes=images * _vision_values(_object(config.get("vision_config"))) * compute,
    )


def text_config(config: JsonObject) -> JsonObject:
    """Return the part of a configuration that describes the language model."""
    return next((nested for name in TEXT_CONFIGS if (nested := _object(config.get(name)))), config)


def context_tokens(config: JsonObject) -> int | None:
    """Return the model's own maximum of tokens in a prompt and its answer; None if it states none."""
    return _whole(text_config(config), "max_position_embeddings") or _whole(config, "max_position_embeddings") or None


def _kv_values(text: JsonObject, tokens: int) -> int:
    layers = _whole(text, "num_hidden_layers")
    if latent := _whole(text, "kv_lora_rank"):
        return layers * tokens * (latent + _whole(text, "qk_rope_head_dim"))
    heads = _whole(text, "num_attention_heads", 1)
    head_size = _whole(text, "head_dim") or _whole(text, "hidden_size") // max(1, heads)
    values = 2 * _whole(text, "num_key_value_heads", heads) * head_size
    window = _whole(text, "sliding_window")
    kinds = text.get("layer_types")
    sliding = kinds.count("sliding_attention") if window and isinstance(kinds, list) else 0
    return values * ((layers - sliding) * tokens + sliding * min(tokens, window))


def _vision_values(vision: JsonObject) -> int:
    hidden = _whole(vision, "hidden_size") or _whole(vision, "embed_dim")
    side, patch = _whole(vision, "image_size"), _whole(vision, "patch_size")
    patches = (side // patch) ** 2 if side and patch else DEFAULT_PATCHES
    return patches * (4 * hidden + _whole(vision, "intermediate_size", 4 * hidden))


def _object(value: object) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _whole(config: JsonObject, name: str, default: int = 0) -> int:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
