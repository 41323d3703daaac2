"""Load a model with its processor or tokenizer from a folder, and state what was loaded."""

from __future__ import annotations

import copy
import inspect
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    GenerationConfig,
)

from vlmhyperbench_transformers.shim.options import Options


class CannotLoad(Exception):
    """The model cannot be served; the message names the reason."""


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model that is ready, with what prompts and answers need."""

    model: Any
    decode_step: Any
    """The model's forward pass for one token of each answer, compiled if that was asked for."""
    processor: Any
    """The processor, or the tokenizer of a model without images."""
    detokenizer: Any
    """A tokenizer of its own, since encoding and decoding happen in different threads."""
    takes_images: bool
    device: torch.device
    """Where the inputs go."""
    vocabulary: int
    """The number of logits."""
    max_context: int
    eos: frozenset[int]
    accepts: frozenset[str]
    """Parameters of the forward pass."""

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool) -> str:
        """Return the text of tokens."""
        return str(
            self.detokenizer.decode(tokens, skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False)
        )


def load(options: Options) -> Loaded:
    """Load everything and check that it can be served.

    Raises:
        CannotLoad: the model has another architecture, has no chat template, or lacks a device or a library.
    """
    # Threads that wait for each other spin, so one on every core is slow where other processes use the cores too.
    torch.set_num_threads(options.threads or max(1, len(os.sched_getaffinity(0)) // 2))
    device = _device(options)
    shared = {"trust_remote_code": options.trust_remote_code, "local_files_only": True}
    config = AutoConfig.from_pretrained(options.folder, **shared)
    if getattr(config, "is_encoder_decoder", False):
        raise CannotLoad(f"{type(config).__name__} has an encoder for its prompts; only decoders are supported.")
    takes_images = _has_head(AutoModelForImageTextToText, config)
    if not takes_images and not _has_head(AutoModelForCausalLM, config):
        raise CannotLoad(f"{type(config).__name__} is neither an image-text-to-text nor a causal language model.")
    kind = AutoModelForImageTextToText if takes_images else AutoModelForCausalLM
    placed = {"device_map": options.device_map} if options.device_map != "none" else {}
    model, report = kind.from_pretrained(
        options.folder,
        config=config,
        dtype=getattr(torch, options.dtype),
        attn_implementation=options.attention,
        output_loading_info=True,
        **placed,
        **shared,
    )
    if missing := sorted(report["missing_keys"]):
        raise CannotLoad(f"The weights lack {len(missing)} of the model's tensors, such as {missing[0]}.")
    model = model.eval() if placed else model.to(device).eval()
    processor = (AutoProcessor if takes_images else AutoTokenizer).from_pretrained(options.folder, **shared)
    if not getattr(processor, "chat_template", None):
        raise CannotLoad("The model has no chat template. Put chat_template.jinja into its folder.")
    tokenizer = getattr(processor, "tokenizer", processor)
    text = config.get_text_config(decoder=True)
    longest = getattr(text, "max_position_embeddings", None) or options.max_context
    eos = _eos(model, tokenizer)
    if options.sampling_defaults == "engine":
        model.generation_config = _neutral(model.generation_config)
    compiled = model.forward
    if options.compile != "off":
        compiled = torch.compile(model.forward, dynamic=True, mode=options.compile)
    return Loaded(
        model=model,
        decode_step=compiled,
        processor=processor,
        detokenizer=copy.deepcopy(tokenizer),
        takes_images=takes_images,
        device=model.device,
        vocabulary=int(model.get_output_embeddings().weight.shape[0]),
        max_context=min(options.max_context, longest),
        eos=eos,
        accepts=frozenset(inspect.signature(model.forward).parameters),
    )


def properties(loaded: Loaded, options: Options) -> dict[str, object]:
    """Return what was loaded, for the provenance of a run."""
    return {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "torchvision": getattr(sys.modules.get("torchvision"), "__version__", None),
        "architecture": type(loaded.model).__name__,
        "takes_images": loaded.takes_images,
        "dtype": str(loaded.model.dtype).removeprefix("torch."),
        "device": str(loaded.device),
        "device_map": {name: str(place) for name, place in getattr(loaded.model, "hf_device_map", {}).items()},
        "accelerator": torch.cuda.get_device_name(loaded.device) if loaded.device.type == "cuda" else None,
        "attention": loaded.model.config._attn_implementation,  # noqa: SLF001 -- there is no public name
        "compile": options.compile,
        "max_context": loaded.max_context,
        "max_batch": options.max_batch,
        "threads": torch.get_num_threads(),
        "sampling_defaults": options.sampling_defaults,
        "prefix_cache": False,
    }


def _device(options: Options) -> torch.device:
    name = options.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise CannotLoad("torch finds no CUDA device. Install a driver and a torch that fit, or set device to cpu.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise CannotLoad(f"There is no device {name}: torch finds {torch.cuda.device_count()}.")
    return device


def _has_head(kind: Any, config: Any) -> bool:
    """Return whether an auto class has a model for a configuration, in transformers or in the model's own code."""
    remote = getattr(config, "auto_map", None) or {}
    return type(config) in kind._model_mapping or kind.__name__ in remote  # noqa: SLF001 -- there is no public name


def _neutral(own: Any) -> GenerationConfig:
    """Return a generation config of which only the special tokens are the model's, so that engines are comparable."""
    tokens = {name: getattr(own, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    return GenerationConfig(**tokens, do_sample=False, top_k=0, top_p=1.0)


def _eos(model: Any, tokenizer: Any) -> frozenset[int]:
    """Return the tokens that end an answer: those of the generation config, else the tokenizer's."""
    eos = model.generation_config.eos_token_id
    eos = tokenizer.eos_token_id if eos is None else eos
    return frozenset([eos] if isinstance(eos, int) else eos or ())
