"""Suites: equally many questions of each, named, with the whole answer as the reference."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.wording import Wording
from vlmhyperbench_document_datasets.suites import SUITES, DocumentSuites
from vlmhyperbench_sdk.discovery import load
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.datasets import check_dataset
from vlmhyperbench_sdk.types import JsonValue, Sample


def _samples(**params: JsonValue) -> list[Sample]:
    return list(DocumentSuites(DatasetSource(seed=1, params=params)))


def test_it_is_found_by_its_registered_name_and_keeps_the_contract() -> None:
    assert load("datasets", "document_suites") is DocumentSuites
    assert check_dataset(DocumentSuites, DatasetSource(params={"each": 3})) == 3 * len(SUITES)


def test_every_suite_has_equally_many_questions_in_its_turn() -> None:
    counts = Counter(str(sample.metadata["suite"]) for sample in _samples(each=5))
    assert counts == dict.fromkeys(SUITES, 5)
    assert [*counts] == [*SUITES]


def test_a_suite_asks_only_what_it_is_for_and_about_as_many_documents_as_given() -> None:
    samples = _samples(suites=["unanswerable"], documents=4)
    assert {sample.metadata["question_type"] for sample in samples} == {"field", "absent"}
    assert len({sample.key.rpartition("/")[0] for sample in samples}) == 4
    assert {sample.metadata["group"] for sample in samples} > {"absent"}
    assert len(_samples(suites=["digits"], documents=1)) == 899


def test_the_reference_of_a_style_is_the_whole_answer() -> None:
    (sample,) = _samples(suites=["reasons"], each=1)
    assert sample.references == (sample.metadata["answer"],)
    assert "Answer:" in sample.references[0]


def test_only_the_prompted_suite_leaves_its_rule_to_the_prompt() -> None:
    rule = "not stated"
    assert rule in _samples(suites=["unanswerable"], each=1)[0].question
    assert rule not in _samples(suites=["prompted"], each=1)[0].question


def test_wrong_params_are_refused_all_at_once(wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        DocumentSuites(
            DatasetSource(split="test", params={"suites": ["kleen"], "each": -1, "documents": 0, "tier": "x"})
        )
    wording(refused.value)
