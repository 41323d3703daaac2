"""Evaluation data: pages of the dataset's seeds, which training never uses, and held-out digits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from training.asking import READER_PROMPT
from vlmhyperbench_document_datasets.digits import HandwrittenDigits
from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import JsonObject, Sample

SEED = 1

SUITES: dict[str, JsonObject] = {
    "clean": {},
    "noisy": {"tier": "noisy"},
    "shifted": {"tier": "shifted"},
    "fonts": {"tier": "fonts"},
    "dense": {"tier": "dense"},
    "wordings": {"phrasings": "drawn"},
    "unanswerable": {"unanswerable": 2},
    "prompted": {"unanswerable": 2, "rule": "prompt"},
    "sentences": {"phrasings": "drawn", "answer_style": "sentence"},
    "reasons": {"phrasings": "drawn", "unanswerable": 1, "answer_style": "reasons"},
    "schemas": {"schemas": ["pairs", "nested", "typed"]},
}
"""Suite → params of the dataset. All except `dense` show the same documents."""
DIGITS = "digits"
_ONLY: dict[str, tuple[str, ...]] = {
    "unanswerable": ("field", "absent"),
    "prompted": ("field", "absent"),
    "sentences": ("field", "kind"),
    "reasons": ("field", "absent", "kind"),
    "schemas": ("schema",),
}
"""Suite → the types of question that it measures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A held-out question."""

    suite: str
    group: str
    """The field in question, or else the type of the question."""
    question: str
    image: bytes
    """A PNG."""
    expected: str
    """The complete right answer."""
    system_prompt: str = ""


def draw_items(suite: str, documents: int, *, seed: int = SEED) -> Iterator[Item]:
    """Yield the questions of a suite about a number of documents, or all held-out digits.

    Raises:
        KeyError: there is no such suite.
    """
    for sample in _samples(suite, documents, seed):
        question_type = str(sample.metadata["question_type"])
        if suite not in _ONLY or question_type in _ONLY[suite]:
            group = str(sample.metadata["field"]) if question_type == "field" else question_type
            yield Item(
                suite=suite,
                group=group,
                question=sample.question,
                image=sample.images[0].read(),
                expected=str(sample.metadata.get("answer", sample.references[0])),
                system_prompt=READER_PROMPT if suite == "prompted" else "",
            )


def _samples(suite: str, documents: int, seed: int) -> Iterator[Sample]:
    if suite == DIGITS:
        return iter(HandwrittenDigits(DatasetSource(split="test", params={"page": "wide"})))
    params = {**SUITES[suite], "documents": documents}
    return iter(SyntheticDocuments(DatasetSource(seed=seed, params=params)))
