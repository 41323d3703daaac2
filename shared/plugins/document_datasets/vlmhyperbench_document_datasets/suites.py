"""The dataset `document_suites`: questions of every difficulty in one data set, named by suite."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from vlmhyperbench_document_datasets.digits import HandwrittenDigits
from vlmhyperbench_document_datasets.params import choices, integer, refuse, unknown_params
from vlmhyperbench_document_datasets.synthetic import MAX_DOCUMENTS, SyntheticDocuments
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import JsonObject, Sample

OF_DOCUMENTS: Final[dict[str, JsonObject]] = {
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
"""Suite → params of `synthetic_documents`. All except `dense` show the same documents."""
DIGITS: Final = "digits"
SUITES: Final = (*OF_DOCUMENTS, DIGITS)
_ONLY: Final[dict[str, tuple[str, ...]]] = {
    "unanswerable": ("field", "absent"),
    "prompted": ("field", "absent"),
    "sentences": ("field", "kind"),
    "reasons": ("field", "absent", "kind"),
    "schemas": ("schema",),
}
"""Suite → the types of question that it asks, if not all."""
_PARAMS: Final = ("suites", "documents", "each")


class DocumentSuites:
    """Yield the questions of suites, one suite after the other, each with the whole right answer as its reference.

    Params:
        suites: names of `SUITES`, by default all: the tiers of `synthetic_documents`, its wordings, absent fields,
            styles and schemas, and handwritten digits.
        documents: how many documents of each suite (default 100); `digits` has no documents and yields its test split.
        each: maximum number of questions of each suite, by default 0: all.

    Keys begin with the suite, which is in the metadata as `suite`, as is `group`: the field in question, or else the
    type of the question. In `prompted` the questions leave the rule for absent fields to the system prompt.
    """

    def __init__(self, source: DatasetSource) -> None:
        suites, bad_suites = choices(source.params, "suites", known=SUITES)
        documents, bad_documents = integer(
            source.params, "documents", default=100, min_value=1, max_value=MAX_DOCUMENTS
        )
        each, bad_each = integer(source.params, "each", default=0, min_value=0, max_value=MAX_DOCUMENTS)
        problems = [*unknown_params(source.params, _PARAMS), *bad_suites, *bad_documents, *bad_each]
        problems += [
            f"{name}: this dataset has none." for name in ("revision", "split", "path") if getattr(source, name)
        ]
        refuse("document_suites", problems)
        self._seed, self._suites, self._documents, self._each = source.seed, suites or SUITES, documents, each

    def __iter__(self) -> Iterator[Sample]:
        for suite in self._suites:
            yield from islice(self._samples_of(suite), self._each or None)

    def _samples_of(self, suite: str) -> Iterator[Sample]:
        for sample in self._all_of(suite):
            question_type = str(sample.metadata["question_type"])
            if suite in _ONLY and question_type not in _ONLY[suite]:
                continue
            group = sample.metadata["field"] if question_type == "field" else question_type
            yield Sample(
                key=f"{suite}/{sample.key}",
                question=sample.question,
                images=sample.images,
                references=(str(sample.metadata.get("answer", sample.references[0])),),
                metadata={**sample.metadata, "suite": suite, "group": group},
            )

    def _all_of(self, suite: str) -> Iterator[Sample]:
        if suite == DIGITS:
            return iter(HandwrittenDigits(DatasetSource(split="test", params={"page": "wide"})))
        params = {**OF_DOCUMENTS[suite], "documents": self._documents}
        return iter(SyntheticDocuments(DatasetSource(seed=self._seed, params=params)))
