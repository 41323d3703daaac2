"""Do the declared steps to the images of a sample: pages, size, grey, rotation. Results are PNG, without metadata."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import assert_never

from PIL import Image as Pillow

from vlmhyperbench.data.images import DECODING_ERRORS, InvalidImage
from vlmhyperbench.domain.selection import GreyscaleStep, PagesStep, PreprocessStep, ResizeStep, RotateStep
from vlmhyperbench_sdk.types import Image

_TURNS = {90: Pillow.Transpose.ROTATE_90, 180: Pillow.Transpose.ROTATE_180, 270: Pillow.Transpose.ROTATE_270}


def kept_pages(images: Sequence[Image], steps: Sequence[PreprocessStep]) -> list[Image]:
    """Return the images that the steps keep.

    Raises:
        InvalidImage: a sample has no such page.
    """
    kept = list(images)
    for step in steps:
        if isinstance(step, PagesStep):
            absent = [number for number in step.keep if not -len(kept) <= number < len(kept)]
            if absent:
                message = f"The sample has {len(kept)} images, and no page {absent[0]}."
                raise InvalidImage(message, cure="Correct preprocess of the dataset.")
            kept = [kept[number] for number in step.keep]
    return kept


def changes_pixels(steps: Sequence[PreprocessStep]) -> bool:
    """Return whether any step changes an image itself."""
    return any(not isinstance(step, PagesStep) for step in steps)


def prepared(data: bytes, steps: Sequence[PreprocessStep]) -> bytes:
    """Return a valid image after the steps; the same bytes if none of them changes it.

    Raises:
        InvalidImage: it cannot be decoded.
    """
    try:
        with Pillow.open(io.BytesIO(data)) as opened:
            image: Pillow.Image = opened
            for step in steps:
                image = _done(image, step)
            if image is opened:
                return data
            file = io.BytesIO()
            clean = Pillow.new(image.mode, image.size)
            clean.paste(image)  # without the metadata of the original, such as an orientation that is not applied
            clean.save(file, "PNG")
            return file.getvalue()
    except DECODING_ERRORS as error:
        raise InvalidImage(f"The image cannot be prepared: {error}.", cure="Replace the image.") from error


def _done(image: Pillow.Image, step: PreprocessStep) -> Pillow.Image:
    match step:
        case PagesStep():
            return image
        case ResizeStep(max_side=side):
            if max(image.size) <= side:
                return image
            longest = max(image.size)
            width, height = (max(1, round(length * side / longest)) for length in image.size)
            return _plain(image).resize((width, height), Pillow.Resampling.LANCZOS)
        case GreyscaleStep():
            return image if image.mode == "L" else image.convert("L")
        case RotateStep(degrees=degrees):
            return _plain(image).transpose(_TURNS[degrees])
        case _:
            assert_never(step)


def _plain(image: Pillow.Image) -> Pillow.Image:
    """Return an image in a mode in which pixels are colours, not numbers of a palette."""
    return image if image.mode in ("L", "RGB", "RGBA") else image.convert("RGB")
