"""Degrade a page as age, copiers and cameras do: stains, faint print, blur, noise, and the blocks of JPEG.

All arithmetic is on integers, so that the pixels are the same with every processor and every build of a library.
"""

from __future__ import annotations

import math
import random

import numpy as np
from numpy.typing import NDArray

from vlmhyperbench_document_datasets.drawing import Grey, add_noise

Pixels = NDArray[np.int64]

_BLOCK = 8
_BITS = 13
_LUMINANCE = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ],
    dtype=np.int64,
)
"""Steps of quantisation of luminance at quality 50 (ITU-T T.81, table K.1)."""
_COSINES = np.array(
    [
        [
            round((1 << _BITS) * math.sqrt((2 if wave else 1) / _BLOCK) * math.cos((2 * at + 1) * wave * math.pi / 16))
            for at in range(_BLOCK)
        ]
        for wave in range(_BLOCK)
    ],
    dtype=np.int64,
)
"""The cosine transform of a block of eight (T.81, A.3.3), times 2 ** _BITS, as integers."""


def degrade(pixels: Pixels, rng: random.Random, *, paper: int) -> Grey:
    """Stain, fade and blur a page, add noise and quantise its blocks, each with a strength drawn by the seed."""
    for _ in range(rng.randint(0, 3)):
        pixels = stain(pixels, rng)
    pixels = fade(pixels, paper=paper, keep=rng.randint(90, 220))
    # After a second blur even a person could not distinguish 3 from 8.
    if rng.random() < 0.6:
        pixels = blur(pixels)
    noisy = add_noise(pixels, rng, deviation=rng.randint(0, 8))
    return quantise_blocks(noisy, quality=rng.randint(25, 70))


def stain(pixels: Pixels, rng: random.Random) -> Pixels:
    """Darken a round spot, mostly in its centre."""
    height, width = pixels.shape
    x, y, radius, depth = rng.randrange(width), rng.randrange(height), rng.randint(8, 30), rng.randint(20, 70)
    rows, columns = np.ogrid[:height, :width]
    inside: Pixels = np.maximum(radius * radius - (columns - x) ** 2 - (rows - y) ** 2, 0)
    darker: Pixels = np.maximum(pixels - depth * inside // (radius * radius), 0)
    return darker


def fade(pixels: Pixels, *, paper: int, keep: int) -> Pixels:
    """Reduce the contrast of every pixel to the paper to this many 256ths."""
    return paper + ((pixels - paper) * keep + 128) // 256


def blur(pixels: Pixels) -> Pixels:
    """Mix every pixel with its neighbours, 1 : 2 : 1 in both directions; edge pixels are repeated."""
    wide = np.pad(pixels, 1, mode="edge")
    across = wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]
    both: Pixels = across[:-2] + 2 * across[1:-1] + across[2:]
    return (both + 8) // 16


def quantise_blocks(pixels: Grey, *, quality: int) -> Grey:
    """Return a grey image after JPEG's quantisation at a quality of 1 to 100; both sides are multiples of 8."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    steps = np.clip((_LUMINANCE * scale + 50) // 100, 1, 255)
    height, width = pixels.shape
    blocks = pixels.astype(np.int64).reshape(height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK).swapaxes(1, 2) - 128
    levels = _rounded(_COSINES @ blocks @ _COSINES.T, steps << 2 * _BITS)
    again = _rounded(_COSINES.T @ (levels * steps) @ _COSINES, np.int64(1 << 2 * _BITS)) + 128
    return np.clip(again.swapaxes(1, 2).reshape(height, width), 0, 255).astype(np.uint8)


def _rounded(values: Pixels, divisors: Pixels | np.int64) -> Pixels:
    """Divide and round to the nearest integer, halves away from zero."""
    rounded: Pixels = np.sign(values) * ((2 * np.abs(values) + divisors) // (2 * divisors))
    return rounded
