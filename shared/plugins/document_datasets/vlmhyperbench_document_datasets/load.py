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
from vlmhyperbench_sdk.types import Image, JsonValue, Sample

PARAMS: Final = ("requests", "prompt_tokens", "images", "image_size")
MAX_REQUESTS: Final = 20_000
MAX_PROMPT_TOKENS: Final = 200_000
MAX_IMAGES: Final = 16
MAX_SIDE: Final = 4096
MAX_PIXELS: Final = 500_000_000
"""Pixels of all images together: they are stored, because requests are made of them on any machine."""
_WORDS: Final = [f"w{number}" for number in range(1000)]
_SIZE: Final = re.compile(r"([0-9]{1,5})x([0-9]{1,5})")
_PATCH: Final = 64
"""Side of the noise in an image of one colour, so that a file is small at any size and no cache knows it."""


class SyntheticLoad:
    """Make `requests` prompts (default 100), all of one length and each different, so that no cache helps.

    Params:
        requests: how many prompts.
        prompt_tokens: words of each prompt; for most tokenizers one to two tokens a word.
        images: images of each prompt.
        image_size: their size, as `512x512`.

    A sample depends only on the seed and its number. There are no references: metrics leave the answers unscored.
    """

    def __init__(self, source: DatasetSource) -> None:
        params = source.params
        self._seed = source.seed
        self._requests, few = integer(params, "requests", default=100, min_value=1, max_value=MAX_REQUESTS)
        self._length, long = integer(params, "prompt_tokens", default=128, min_value=1, max_value=MAX_PROMPT_TOKENS)
        self._images, many = integer(params, "images", default=0, min_value=0, max_value=MAX_IMAGES)
        self._size, bad_size = _size(params.get("image_size", "512x512"))
        problems = [*unknown_params(params, PARAMS), *few, *long, *many, *bad_size]
        problems += [
            f"{name}: this dataset is made of a seed, and has none."
            for name in ("revision", "split", "path")
            if getattr(source, name) is not None
        ]
        if not problems and self._requests * self._images * self._size[0] * self._size[1] > MAX_PIXELS:
            problems.append(f"images: all of them have more than {MAX_PIXELS:,} pixels; ask for fewer or smaller ones.")
        refuse("synthetic_load", problems)

    def __iter__(self) -> Iterator[Sample]:
        for number in range(self._requests):
            words = random.Random(f"{self._seed}/{number}")  # noqa: S311 - prompts, not secrets
            yield Sample(
                key=f"{self._seed}/{number:06d}",
                question=" ".join(words.choices(_WORDS, k=self._length)),
                images=tuple(self._image(number, no) for no in range(self._images)),
                references=(),
                metadata={},
            )

    def _image(self, number: int, no: int) -> Image:
        width, height = self._size
        noise = numpy.random.default_rng([self._seed, number, no])
        pixels = numpy.full((height, width), noise.integers(64, 192), dtype=numpy.uint8)
        patch = pixels[:_PATCH, :_PATCH]
        patch[:] = noise.integers(0, 256, patch.shape, dtype=numpy.uint8)
        return Image(data=encode(pixels))


def _size(value: JsonValue) -> tuple[tuple[int, int], list[str]]:
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    size = (int(found[1]), int(found[2])) if found else (0, 0)
    if all(1 <= side <= MAX_SIDE for side in size):
        return size, []
    return (1, 1), [f"image_size: {str(value)[:40]!r} is no size with sides from 1 to {MAX_SIDE}, such as 512x512."]
