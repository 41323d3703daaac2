"""Ways to ask the model: its weights through llama.cpp or transformers, or any server that speaks OpenAI's protocol."""

from __future__ import annotations

import base64
import io
import json
import urllib.request
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from training.held_out import Item

MOST_TOKENS = 560
"""Longer than any right answer of the suites; with the longest question it fits into the model's context."""
ROWS = 16


def add_options(parser: ArgumentParser) -> None:
    """Add what `answer` needs to know besides the model and the items."""
    parser.add_argument(
        "--engine",
        choices=("llamacpp", "transformers"),
        default="llamacpp",
        help="what runs the files of a folder: llama.cpp in 16 bits (default), or transformers in 32 bits",
    )
    parser.add_argument("--name", default="tiny-doc-vlm", help="the model's name on the server")
    parser.add_argument("--parallel", type=int, default=4, help="requests at a time to the server")


def answer(model: str, items: Sequence[Item], given: Namespace) -> list[str]:
    """Answer with what a command was given, in the order of the items.

    Args:
        model: the URL of a server, or a folder of exported files.
        items: what is asked.
        given: the options of `add_options`.
    """
    if model.startswith(("http://", "https://")):
        return answer_with_server(model, items, model=given.name, parallel=given.parallel)
    if given.engine == "transformers":
        return answer_with_weights(Path(model), items)
    from training.engines import F16, NAME, serve

    with serve(F16, Path(model), environments=Path()) as url:
        return answer_with_server(url, items, model=NAME, parallel=given.parallel)


def answer_with_weights(folder: Path, items: Sequence[Item]) -> list[str]:
    """Answer by greedy decoding in 32 bits, in the order of the items."""
    import torch
    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor = AutoProcessor.from_pretrained(folder, backend="pil")
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    answers = [""] * len(items)
    for places in _alike(items):
        texts, images = [], []
        for place in places:
            messages = _messages(items[place], {"type": "image"})
            texts.append(processor.apply_chat_template(messages, add_generation_prompt=True))
            images.append([Image.open(io.BytesIO(items[place].image)).convert("RGB")])
        inputs = processor(text=texts, images=images, return_tensors="pt", padding=True)
        with torch.no_grad():
            tokens = model.generate(**inputs, do_sample=False, max_new_tokens=MOST_TOKENS)
        written = processor.batch_decode(tokens[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        for place, answer in zip(places, written, strict=True):
            answers[place] = answer
    return answers


def answer_with_server(url: str, items: Sequence[Item], *, model: str, parallel: int) -> list[str]:
    """Answer by `url`/v1/chat/completions at temperature 0, in the order of the items.

    Raises:
        urllib.error.URLError: the server is not there, or refuses a request.
    """

    def ask(item: Item) -> str:
        image = "data:image/png;base64," + base64.b64encode(item.image).decode()
        messages = _messages(item, {"type": "image_url", "image_url": {"url": image}})
        body = {"model": model, "temperature": 0, "max_tokens": MOST_TOKENS, "messages": messages}
        request = urllib.request.Request(  # noqa: S310 - the user's own URL
            f"{url.rstrip('/')}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:  # noqa: S310 - as above
            return str(json.load(response)["choices"][0]["message"]["content"] or "")

    with ThreadPoolExecutor(parallel) as pool:
        return list(pool.map(ask, items))


def _messages(item: Item, image: dict[str, Any]) -> list[dict[str, Any]]:
    user = {"role": "user", "content": [image, {"type": "text", "text": item.question}]}
    return [{"role": "system", "content": item.system_prompt}, user] if item.system_prompt else [user]


def _alike(items: Sequence[Item]) -> Iterator[list[int]]:
    """Yield places of items to be answered together: pages of one size, answers of about one length."""
    order = sorted(range(len(items)), key=lambda place: (items[place].suite == "dense", len(items[place].expected)))
    batch: list[int] = []
    for place in order:
        is_other_size = batch and (items[batch[0]].suite == "dense") != (items[place].suite == "dense")
        if is_other_size or len(batch) == ROWS:
            yield batch
            batch = []
        batch.append(place)
    yield batch
