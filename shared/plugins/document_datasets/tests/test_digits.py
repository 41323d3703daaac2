"""Handwritten digits: the official images, in two halves that never mix."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tests.support.wording import Wording
from vlmhyperbench_document_datasets import digits
from vlmhyperbench_document_datasets.digits import HandwrittenDigits
from vlmhyperbench_document_datasets.fingerprints import pixel_hash, pixels_of, text_hash
from vlmhyperbench_sdk.discovery import load
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.datasets import check_dataset
from vlmhyperbench_sdk.types import JsonValue, Sample


def _samples(split: str | None = None, **params: JsonValue) -> list[Sample]:
    return list(HandwrittenDigits(DatasetSource(split=split, params=params)))


def test_it_is_found_by_its_registered_name_and_keeps_the_contract() -> None:
    assert load("datasets", "handwritten_digits") is HandwrittenDigits
    assert check_dataset(HandwrittenDigits, DatasetSource()) == 899


def test_the_held_out_half_is_the_default_and_shares_no_image_with_the_other() -> None:
    held_out, train = _samples(), _samples("train")
    assert not {sample.images[0].data for sample in held_out} & {sample.images[0].data for sample in train}
    assert [sample.key for sample in held_out] == [f"{row:04d}" for row in range(898, 1797)]
    assert [sample.key for sample in train] == [f"{row:04d}" for row in range(898)]
    assert {sample.metadata["split"] for sample in held_out} == {"test"}


def test_images_and_labels_are_the_official_ones() -> None:
    official = load_digits()
    for sample in _samples(scale=1):
        row = int(sample.key)
        assert sample.references == (str(official.target[row]),)
        assert ((255 - pixels_of(sample)) / 255 * 16).round().tolist() == official.images[row].tolist()


def test_all_ten_digits_are_held_out_about_as_often() -> None:
    counts = Counter(sample.references[0] for sample in _samples())
    assert set(counts) == set("0123456789")
    assert 85 <= min(counts.values()) <= max(counts.values()) <= 95


def test_a_digit_is_enlarged_by_a_whole_factor_and_may_stand_on_wide_paper() -> None:
    small, square, wide = (pixels_of(_samples(**params)[0]) for params in ({"scale": 1}, {}, {"page": "wide"}))
    assert square.shape == (96, 96)
    assert (square == np.kron(small, np.ones((12, 12), dtype=np.uint8))).all()
    assert wide.shape == (96, 192)
    assert (wide[:, 48:144] == square).all()
    assert (wide[:, :48] == 255).all()
    assert (wide[:, 144:] == 255).all()


def test_the_digits_are_the_same_on_every_machine() -> None:
    samples = _samples(page="wide")
    assert pixel_hash(samples) == "e2b9801cf40a9560"
    assert text_hash(samples) == "2ecc1979d7f2de9a"


def test_wrong_params_and_splits_are_refused_all_at_once() -> None:
    with pytest.raises(InvalidInput) as raised:
        _samples("dev", scale=0, page="tall", size=3)
    for part in (
        "split: 'dev' is none of train, test",
        "scale: 0 is not",
        "page: 'tall' is none of",
        "size: there is no",
    ):
        assert part in str(raised.value)


def test_a_path_is_refused_since_no_file_is_read(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        HandwrittenDigits(DatasetSource(path=Path("digits")))
    wording(refused.value)


def test_it_says_which_package_it_needs(monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(InvalidInput) as refused:
        _samples()
    wording(refused.value)


def test_other_digits_than_the_official_ones_are_refused(monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    monkeypatch.setattr(digits, "_SHA256", "0" * 64)
    with pytest.raises(InvalidInput) as refused:
        _samples()
    wording(refused.value)
