"""Evaluation data: pages of the dataset's seeds, which training never uses, and held-out digits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from training.asking import READER_PROMPT
from vlmhyperbench_document_datasets.suites import DocumentSuites
from vlmhyperbench_sdk.protocols import DatasetSource

SEED = 1


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
        InvalidInput: there is no such suite.
    """
    for sample in DocumentSuites(DatasetSource(seed=seed, params={"suites": [suite], "documents": documents})):
        yield Item(
            suite=suite,
            group=str(sample.metadata["group"]),
            question=sample.question,
            image=sample.images[0].read(),
            expected=sample.references[0],
            system_prompt=READER_PROMPT if suite == "prompted" else "",
        )
