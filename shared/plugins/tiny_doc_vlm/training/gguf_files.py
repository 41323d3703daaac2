"""The model as files of llama.cpp: the text model in one file, the vision tower and the connector in another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray
from transformers import Idefics3Config

from training import vocabulary
from training.drawing import TILE_PX
from training.network import CHAT_TEMPLATE

Weights = Mapping[str, NDArray[np.float32]]
"""Tensors by their names in the safetensors file."""

QUANTIZATIONS = {
    "f16": gguf.GGMLQuantizationType.F16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
}
"""Suffix of a file's name → storage type of its matrices; vectors stay in 32 bits."""
_FILE_TYPES = {
    "f16": gguf.LlamaFileType.MOSTLY_F16,
    "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0,
    "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0,
}
_TEXT, _VISION = "model.text_model.", "model.vision_model."
_TEXT_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_VISION_LAYER = {
    "ln1": "layer_norm1",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_out": "self_attn.out_proj",
    "ln2": "layer_norm2",
    "ffn_up": "mlp.fc1",
    "ffn_down": "mlp.fc2",
}


def write_text_model(file: Path, weights: Weights, config: Idefics3Config, *, quantization: str, name: str) -> None:
    """Write tokenizer and text model; `quantization` is a key of QUANTIZATIONS."""
    text = config.text_config
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name(name)
    writer.add_file_type(_FILE_TYPES[quantization])
    writer.add_context_length(text.max_position_embeddings)
    writer.add_embedding_length(text.hidden_size)
    writer.add_feed_forward_length(text.intermediate_size)
    writer.add_block_count(text.num_hidden_layers)
    writer.add_head_count(text.num_attention_heads)
    writer.add_head_count_kv(text.num_key_value_heads)
    writer.add_rope_dimension_count(text.hidden_size // text.num_attention_heads)
    writer.add_rope_freq_base(text.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(text.rms_norm_eps)
    writer.add_vocab_size(text.vocab_size)
    _add_tokenizer(writer)

    def add(target: str, matrix: NDArray[np.float32]) -> None:
        if matrix.ndim < 2:
            writer.add_tensor(target, matrix)
        else:
            kind = QUANTIZATIONS[quantization]
            writer.add_tensor(target, gguf.quantize(np.ascontiguousarray(matrix), kind), raw_dtype=kind)

    embedding = weights[f"{_TEXT}embed_tokens.weight"]
    add("token_embd.weight", embedding)
    add("output_norm.weight", weights[f"{_TEXT}norm.weight"])
    add("output.weight", embedding)
    heads = {"attn_q": text.num_attention_heads, "attn_k": text.num_key_value_heads}
    for layer in range(text.num_hidden_layers):
        for target, source in _TEXT_LAYER.items():
            matrix = weights[f"{_TEXT}layers.{layer}.{source}.weight"]
            if target in heads:
                matrix = _interleave(matrix, heads[target])
            add(f"blk.{layer}.{target}.weight", matrix)
    _write(writer)


def write_vision_tower(file: Path, weights: Weights, config: Idefics3Config, *, name: str) -> None:
    """Write llama.cpp's multimodal projector; the matrices of its layers are in 16 bits."""
    vision = config.vision_config
    writer = gguf.GGUFWriter(file, "clip")
    writer.add_type("mmproj")
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "idefics3")
    writer.add_bool("clip.use_gelu", True)
    numbers = {
        "image_size": vision.image_size,
        "preproc_image_size": 2 * TILE_PX,
        "patch_size": vision.patch_size,
        "embedding_length": vision.hidden_size,
        "feed_forward_length": vision.intermediate_size,
        "block_count": vision.num_hidden_layers,
        "attention.head_count": vision.num_attention_heads,
        "projection_dim": config.text_config.hidden_size,
        "projector.scale_factor": config.scale_factor,
    }
    for key, number in numbers.items():
        writer.add_uint32(f"clip.vision.{key}", number)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", vision.layer_norm_eps)
    writer.add_array("clip.vision.image_mean", [0.5] * 3)
    writer.add_array("clip.vision.image_std", [0.5] * 3)

    for part in ("weight", "bias"):
        writer.add_tensor(f"v.patch_embd.{part}", weights[f"{_VISION}embeddings.patch_embedding.{part}"])
        writer.add_tensor(f"v.post_ln.{part}", weights[f"{_VISION}post_layernorm.{part}"])
        for layer in range(vision.num_hidden_layers):
            for target, source in _VISION_LAYER.items():
                matrix = weights[f"{_VISION}encoder.layers.{layer}.{source}.{part}"]
                writer.add_tensor(f"v.blk.{layer}.{target}.{part}", _halved(matrix))
    writer.add_tensor("v.position_embd.weight", weights[f"{_VISION}embeddings.position_embedding.weight"])
    writer.add_tensor("mm.model.fc.weight", _halved(weights["model.connector.modality_projection.proj.weight"]))
    _write(writer)


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    special = len(vocabulary.SPECIAL_TOKENS)
    types = [gguf.TokenType.CONTROL] * special + [gguf.TokenType.NORMAL] * (vocabulary.SIZE - special)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary.tokens())
    writer.add_token_types(types)
    writer.add_token_merges(["Ċ Ċ"])
    writer.add_bos_token_id(vocabulary.START)
    writer.add_eos_token_id(vocabulary.END)
    writer.add_pad_token_id(vocabulary.PAD)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _interleave(matrix: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Order a head's rows as llama.cpp rotates them: adjacent pairs, whereas transformers pairs the two halves."""
    halves = matrix.reshape(heads, 2, -1, matrix.shape[1])
    return halves.swapaxes(1, 2).reshape(matrix.shape)


def _halved(matrix: NDArray[np.float32]) -> NDArray[np.float32] | NDArray[np.float16]:
    return matrix.astype(np.float16) if matrix.ndim == 2 else matrix


def _write(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
