"""Estimate the buffers in which llama.cpp computes: what it takes beside weights and cache; pure but for the header.

The adapter's estimate leaves them out, so that nothing is refused which would fit; what is shown to people has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vlmhyperbench_llamacpp.memory import PADDING_CELLS, most_heads
from vlmhyperbench_sdk.gguf import GgufHeader

MASK_BYTES = 2
"""A cell of the attention mask is of 16 bits."""
SCORE_BYTES = 4
"""Without flash attention the scores of all heads are stored, and the mask too, in 32 bits."""

CONTEXT_BYTES: Final = 250 * 1024**2
"""What a process takes of an accelerator before any buffer: the context of its driver."""
CONTEXT_HOST_BYTES: Final = 150 * 1024**2
"""What a process takes of the machine's memory where it uses an accelerator."""
ENCODER_BYTES: Final = 1024**3
"""What a vision tower computes in on an accelerator, at most usually: headers do not state its buffers."""


def estimate_compute(header: GgufHeader, params: Mapping[str, int | float | str]) -> int:
    """Estimate the compute buffer of a model: max(logits, attention + activations) of a batch, and its attention mask.

    Logits are `n_vocab` values of 32 bits for each token of a physical batch: the tokens that the file lists, or the
    `vocab_size` that it states where it lists none (llama.cpp, `llama-vocab.cpp`). Activations are two rows of the
    feed-forward layer and eight of the embedding. The mask has a cell of 16 bits for each cell of a slot's context and
    each token of the batch. Without flash attention (`flash_attn: off`) each head has a score for each of these cells.
    """
    ubatch = min(int(params["n_ubatch"]), int(params["n_batch"]), int(params["n_ctx"]) * int(params["parallel"]))
    cells = -(-int(params["n_ctx"]) // PADDING_CELLS) * PADDING_CELLS
    rows = 2 * (header.whole("feed_forward_length") or 0) + 8 * (header.whole("embedding_length") or 0)
    vocabulary = header.text_counts.get("tokenizer.ggml.tokens") or header.whole("vocab_size") or 0
    is_flash = params.get("flash_attn", "on") == "on"
    scores = 0 if is_flash else SCORE_BYTES * most_heads(header) * cells * ubatch
    mask = (MASK_BYTES if is_flash else SCORE_BYTES) * cells * ubatch
    return max(4 * ubatch * vocabulary, scores + 4 * ubatch * rows) + mask
