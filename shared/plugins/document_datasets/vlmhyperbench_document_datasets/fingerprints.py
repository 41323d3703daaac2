"""Hashes of a dataset's pixels and texts, which are equal on every machine, unlike bytes of PNG files."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vlmhyperbench_sdk.types import Sample


def pixels_of(sample: Sample) -> NDArray[np.uint8]:
    """Return the grey pixels of a sample's only image. Shape: (height, width).

    Raises:
        ValueError: the sample has no image, or several.
    """
    (image,) = sample.images
    with Image.open(io.BytesIO(image.read())) as opened:
        return np.array(opened.convert("L"))


def pixel_hash(samples: Iterable[Sample]) -> str:
    """Hash the sizes and pixels of the images, 16 hex digits; consecutive equal images count once."""
    total, last = hashlib.sha256(), None
    for sample in samples:
        if sample.images != last:
            pixels = pixels_of(sample)
            total.update(repr(pixels.shape).encode() + pixels.tobytes())
        last = sample.images
    return total.hexdigest()[:16]


def text_hash(samples: Iterable[Sample]) -> str:
    """Hash keys, questions, references and metadata, 16 hex digits."""
    total = hashlib.sha256()
    for sample in samples:
        row = [sample.key, sample.question, list(sample.references), dict(sample.metadata)]
        total.update(json.dumps(row, sort_keys=True).encode() + b"\n")
    return total.hexdigest()[:16]
