"""The tiers: the same pixels on every machine, and boxes that hold what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.wording import Wording
from vlmhyperbench_document_datasets.faces import DEFAULT_FACE, OTHER_FACES, Face, face
from vlmhyperbench_document_datasets.fingerprints import pixel_hash, pixels_of, text_hash
from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_document_datasets.tiers import draw, make_document
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.datasets import check_dataset
from vlmhyperbench_sdk.types import JsonValue, Sample

Mask = NDArray[np.bool_]
MIDDLE_GREY = 142
"""Between the lightest ink (70) and the darkest paper (215)."""


def _samples(tier: str, documents: int = 40, seed: int = 3, **params: JsonValue) -> list[Sample]:
    return list(SyntheticDocuments(DatasetSource(seed=seed, params={"documents": documents, "tier": tier, **params})))


def _values(tier: str, documents: int = 40, **params: JsonValue) -> Iterator[tuple[str, Mask]]:
    """Yield every value that is asked for, and the ink in its box."""
    for sample in _samples(tier, documents, **params):
        if "answer_bbox" in sample.metadata:
            left, top, right, bottom = sample.metadata["answer_bbox"]
            yield sample.references[0], pixels_of(sample)[top:bottom, left:right] < MIDDLE_GREY


@pytest.mark.parametrize(
    ("tier", "pixels", "texts"),
    [
        ("noisy", "f13df29ef9636818", "c6c7dad0baeb71ba"),
        ("shifted", "f016bbe45e51c8a9", "6d4718bcdd49c99d"),
        ("fonts", "b64e6703b938f818", "278d20c67f0441c0"),
        ("dense", "abd121298408943f", "9ebd063334e5d4a2"),
    ],
)
def test_the_pages_of_a_tier_are_the_same_on_every_machine(tier: str, pixels: str, texts: str) -> None:
    samples = _samples(tier)
    assert pixel_hash(samples) == pixels
    assert text_hash(samples) == texts


@pytest.mark.parametrize("tier", ["noisy", "shifted", "fonts", "dense"])
def test_a_tier_keeps_the_contract_of_a_dataset(tier: str) -> None:
    assert check_dataset(SyntheticDocuments, DatasetSource(params={"documents": 5, "tier": tier})) > 30


@pytest.mark.parametrize("tier", ["noisy", "shifted", "fonts"])
def test_a_tier_shows_the_documents_of_the_clean_one_in_other_pixels(tier: str) -> None:
    for clean, other in zip(_samples("clean"), _samples(tier), strict=True):
        assert (clean.key, clean.question, clean.references) == (other.key, other.question, other.references)
        assert not np.array_equal(pixels_of(clean), pixels_of(other))


def test_pages_are_two_tiles_and_dense_ones_are_four() -> None:
    for tier, shape in {"noisy": (96, 192), "shifted": (96, 192), "fonts": (96, 192), "dense": (192, 192)}.items():
        assert {pixels_of(sample).shape for sample in _samples(tier, documents=3)} == {shape}


@pytest.mark.parametrize(
    ("tier", "faces"), [("clean", [DEFAULT_FACE]), ("dense", [DEFAULT_FACE]), ("fonts", OTHER_FACES)]
)
def test_a_box_holds_exactly_the_pixels_of_its_value(tier: str, faces: list[str]) -> None:
    read = 0
    for text, ink in _values(tier):
        assert any(np.array_equal(ink, _set_in(face(name), text)) for name in faces), text
        read += 1
    assert read > 150


def test_the_box_of_a_shifted_page_looks_more_like_its_value_than_like_any_other_of_its_length() -> None:
    values = [(text, ink) for text, ink in _values("shifted") if len(text) > 1]
    assert len(values) > 150
    looks = {text: [_spread(face(DEFAULT_FACE).glyphs[character]) for character in text] for text, _ in values}
    right = 0
    for text, ink in values:
        # Two columns of the last cell are empty, and a box ends before them.
        ends = np.linspace(0, ink.shape[1] + 2, 1 + len(text)).round().astype(int)
        seen = [_spread(ink[:, start:end]) for start, end in pairwise(ends)]
        unlike = {
            rival: np.abs(np.subtract(seen, look)).sum() for rival, look in looks.items() if len(look) == len(seen)
        }
        right += min(unlike, key=lambda rival: unlike[rival]) == text
    assert right / len(values) > 0.95


def test_the_boxes_of_a_noisy_page_are_those_of_the_clean_one() -> None:
    for clean, noisy in zip(_samples("clean"), _samples("noisy"), strict=True):
        assert clean.metadata["boxes"] == noisy.metadata["boxes"]


@pytest.mark.parametrize("tier", ["clean", "noisy", "shifted", "fonts", "dense"])
def test_every_field_has_a_box_on_the_page_and_no_two_boxes_touch(tier: str) -> None:
    for sample in _samples(tier, documents=20):
        height, width = pixels_of(sample).shape
        taken = np.zeros((height, width), dtype=int)
        assert isinstance(sample.metadata["boxes"], dict)
        assert set(sample.metadata["truth"]) - {"kind", "items"} <= set(sample.metadata["boxes"])
        for left, top, right, bottom in sample.metadata["boxes"].values():
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height
            taken[top:bottom, left:right] += 1
        # A turned page's boxes are larger than its words; those of neighbouring lines may share a row of pixels.
        assert taken.max() == 1 or tier == "shifted"


def test_all_other_faces_are_used() -> None:
    used = Counter[str]()
    for text, ink in _values("fonts", documents=60):
        used.update([name for name in OTHER_FACES if np.array_equal(ink, _set_in(face(name), text))][:1])
    assert set(used) == set(OTHER_FACES)


def test_a_text_page_has_the_truth_but_no_boxes() -> None:
    for sample in _samples("dense", documents=3, page="text"):
        assert sample.images == ()
        assert "truth" in sample.metadata
        assert "boxes" not in sample.metadata


def test_a_tier_that_there_is_not_is_not_drawn_as_another() -> None:
    page, rng = make_document("1/000000", "clean")
    with pytest.raises(ValueError, match="no tier 'nosiy'"):
        draw(page, rng, document="1/000000", tier="nosiy")


@pytest.mark.parametrize("tier", ["noisy", "shifted", "fonts"])
def test_a_text_page_cannot_be_drawn_in_another_way(tier: str, wording: Wording) -> None:
    with pytest.raises(InvalidInput, match=tier) as refused:
        _samples(tier, page="text")
    wording(refused.value)


def _set_in(typeface: Face, text: str) -> Mask:
    """Set a text in a face, cropped to its ink."""
    ink = np.zeros((16, 8 * len(text) + 8), dtype=bool)
    for place, character in enumerate(text):
        glyph = typeface.glyphs[character]
        ink[: glyph.shape[0], 8 * place : 8 * place + glyph.shape[1]] |= glyph
    return _cropped(ink)


def _cropped(ink: Mask) -> Mask:
    rows, columns = np.nonzero(ink)
    return ink[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]


def _spread(ink: Mask) -> NDArray[np.float64]:
    """Spread a character's ink over 8 × 8 pixels; how high and wide it was (a dot is neither) counts too."""
    if not ink.any():
        return np.zeros(66)
    small = _cropped(ink)
    rows = np.linspace(0, small.shape[0] - 1, 8).round().astype(int)
    columns = np.linspace(0, small.shape[1] - 1, 8).round().astype(int)
    return np.concatenate([small[np.ix_(rows, columns)].astype(float).ravel(), small.shape])
