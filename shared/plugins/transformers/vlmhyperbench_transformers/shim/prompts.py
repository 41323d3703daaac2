"""Turn the messages of a request into the tensors of a prompt: the chat template, then the model's own processor."""

from __future__ import annotations

import binascii
import io
from collections.abc import Mapping
from typing import Any

import torch
from PIL import Image, UnidentifiedImageError

from vlmhyperbench_transformers.shim.loading import Loaded
from vlmhyperbench_transformers.shim.refusal import invalid

_FORMATS = ("PNG", "JPEG", "WEBP")
MAX_PIXELS = 100_000_000


def prepare(loaded: Loaded, messages: list[dict[str, Any]], template: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the inputs of the forward pass of a prompt, batch size 1, on the processor's memory.

    Raises:
        Refusal: an image cannot be read, the model takes no images, or its template or processor refuses the messages.
    """
    converted = [_message(loaded, message) for message in messages]
    try:
        inputs = loaded.processor.apply_chat_template(
            converted,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            **template,
        )
    except Exception as error:  # templates and processors of models raise anything
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise invalid(f"The model's template or processor refuses the messages: {reason[0][:500]}") from error
    return dict(inputs)


def _message(loaded: Loaded, message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as templates have it: lists of parts for a processor, texts for a tokenizer."""
    content = message.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    if loaded.takes_images:
        return {**message, "content": [_part(part) for part in parts]}
    if any(part["type"] != "text" for part in parts):
        raise invalid("The model takes no images. Send texts only.", "unsupported")
    return {**message, "content": "\n".join(part["text"] for part in parts)}


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    return {"type": "image", "image": read_image(part["image_url"]["url"])}


def _over_white(image: Image.Image) -> Image.Image:
    """Return the image in RGB, over white where it is transparent: its hidden colours are no page."""
    if "A" not in image.getbands() and "transparency" not in image.info:
        return image.convert("RGB")
    page = Image.new("RGBA", image.size, "white")
    page.alpha_composite(image.convert("RGBA"))
    return page.convert("RGB")


def read_image(url: str) -> Image.Image:
    """Return the image of a data URL, in RGB.

    Raises:
        Refusal: it is no data URL, or its image cannot be read or is too large.
    """
    head, comma, data = url.partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64") or not comma:
        raise invalid("An image must be a data URL in base64; remote URLs and files are not read.", "invalid_image")
    try:
        with Image.open(io.BytesIO(binascii.a2b_base64(data)), formats=_FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise invalid(f"An image has at most {MAX_PIXELS} pixels.", "invalid_image")
            return _over_white(image)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise invalid(f"An image cannot be read: {error}.", "invalid_image") from error
