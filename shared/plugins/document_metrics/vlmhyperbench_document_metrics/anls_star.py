"""ANLS*: ANLS of every value of a nested document, in which what is missing or made up counts as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from vlmhyperbench_document_metrics.documents import (
    INVALID_REFERENCE,
    JsonAnswers,
    NotJson,
    best,
    is_broken_json,
    read_container,
)
from vlmhyperbench_document_metrics.rows import NO_REFERENCE, TOO_LARGE, gather, share
from vlmhyperbench_document_metrics.tree_similarity import similarity
from vlmhyperbench_document_metrics.work import TooLarge
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import INVALID_ANSWER, MetricDescription
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measure, Measures

PROFILES = ("paper",)

_STATISTICS = ("similarity", "invalid")


class AnlsStar:
    """Sum of the leaves' similarities over the length of the matched trees; best over the references.

    A reference that is a JSON object or array is a document, and the answer is read as JSON; any other reference is a
    text, and the answer is one too. Objects are compared key by key, lists by the best matching of their items.
    """

    def __init__(
        self, *, profile: str = "paper", on_invalid: Literal["exclude", "zero"] = "exclude", repair: bool = False
    ) -> None:
        self._profile = check_profile("anls_star", profile, PROFILES)
        self._reading = JsonAnswers(on_invalid=on_invalid, repair=repair)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="anls_star",
            profile=self._profile,
            version="1.0.0",
            title="ANLS*",
            kind="document",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=False,
            normaliser=f"leaves: lower case, white space collapsed and stripped; {self._reading}",
            formula="max over references of sum of s / length, s = 1 - NL if NL <= 0.5 else 0 for each leaf, "
            "NL = levenshtein / longer length; lists matched by the highest sum of their items' ANLS*",
            source="Peer et al. 2024, arXiv:2402.03848, section 3; package anls_star 1.0.1",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        measures = [self._sample(answer, own) for answer, own in zip(predictions, references, strict=True)]
        return gather(measures, _STATISTICS)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "similarity")

    def _sample(self, answer: str, references: Sequence[str]) -> Measure:
        if not references:
            return Measure.unscored(NO_REFERENCE)
        if any(map(is_broken_json, references)):
            return Measure.unscored(INVALID_REFERENCE)
        return best([self._pair(answer, reference) for reference in references])

    def _pair(self, answer: str, reference: str) -> Measure:
        document = read_container(reference)
        try:
            if document is None:
                return _scored(similarity(reference, answer))
            return _scored(_compare(document, self._reading.read(answer, document)))
        except TooLarge:
            return Measure.unscored(TOO_LARGE)
        except NotJson:
            excluded = self._reading.on_invalid == "exclude"
            return Measure.unscored(INVALID_ANSWER) if excluded else _scored(0.0, invalid=1.0)


def _compare(reference: JsonValue, answer: JsonValue) -> float:
    """Compare a document; a list of texts stands for alternatives where the answer is one text, as in the paper."""
    if (
        isinstance(answer, str)
        and isinstance(reference, list)
        and all(isinstance(accepted, str) for accepted in reference)
    ):
        return max((similarity(accepted, answer) for accepted in reference), default=0.0)
    return similarity(reference, answer)


def _scored(value: float, *, invalid: float = 0.0) -> Measure:
    return Measure(value=value, statistics={"similarity": value, "invalid": invalid})
