"""What a noisy page goes through, step by step."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
from PIL import Image

from vlmhyperbench_document_datasets.degrading import blur, fade, quantise_blocks, stain
from vlmhyperbench_document_datasets.drawing import FULL, Sheet, add_noise
from vlmhyperbench_document_datasets.warping import warp


def test_fading_keeps_a_part_of_the_difference_to_the_paper() -> None:
    assert fade(np.array([[200, 0, 100]]), paper=200, keep=128).tolist() == [[200, 100, 150]]


def test_blurring_spreads_a_pixel_over_its_neighbours() -> None:
    page = np.zeros((3, 3), dtype=np.int64)
    page[1, 1] = 160
    assert blur(page).tolist() == [[10, 20, 10], [20, 40, 20], [10, 20, 10]]


def test_blurring_leaves_even_paper_even_at_the_edges() -> None:
    assert (blur(np.full((4, 5), 231, dtype=np.int64)) == 231).all()


def test_a_stain_only_darkens_and_not_everywhere() -> None:
    page = np.full((96, 192), 240, dtype=np.int64)
    stained = stain(page, random.Random(1))
    assert stained.max() == 240
    assert 170 <= stained.min() < 240


@pytest.mark.parametrize("quality", [25, 49, 50, 70])
def test_blocks_are_quantised_as_in_jpeg(quality: int) -> None:
    pixels = np.random.default_rng(0).integers(60, 200, (96, 192)).astype(np.uint8)
    pixels[20:40, 30:90] = 20
    encoded = io.BytesIO()
    Image.fromarray(pixels).save(encoded, "JPEG", quality=quality)
    with Image.open(encoded) as opened:
        decoded = np.array(opened).astype(int)
    difference = np.abs(quantise_blocks(pixels, quality=quality).astype(int) - decoded)
    # Where a coefficient is halfway between two steps, the encoder's rounding may go to the other one.
    of_blocks = difference.reshape(12, 8, 24, 8).max(axis=(1, 3))
    assert (of_blocks <= 1).mean() > 0.8


def test_noise_has_the_deviation_that_is_asked_for() -> None:
    grey = np.full((96, 192), 128, dtype=np.int64)
    assert (add_noise(grey, random.Random(1), deviation=0) == 128).all()
    noisy = add_noise(grey, random.Random(1), deviation=6).astype(float)
    assert 5.9 < noisy.std() < 6.1
    assert abs(noisy.mean() - 128) < 0.1


def test_a_turned_sheet_keeps_all_of_its_ink() -> None:
    ink = np.zeros((30, 60), dtype=np.int64)
    ink[5:25, 10:50] = FULL
    for seed in range(50):
        warped = warp(Sheet(coverage=ink, owners=ink // FULL), random.Random(seed), size=(96, 192))
        area = warped.coverage.sum() / FULL
        assert 0.84**2 * 800 < area < 1.11**2 * 800
        assert ((warped.owners == 1) == (warped.coverage > 0)).all()


def test_a_sheet_that_is_too_large_is_made_to_fit() -> None:
    ink = np.full((96, 200), FULL, dtype=np.int64)
    for seed in range(50):
        warped = warp(Sheet(coverage=ink, owners=ink // FULL), random.Random(seed), size=(96, 192)).coverage
        assert warped[0].max() < FULL
        assert warped[-1].max() < FULL
        assert warped[:, 0].max() < FULL
        assert warped[:, -1].max() < FULL
        assert warped.sum() / FULL > 0.6 * 96 * 192
