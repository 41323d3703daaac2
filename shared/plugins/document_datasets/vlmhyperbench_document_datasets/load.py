"""The dataset `synthetic_load`: prompts of random words and images of noise, to load a server with."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Final

import numpy

from vlmhyperbench_document_datasets.drawing import encode
from vlmhyperbench_document_datasets.params import integer, refuse, unknown_params
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Image, JsonObject, JsonValue, Sample

PARAMS: Final = ("requests", "prompt", "prompt_tokens", "images", "image_size", "image_reuse", "turns")
MAX_REQUESTS: Final = 25_000
MAX_PROMPT_TOKENS: Final = 200_000
MAX_IMAGES: Final = 16
MAX_SIDE: Final = 4096
MAX_SIZES: Final = 20
MAX_TURNS: Final = 100
MAX_PROMPT_CHARACTERS: Final = 1_000_000
MAX_PIXELS: Final = 2_000_000_000
"""Pixels of all images together: they are stored, because requests are made of them on any machine."""
_WORDS: Final = [f"w{number}" for number in range(1000)]
_SIZE: Final = re.compile(r"([0-9]{1,5})x([0-9]{1,5})")
_PATCH: Final = 64
"""Side of the noise in an image of one colour, so that a file is small at any size and no cache knows it."""


class SyntheticLoad:
    """Make `requests` prompts (default 100), all of one length and each different, so that no cache helps.

    Params:
        requests: how many prompts.
        prompt_tokens: words of each prompt, or a list with one number for each; for most tokenizers one to two tokens
            a word.
        prompt: the text of every prompt, in place of random words.
        images: images of each prompt.
        image_size: their size, as `512x512`; of several sizes, `512x512,768x768`, each image has a random one.
        image_reuse: share of images, from 0 to 1, that repeat an image of an earlier prompt.
        turns: consecutive prompts with the same images, the questions of a conversation (default 1).

    A sample depends only on the seed and its number. There are no references: metrics leave the answers unscored.
    """

    def __init__(self, source: DatasetSource) -> None:
        params = source.params
        self._seed = source.seed
        self._requests, few = integer(params, "requests", default=100, min_value=1, max_value=MAX_REQUESTS)
        self._prompt, no_text = _text(params.get("prompt"))
        self._lengths, long = _lengths(params, self._requests)
        self._images, many = integer(params, "images", default=0, min_value=0, max_value=MAX_IMAGES)
        self._sizes, bad_size = _sizes(params.get("image_size", "512x512"))
        self._reuse, bad_reuse = _share(params.get("image_reuse", 0.0))
        self._turns, no_turns = integer(params, "turns", default=1, min_value=1, max_value=MAX_TURNS)
        problems = [*unknown_params(params, PARAMS), *few, *no_text, *long, *many, *bad_size, *bad_reuse, *no_turns]
        problems += [
            f"{name}: this dataset is made of a seed, and has none."
            for name in ("revision", "split", "path")
            if getattr(source, name) is not None
        ]
        pixels = sum(width * height for width, height in self._sizes) / len(self._sizes)
        if not problems and self._requests / self._turns * self._images * pixels > MAX_PIXELS:
            problems.append(f"images: all of them have more than {MAX_PIXELS:,} pixels; ask for fewer or smaller ones.")
        refuse("synthetic_load", problems)

    def __iter__(self) -> Iterator[Sample]:
        drawn, images = self._drawn(), tuple[Image, ...]()
        for number in range(self._requests):
            if number % self._turns == 0:
                images = tuple(next(drawn) for _ in range(self._images))
            words = random.Random(f"{self._seed}/{number}")  # noqa: S311 - prompts, not secrets
            length = self._lengths[number % len(self._lengths)]
            yield Sample(
                key=f"{self._seed}/{number:06d}",
                question=self._prompt or " ".join(words.choices(_WORDS, k=length)),
                images=images,
                references=(),
                metadata={},
            )

    def _drawn(self) -> Iterator[Image]:
        """Yield images without end; one that is reused is a random earlier one."""
        choice = random.Random(f"{self._seed}/images")  # noqa: S311 - test data, not secrets
        known: list[tuple[int, int]] = []
        while True:
            if known and choice.random() < self._reuse:
                number = choice.randrange(len(known))
            else:
                number = len(known)
                known.append(choice.choice(self._sizes))
            yield self._image(number, *known[number])

    def _image(self, number: int, width: int, height: int) -> Image:
        noise = numpy.random.default_rng([self._seed, number])
        pixels = numpy.full((height, width), noise.integers(64, 192), dtype=numpy.uint8)
        patch = pixels[:_PATCH, :_PATCH]
        patch[:] = noise.integers(0, 256, patch.shape, dtype=numpy.uint8)
        return Image(data=encode(pixels))


def _text(value: JsonValue) -> tuple[str, list[str]]:
    if value is None or (isinstance(value, str) and 0 < len(value) <= MAX_PROMPT_CHARACTERS):
        return value or "", []
    return "", [f"prompt: it is no text of 1 to {MAX_PROMPT_CHARACTERS:,} characters."]


def _lengths(params: JsonObject, requests: int) -> tuple[list[int], list[str]]:
    """Return the words of each prompt: one number for all, or one for each."""
    value: JsonValue = params.get("prompt_tokens", 128)
    numbers = value if isinstance(value, (list, tuple)) else [value]
    bounds = {"default": 128, "min_value": 1, "max_value": MAX_PROMPT_TOKENS}
    read = [integer({"prompt_tokens": number}, "prompt_tokens", **bounds) for number in numbers]
    wrong = next((problem for _, problem in read if problem), [])
    if not wrong and isinstance(value, (list, tuple)) and len(value) != requests:
        wrong = [f"prompt_tokens: {len(value)} numbers for {requests} requests; give one for each."]
    return [number for number, _ in read] or [128], wrong


def _share(value: JsonValue) -> tuple[float, list[str]]:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value), []
    return 0.0, [f"image_reuse: {str(value)[:40]!r} is no share from 0 to 1."]


def _sizes(value: JsonValue) -> tuple[list[tuple[int, int]], list[str]]:
    """Return the sizes of a list such as `512x512,768x768`."""
    parts = value.split(",") if isinstance(value, str) else []
    found = [_SIZE.fullmatch(part.strip()) for part in parts[:MAX_SIZES]]
    sizes = [(int(match[1]), int(match[2])) if match else (0, 0) for match in found]
    if sizes and len(parts) <= MAX_SIZES and all(1 <= side <= MAX_SIDE for size in sizes for side in size):
        return sizes, []
    problem = f"image_size: {str(value)[:40]!r} is neither a size with sides from 1 to {MAX_SIDE}, such as 512x512"
    return [(1, 1)], [f"{problem}, nor up to {MAX_SIZES} of them, separated by commas."]
