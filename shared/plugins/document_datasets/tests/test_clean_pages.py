"""The default pages and questions never change: a model was trained on them, and old runs stay comparable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vlmhyperbench_document_datasets.fingerprints import pixel_hash, text_hash
from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import JsonValue, Sample

LATER = {"tier", "truth", "boxes", "answer_bbox"}


def _samples(documents: int, seed: int, **params: JsonValue) -> list[Sample]:
    """Draw samples without the metadata that the first ones did not have."""
    samples = SyntheticDocuments(DatasetSource(seed=seed, params={"documents": documents, **params}))
    return [
        replace(sample, metadata={name: value for name, value in sample.metadata.items() if name not in LATER})
        for sample in samples
    ]


@pytest.mark.parametrize(
    ("seed", "pixels", "texts"),
    [(0, "5bec8247f56a79ab", "37c7e4bb8ca2f1a7"), (7, "f0982ae726f35a80", "aa396bba9e08c028")],
)
def test_the_first_hundred_pages_and_their_questions_stay_as_they_are(seed: int, pixels: str, texts: str) -> None:
    samples = _samples(100, seed)
    assert pixel_hash(samples) == pixels
    assert text_hash(samples) == texts


def test_the_text_pages_stay_as_they_are() -> None:
    assert text_hash(_samples(100, 0, page="text")) == "0cc0a81c96a3fc77"
