"""Write small models with random weights: `models.py KIND FOLDER TOKENIZER`, in an engine's environment.

Each kind keeps something else of its past: `llama` and `wide` all keys, `sliding` those of a window, `hybrid` the state
of a convolution in half of its layers. Heads of `wide` have 32 values, since vLLM on a processor takes no 16. The
tokenizer and its chat template come from a folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Lfm2Config, LlamaConfig, MistralConfig

VOCABULARY = 267
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def main(kind: str, folder: Path, tokenizer: Path) -> None:
    """Write the folder of a model."""
    torch.manual_seed(1)
    config = {
        "llama": lambda: LlamaConfig(**SMALL),
        "wide": lambda: LlamaConfig(**{**SMALL, "hidden_size": 128}),
        "sliding": lambda: MistralConfig(**SMALL, head_dim=16, sliding_window=8),
        "hybrid": lambda: Lfm2Config(
            **SMALL, layer_types=["conv", "full_attention", "conv", "full_attention"], block_auto_adjust_ff_dim=False
        ),
    }[kind]()
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
