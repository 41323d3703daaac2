"""The network: its configuration, its tokenizer and processor, and the forward pass of training.

The forward pass is that of `Idefics3ForConditionalGeneration` without the parts that a batch of full tiles does not
need; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    Idefics3Config,
    Idefics3ForConditionalGeneration,
    Idefics3ImageProcessorPil,
    Idefics3Processor,
    PreTrainedTokenizerFast,
)
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, apply_rotary_pos_emb

from training import vocabulary
from training.drawing import CLASSES, SLOTS, TILE_PX
from vlmhyperbench_tiny_doc_vlm import CONTEXT_TOKENS

PATCH_PX, JOINED = 8, 2
"""Side of a patch in pixels, and the number of patches per side that become a token."""
CHAT_TEMPLATE = (
    "<|im_start|>{% for m in messages %}{{ m.role | capitalize }}: "
    "{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}"
    "{% if c.type == 'image' %}<image>{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}"
    "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant: {% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make the tokenizer of `vocabulary`; the empty line is a token, because llama.cpp looks it up."""
    ids = {token: number for number, token in enumerate(vocabulary.tokens())}
    rules = Tokenizer(models.BPE(vocab=ids, merges=[("Ċ", "Ċ")]))
    rules.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rules.decoder = decoders.ByteLevel()
    rules.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in vocabulary.SPECIAL_TOKENS])
    return PreTrainedTokenizerFast(
        tokenizer_object=rules,
        bos_token=vocabulary.SPECIAL_TOKENS[vocabulary.START],
        eos_token=vocabulary.SPECIAL_TOKENS[vocabulary.END],
        pad_token=vocabulary.SPECIAL_TOKENS[vocabulary.PAD],
        padding_side="left",
        model_max_length=CONTEXT_TOKENS,
    )


def make_processor() -> Idefics3Processor:
    """Make the processor, which enlarges pages to 192 pixels and splits them into tiles with an overview."""
    images = Idefics3ImageProcessorPil(size={"longest_edge": 2 * TILE_PX}, max_image_size={"longest_edge": TILE_PX})
    return Idefics3Processor(
        image_processor=images,
        tokenizer=make_tokenizer(),
        image_seq_len=vocabulary.TOKENS_PER_TILE,
        chat_template=CHAT_TEMPLATE,
    )


def make_model() -> Idefics3ForConditionalGeneration:
    """Make the model with random weights from torch's global generator."""
    vision = {
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "image_size": TILE_PX,
        "patch_size": PATCH_PX,
    }
    text = {
        "model_type": "llama",
        "vocab_size": vocabulary.SIZE,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT_TOKENS,
        "pad_token_id": vocabulary.PAD,
        "bos_token_id": vocabulary.START,
        "eos_token_id": vocabulary.END,
        "tie_word_embeddings": True,
    }
    config = Idefics3Config(
        image_token_id=vocabulary.IMAGE,
        scale_factor=JOINED,
        pad_token_id=vocabulary.PAD,
        tie_word_embeddings=True,
        vision_config=vision,
        text_config=text,
    )
    return Idefics3ForConditionalGeneration(config)


class _Rounded(nn.Linear):
    """A linear layer that rounds its operands to bfloat16 in the forward and the backward pass."""

    def forward(self, values: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.bfloat16()
        return functional.linear(values.bfloat16(), self.weight.bfloat16(), bias).float()


class Reader(nn.Module):
    """The model with two linear heads that predict the characters at an image token; the heads are not exported."""

    def __init__(self) -> None:
        super().__init__()
        self.model = make_model()
        vision = self.model.config.vision_config
        self.tower_head = nn.Linear(JOINED**2 * vision.hidden_size, SLOTS * CLASSES)
        self.connector_head = nn.Linear(self.model.config.text_config.hidden_size, SLOTS * CLASSES)
        self.register_buffer("_positions", _patch_positions(self.model), persistent=False)

    def multiply_in_bfloat16(self) -> None:
        """Round the operands of every linear layer; weights, sums, norms and attention stay unrounded."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.__class__ = _Rounded

    def load_weights(self, folder: Path) -> None:
        """Load the weights of an exported model; the heads stay unchanged.

        Raises:
            FileNotFoundError: there is no such folder; no hub is searched for its name.
        """
        if not folder.is_dir():
            raise FileNotFoundError(f"There is no folder {folder}.")
        weights = Idefics3ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).state_dict()
        self.model.load_state_dict(weights)
        self.model.tie_weights()

    def look(self, tiles: Tensor) -> tuple[Tensor, Tensor]:
        """Encode tiles by the vision tower and the connector.

        Args:
            tiles: Grey pixels, 0 to 255. Shape: (tiles, TILE_PX, TILE_PX).

        Returns:
            The joined patches, shape (tiles, TOKENS_PER_TILE, 4 · vision width), and the tokens, shape (tiles,
            TOKENS_PER_TILE, text width).
        """
        vision, connector = self.model.model.vision_model, self.model.model.connector
        patch = vision.embeddings.patch_embedding
        count, side = len(tiles), TILE_PX // PATCH_PX
        grey = tiles.float() / 127.5 - 1
        patches = grey.view(count, side, PATCH_PX, side, PATCH_PX).transpose(2, 3).reshape(count, side**2, PATCH_PX**2)
        # A grey page has the same value in all three channels.
        hidden = patches @ patch.weight.sum(1).flatten(1).T + patch.bias
        hidden = hidden + vision.embeddings.position_embedding(self._positions)
        hidden = vision.encoder(inputs_embeds=hidden, attention_mask=None).last_hidden_state
        joined = connector.pixel_shuffle(vision.post_layernorm(hidden), JOINED)
        return joined, connector.modality_projection(joined)

    def read(self, ids: Tensor, image: Tensor, positions: Tensor, segments: Tensor, wanted: Tensor) -> Tensor:
        """Return the text model's last hidden states at some positions, row by row. Shape: (positions, text width).

        Args:
            ids: Tokens, shape (rows, length).
            image: The tokens of all tiles in the order of the rows, shape (…, text width).
            positions: Position of each token, shape (rows, length).
            segments: 0 for the page, to which all attend; a question attends to the page and itself. Shape as above.
            wanted: The positions; the last layer is not computed at others. Shape as above.
        """
        text = self.model.model.text_model
        embedded = text.embed_tokens(ids)
        embedded = embedded.masked_scatter((ids == vocabulary.IMAGE).unsqueeze(-1), image.to(embedded.dtype))
        same = segments.unsqueeze(2) == segments.unsqueeze(1)
        seen = (same | (segments.unsqueeze(1) == 0)).tril()
        mask = torch.zeros_like(seen, dtype=embedded.dtype).masked_fill(~seen, torch.finfo(embedded.dtype).min)
        turns = text.rotary_emb(embedded, position_ids=positions)
        for layer in text.layers[:-1]:
            embedded = layer(embedded, attention_mask=mask.unsqueeze(1), position_embeddings=turns)
        return text.norm(_go_through(text.layers[-1], embedded, mask, turns, wanted))


def _go_through(
    layer: LlamaDecoderLayer, hidden: Tensor, mask: Tensor, turns: tuple[Tensor, Tensor], wanted: Tensor
) -> Tensor:
    """Compute a layer of the text model at the wanted positions, which attend to all. Shape: (positions, width)."""
    attention, count = layer.self_attn, int(wanted.sum(1).max())
    # The wanted positions of each row in their order, filled up with other positions of the row.
    positions = wanted.int().argsort(dim=1, descending=True, stable=True)[:, :count]

    def pick(values: Tensor) -> Tensor:
        return values.gather(1, positions.unsqueeze(-1).expand(-1, -1, values.shape[-1]))

    def by_head(values: Tensor) -> Tensor:
        return values.unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)

    normed = layer.input_layernorm(hidden)
    keys, values = by_head(attention.k_proj(normed)), by_head(attention.v_proj(normed))
    queries = by_head(attention.q_proj(pick(normed)))
    queries, _ = apply_rotary_pos_emb(queries, queries, *map(pick, turns))
    keys, _ = apply_rotary_pos_emb(keys, keys, *turns)
    seen = functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=pick(mask).unsqueeze(1), scale=attention.scaling, enable_gqa=True
    )
    out = pick(hidden) + attention.o_proj(seen.transpose(1, 2).flatten(2))
    out = out + layer.mlp(layer.post_attention_layernorm(out))
    return out[wanted.gather(1, positions)]


def _patch_positions(model: Idefics3ForConditionalGeneration) -> Tensor:
    """Return the position that the tower gives each patch of a full tile. Shape: (patches,)."""
    positions: list[Tensor] = []
    embeddings = model.model.vision_model.embeddings
    hook = embeddings.position_embedding.register_forward_pre_hook(lambda _, inputs: positions.append(inputs[0]))
    side = TILE_PX // PATCH_PX
    with torch.no_grad():
        embeddings(torch.zeros(1, 3, TILE_PX, TILE_PX), torch.ones(1, side, side, dtype=torch.bool))
    hook.remove()
    return positions[0].reshape(-1)
