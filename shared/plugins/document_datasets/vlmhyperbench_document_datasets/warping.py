"""Pages off the grid: rotated and scaled a little, in integer arithmetic.

Every pixel of the result is the mean of 4 × 4 points; a point has the ink of the nearest pixel of the sheet below it.
"""

from __future__ import annotations

import math
import random

import numpy as np

from vlmhyperbench_document_datasets.drawing import FULL, Sheet

ONE = 4096
"""1 as a fixed-point number: for sines, cosines and scales."""
MAX_SINE = 160
"""2.24 degrees."""
MIN_SCALE, MAX_SCALE = 3480, 4500
"""0.85 and 1.10."""
_POINTS = 4


def warp(sheet: Sheet, rng: random.Random, *, size: tuple[int, int]) -> Sheet:
    """Rotate and scale a sheet, and place its ink at random on a page of (height, width) pixels, all of it inside."""
    height, width = size
    rows, columns = np.nonzero(sheet.coverage)
    top, left = int(rows.min()), int(columns.min())
    ink_height, ink_width = int(rows.max()) + 1 - top, int(columns.max()) + 1 - left
    sine = rng.randint(-MAX_SINE, MAX_SINE)
    cosine = math.isqrt(ONE * ONE - sine * sine)
    wide = ink_width * cosine + ink_height * abs(sine)
    high = ink_height * cosine + ink_width * abs(sine)
    fits = min((width - 2) * ONE * ONE // wide, (height - 2) * ONE * ONE // high)
    scale = min(rng.randint(MIN_SCALE, MAX_SCALE), fits)
    slack_x = width - 1 - wide * scale // (ONE * ONE)
    slack_y = height - 1 - high * scale // (ONE * ONE)
    # The centre of the ink on the sheet and on the page, in half pixels.
    from_x, from_y = 2 * left + ink_width, 2 * top + ink_height
    to_x = width + rng.randint(-slack_x + 1, slack_x - 1)
    to_y = height + rng.randint(-slack_y + 1, slack_y - 1)

    # Points of a pixel are along the first two axes, pixels along the others: sums over leading axes are fast.
    steps = 2 * np.arange(_POINTS, dtype=np.int32) + 1
    x = 2 * _POINTS * np.arange(width, dtype=np.int32) + steps.reshape(1, -1, 1, 1) - _POINTS * to_x
    y = 2 * _POINTS * np.arange(height, dtype=np.int32)[:, None] + steps.reshape(-1, 1, 1, 1) - _POINTS * to_y
    # Points are in units of 1 / (2 · _POINTS) pixel; the inverse of a rotation is the opposite rotation. 32 bits are
    # enough for all products below, for pages of up to 1,000 pixels.
    unit = 2 * _POINTS * scale
    source_x = ((x * cosine + y * sine) * 2 + from_x * unit) // (2 * unit)
    source_y = ((y * cosine - x * sine) * 2 + from_y * unit) // (2 * unit)
    # No ink is 0, ink of no value is 1; around the sheet, there is none.
    labels = np.pad(np.where(sheet.coverage == FULL, sheet.owners + 1, 0).astype(np.int16), 1)
    rows_of_labels, columns_of_labels = labels.shape
    points = labels.ravel().take(
        np.clip(source_y + 1, 0, rows_of_labels - 1) * columns_of_labels
        + np.clip(source_x + 1, 0, columns_of_labels - 1)
    )
    return Sheet(
        coverage=(points > 0).sum(axis=(0, 1), dtype=np.int64) * FULL // _POINTS**2,
        owners=np.maximum(points.max(axis=(0, 1)).astype(np.int64) - 1, 0),
    )
