"""Synthetic documents: stable, seeded, drawn as the model needs them."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from PIL import Image

from tests.support.wording import Wording
from vlmhyperbench_document_datasets.annotation_csv import AnnotationCsv
from vlmhyperbench_document_datasets.digits import HandwrittenDigits
from vlmhyperbench_document_datasets.pages import FIELDS
from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_sdk.discovery import load
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.datasets import check_dataset
from vlmhyperbench_sdk.types import JsonValue, Sample


def _samples(documents: int = 40, seed: int = 7, **params: JsonValue) -> list[Sample]:
    return list(SyntheticDocuments(DatasetSource(seed=seed, params={"documents": documents, **params})))


def test_it_keeps_the_contract_of_a_dataset() -> None:
    assert check_dataset(SyntheticDocuments, DatasetSource(params={"documents": 20})) > 100
    assert check_dataset(SyntheticDocuments, DatasetSource(params={"documents": 20, "page": "text"})) > 100


def test_it_is_found_by_its_registered_name() -> None:
    assert load("datasets", "synthetic_documents") is SyntheticDocuments


def test_every_page_is_a_png_of_the_size_that_the_model_reads() -> None:
    for sample in _samples(documents=10):
        with Image.open(io.BytesIO(sample.images[0].read())) as image:
            assert (image.format, image.size, image.mode) == ("PNG", (192, 96), "L")


def test_a_page_carries_six_to_eight_questions_that_share_one_image() -> None:
    samples = _samples(documents=30)
    questions = Counter(sample.key.rpartition("/")[0] for sample in samples)
    assert len(questions) == 30
    assert set(questions.values()) <= {6, 7, 8}
    first = [sample for sample in samples if sample.key.startswith("7/000000/")]
    assert len({sample.images for sample in first}) == 1


def test_every_sample_names_its_document_class_and_question_type() -> None:
    samples = _samples()
    assert {sample.metadata["doc_class"] for sample in samples} == set(FIELDS)
    assert {sample.metadata["question_type"] for sample in samples} == {"field", "kind", "read", "json"}
    for sample in samples:
        assert ("field" in sample.metadata) == (sample.metadata["question_type"] == "field")


def test_the_answers_of_a_page_agree_with_each_other() -> None:
    samples = {sample.key: sample for sample in _samples()}
    pages = [sample for sample in samples.values() if sample.metadata["question_type"] == "json"]
    assert len(pages) == 40
    for sample in pages:
        page, document = json.loads(sample.references[0]), sample.key.rpartition("/")[0]
        assert page == sample.metadata["truth"]
        for field, value in page.items():
            assert samples[f"{document}/{field}"].references == (value,)


def test_a_longer_dataset_begins_with_the_shorter_one() -> None:
    short, long = _samples(documents=3), _samples(documents=6)
    assert [(s.key, s.question, s.images[0].data) for s in short] == [
        (s.key, s.question, s.images[0].data) for s in long[: len(short)]
    ]


def test_another_seed_draws_other_documents_under_other_keys() -> None:
    first, second = _samples(documents=5, seed=1), _samples(documents=5, seed=2)
    assert not {sample.key for sample in first} & {sample.key for sample in second}
    assert not {sample.images[0].data for sample in first} & {sample.images[0].data for sample in second}


def test_samples_come_one_by_one() -> None:
    endless = SyntheticDocuments(DatasetSource(params={"documents": 1_000_000}))
    assert len(list(islice(iter(endless), 3))) == 3


def test_a_text_page_puts_its_lines_before_the_question_and_has_no_image() -> None:
    drawn, text = _samples(documents=2), _samples(documents=2, page="text")
    assert [sample.key for sample in drawn] == [sample.key for sample in text]
    for picture, sample in zip(drawn, text, strict=True):
        assert sample.images == ()
        assert sample.question.endswith("\n\n" + picture.question)
        assert sample.references == picture.references


def test_the_default_is_two_hundred_documents() -> None:
    samples = SyntheticDocuments(DatasetSource(params={"page": "text"}))
    assert len({sample.key.rpartition("/")[0] for sample in samples}) == 200


def test_all_wrong_params_are_refused_at_once(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as raised:
        SyntheticDocuments(DatasetSource(params={"document": 3, "documents": 0, "page": "pdf", "seed": 1}))
    wording(raised.value)


def test_a_split_or_a_path_that_would_change_nothing_is_refused(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        SyntheticDocuments(DatasetSource(split="train"))
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        SyntheticDocuments(DatasetSource(path=Path("pages")))
    wording(refused.value)


@pytest.mark.parametrize("value", [True, "3", 2.0, None, -1])
def test_only_a_whole_number_counts_documents(value: JsonValue) -> None:
    with pytest.raises(InvalidInput, match="is not a whole number"):
        SyntheticDocuments(DatasetSource(params={"documents": value}))


@pytest.mark.parametrize("dataset", [SyntheticDocuments, HandwrittenDigits, AnnotationCsv])
def test_a_revision_that_would_change_nothing_is_refused(dataset: Callable[[DatasetSource], object]) -> None:
    with pytest.raises(InvalidInput, match="revision: "):
        dataset(DatasetSource(revision="abc"))
