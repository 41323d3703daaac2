"""Questions: many words for one answer, fields that are not there, and answers in sentences."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.support.wording import Wording
from vlmhyperbench_document_datasets.questions import ABSENT_RULE, NOT_STATED, WORDINGS
from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.datasets import check_dataset
from vlmhyperbench_sdk.types import JsonValue, Sample

MEANT_ALIKE = (
    {"BORN", "DATE", "DUE"},
    {"CLIENT", "NAME", "SHOP", "SURNAME"},
    {"CITY", "FROM", "TO"},
    {"PRICE", "TOTAL"},
)


def _samples(documents: int = 30, **params: JsonValue) -> list[Sample]:
    source = DatasetSource(seed=2, params={"documents": documents, "page": "text", **params})
    return list(SyntheticDocuments(source))


def _asked(sample: Sample) -> str:
    return sample.question.rpartition("\n\n")[2]


def test_other_words_keep_the_contract() -> None:
    params: dict[str, JsonValue] = {
        "documents": 5,
        "phrasings": "every",
        "unanswerable": 3,
        "answer_style": "reasons",
        "schemas": ["typed"],
    }
    assert check_dataset(SyntheticDocuments, DatasetSource(params=params)) > 150


@pytest.mark.parametrize("tier", ["clean", "dense"])
def test_every_question_in_every_wording_has_the_same_answer(tier: str) -> None:
    usual = {sample.key: sample for sample in _samples(tier=tier)}
    worded: dict[str, list[Sample]] = defaultdict(list)
    for sample in _samples(tier=tier, phrasings="every"):
        worded[sample.key.rpartition("~")[0]].append(sample)
    assert set(worded) == set(usual)
    for key, samples in worded.items():
        assert [sample.metadata["phrasing"] for sample in samples] == [0, 1, 2, 3]
        assert len({_asked(sample) for sample in samples}) == 4
        assert samples[0].question == usual[key].question
        assert {sample.references for sample in samples} == {usual[key].references}


def test_a_drawn_wording_is_one_of_the_four_and_each_is_drawn() -> None:
    every = {(sample.key, sample.question) for sample in _samples(phrasings="every")}
    drawn = _samples(phrasings="drawn")
    assert [sample.key for sample in drawn] == [sample.key for sample in _samples()]
    for sample in drawn:
        assert (f"{sample.key}~{sample.metadata['phrasing']}", sample.question) in every
    assert set(Counter(sample.metadata["phrasing"] for sample in drawn)) == {0, 1, 2, 3}


def test_every_type_has_four_wordings() -> None:
    assert {len(wordings) for wordings in WORDINGS.values()} == {4}


@pytest.mark.parametrize("tier", ["clean", "dense"])
def test_what_is_not_stated_stands_nowhere_on_the_page_nor_does_its_like(tier: str) -> None:
    samples = _samples(documents=200, tier=tier, unanswerable=3)
    absent = [sample for sample in samples if sample.metadata["question_type"] == "absent"]
    assert len(absent) == 600
    for sample in absent:
        printed = {word.rstrip(":") for word in sample.question.rpartition("\n\n")[0].split()}
        label = str(sample.metadata["field"]).upper()
        assert sample.references == (NOT_STATED,)
        assert label not in printed
        assert not any(label in alike and alike & printed for alike in MEANT_ALIKE)
    assert len({sample.metadata["field"] for sample in absent}) == {"clean": 16, "dense": 7}[tier]


def test_a_page_with_absent_fields_says_of_every_field_what_to_answer() -> None:
    for sample in _samples(unanswerable=1):
        says_so = _asked(sample).endswith("If the page does not state it, answer: not stated.")
        assert says_so == (sample.metadata["question_type"] in ("field", "absent"))


def test_the_rule_for_absent_fields_can_be_left_to_the_prompt(wording: Wording) -> None:
    said, left = (list(_samples(unanswerable=2, rule=rule)) for rule in ("question", "prompt"))
    assert [sample.question.removesuffix(ABSENT_RULE) for sample in said] == [sample.question for sample in left]
    assert [sample.references for sample in said] == [sample.references for sample in left]
    assert said != left
    with pytest.raises(InvalidInput) as refused:
        list(_samples(rule="prompt"))
    wording(refused.value)


def test_absent_fields_change_no_other_question_s_key_and_answer() -> None:
    usual = [(sample.key, sample.references) for sample in _samples()]
    kept = [sample for sample in _samples(unanswerable=2) if sample.metadata["question_type"] != "absent"]
    assert [(sample.key, sample.references) for sample in kept] == usual


@pytest.mark.parametrize("tier", ["clean", "dense"])
def test_a_sentence_ends_with_the_value(tier: str) -> None:
    for sample in _samples(tier=tier, answer_style="sentence", unanswerable=1):
        if sample.metadata["question_type"] in ("read", "json"):
            assert "answer" not in sample.metadata
        else:
            assert str(sample.metadata["answer"]).endswith(f" is {sample.references[0]}.")
            assert _asked(sample).endswith(" Answer in one sentence.")


@pytest.mark.parametrize("tier", ["clean", "dense"])
def test_a_reason_quotes_a_line_of_the_page_before_the_value(tier: str) -> None:
    quoted = 0
    for sample in _samples(tier=tier, answer_style="reasons", unanswerable=1):
        if sample.metadata["question_type"] in ("read", "json"):
            assert not {"answer", "answer_style"} & set(sample.metadata)
            continue
        answer = str(sample.metadata["answer"])
        if sample.metadata["question_type"] in ("field", "item"):
            lines = [" ".join(line.split()) for line in sample.question.rpartition("\n\n")[0].splitlines()]
            number, _, line = answer.partition('"')[0].split()[1], *answer.partition('"')[1:]
            assert line.startswith(lines[int(number) - 1] + '"')
            assert sample.references[0] in lines[int(number) - 1]
            quoted += 1
        assert answer.endswith(f"\nAnswer: {sample.references[0]}")
    assert quoted > 100


def test_all_wrong_choices_are_refused_at_once(wording: Wording) -> None:
    params: dict[str, JsonValue] = {
        "tier": "hard",
        "phrasings": "all",
        "unanswerable": 4,
        "answer_style": "poem",
        "schemas": ["typed", "xml"],
    }
    with pytest.raises(InvalidInput) as raised:
        _samples(**params)
    wording(raised.value)


@pytest.mark.parametrize("schemas", ["typed", ["typed", "typed"]])
def test_schemas_are_a_list_of_different_names(schemas: JsonValue, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        _samples(schemas=schemas)
    wording(refused.value)
