"""Images are sent to llama.cpp in a format that it reads."""

from __future__ import annotations

import base64
import io
from typing import cast

import pytest
from PIL import Image

from vlmhyperbench_llamacpp.adapter import LlamaCpp
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.types import JsonObject, JsonValue

PAGE = Image.effect_noise((16, 12), 80).convert("RGB")


def written(kind: str, **how: bool) -> bytes:
    """Return the page as a file of a kind."""
    file = io.BytesIO()
    PAGE.save(file, kind, **how)
    return file.getvalue()


def sent(url: str) -> JsonValue:
    """Return the part of the message that is sent for an image."""
    part: JsonValue = {"type": "image_url", "image_url": {"url": url}}
    text: JsonValue = {"type": "text", "text": "?"}
    body = LlamaCpp().to_engine({"model": "m", "messages": [{"role": "user", "content": [part, text]}]})
    [message] = cast("list[JsonObject]", body["messages"])
    first, second = cast("list[JsonObject]", message["content"])
    assert second == text
    return cast("JsonObject", first["image_url"])["url"]


def url_of(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def test_a_webp_is_sent_as_a_png_of_the_same_pixels() -> None:
    url = str(sent(url_of("webp", written("WEBP", lossless=True))))
    kind, _, text = url.partition(",")
    assert kind == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(text))) as image:
        assert (image.format, image.tobytes()) == ("PNG", PAGE.tobytes())


def test_of_a_moving_webp_the_first_picture_is_sent() -> None:
    file = io.BytesIO()
    PAGE.save(file, "WEBP", lossless=True, save_all=True, append_images=[Image.new("RGB", PAGE.size)])
    url = str(sent(url_of("webp", file.getvalue())))
    with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
        assert (image.format, getattr(image, "n_frames", 1)) == ("PNG", 1)
        assert image.convert("RGB").tobytes() == PAGE.tobytes()


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_what_llama_cpp_reads_is_sent_as_it_is(kind: str) -> None:
    url = url_of(kind, written(kind.upper()))
    assert sent(url) == url


@pytest.mark.parametrize("data", [b"RIFF", written("WEBP")[:40], written("PNG")], ids=["nothing", "cut off", "a PNG"])
def test_a_broken_webp_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput) as refused:
        sent(url_of("webp", data))
    assert refused.value.code == "invalid_image"
