"""Decode prompts of a model with rotary positions in three dimensions, by `generate` and by the server's decoder.

It runs in the engine's environment and prints the tokens of both as JSON. The model is a Qwen2.5-VL with random
weights; its processor is not needed, because the decoder takes the tensors of a prompt.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

SHIM = Path(__file__).parents[2] / "shared/plugins/transformers/vlmhyperbench_transformers/shim/__main__.py"
VOCABULARY, IMAGE, BEGIN, END = 200, 10, 11, 12
NEW_TOKENS = 20
PATCH_VALUES = 3 * 2 * 14 * 14


def model() -> Any:
    """Return the model."""
    torch.manual_seed(1)
    config = Qwen2_5_VLConfig(
        image_token_id=IMAGE,
        video_token_id=13,
        vision_start_token_id=BEGIN,
        vision_end_token_id=END,
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 64,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 56,
            "fullatt_block_indexes": [1],
        },
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "initializer_range": 0.3,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
        },
    )
    made = Qwen2_5_VLForConditionalGeneration(config).eval()
    made.generation_config.eos_token_id = None
    made.generation_config.pad_token_id = 0
    return made


def prompt(words: int, side: int) -> dict[str, torch.Tensor]:
    """Return a prompt with an image of `side` x `side` patches, or none, and a number of words."""
    seen = [BEGIN, *[IMAGE] * (side * side // 4), END] if side else []
    ids = torch.tensor([[20, *seen, *range(30, 30 + words)]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == IMAGE).int()}
    if side:
        inputs["pixel_values"] = torch.randn(side * side, PATCH_VALUES)
        inputs["image_grid_thw"] = torch.tensor([[1, side, side]])
    return inputs


def main() -> None:
    """Print the tokens of both, and the number of dimensions of the positions."""
    spec = importlib.util.spec_from_file_location("shim_main", SHIM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.find_package()
    from vlmhyperbench_transformers.shim.decoding import Decoder

    made = model()
    prompts = [prompt(words, side) for words, side in ((5, 8), (30, 0), (3, 4), (12, 12))]
    expected = []
    for inputs in prompts:
        with torch.inference_mode():
            tokens = made.generate(**inputs, do_sample=False, max_new_tokens=NEW_TOKENS)
        expected.append(tokens[0, inputs["input_ids"].shape[1] :].tolist())
    loaded = _Loaded(made)
    with torch.inference_mode():
        decoder = Decoder(loaded, len(prompts))
        answers = []
        for inputs in prompts:
            prefilled = decoder.prefill(inputs)
            answer = _Answer(inputs["input_ids"][0].tolist())
            answer.add(int(prefilled.logits.argmax()))
            decoder.join(prefilled, [answer])
            answers.append(answer)
            _step(decoder)
        while any(answer.generated < NEW_TOKENS for answer in answers):
            _step(decoder)
    batched = [answer.tokens[-answer.generated :][:NEW_TOKENS] for answer in answers]
    print(json.dumps({"generate": expected, "batched": batched, "dimensions": len(answers[0].positions)}))


class _Loaded:
    """What the decoder needs of a loaded model."""

    def __init__(self, made: Any) -> None:
        self.model = made
        self.decode_step = made
        self.device = made.device
        self.accepts = frozenset({"position_ids", "logits_to_keep"})


class _Answer:
    """What the decoder needs of an answer."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens
        self.positions: Any = ()
        self.generated = 0

    def add(self, token: int) -> None:
        self.tokens.append(token)
        self.generated += 1


def _step(decoder: Any) -> None:
    for answers, logits in decoder.step():
        for answer, token in zip(answers, logits.argmax(-1).tolist(), strict=True):
            answer.add(token)


if __name__ == "__main__":
    sys.exit(main())
