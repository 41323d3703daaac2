"""TEDS: how many edits of rows, cells and their text make one table the other, as a share of its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench_document_metrics.documents import INVALID_REFERENCE, best
from vlmhyperbench_document_metrics.rows import NO_REFERENCE, TOO_LARGE, gather, share
from vlmhyperbench_document_metrics.tables import Table, read_table
from vlmhyperbench_document_metrics.tree_edits import edit_distance
from vlmhyperbench_document_metrics.work import TooLarge
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measure, Measures

PROFILES = ("pubtabnet", "structure")

_STATISTICS = ("similarity", "without_table")


class Teds:
    """One minus the edit distance of two HTML tables over the elements of the larger one; best over the references.

    Profile `pubtabnet`: cells are compared by colspan, rowspan and content. Profile `structure`: by their spans alone.
    """

    def __init__(self, *, profile: str = "pubtabnet") -> None:
        self._profile = check_profile("teds", profile, PROFILES)

    @property
    def description(self) -> MetricDescription:
        whole = self._profile == "pubtabnet"
        return MetricDescription(
            name="teds",
            profile=self._profile,
            version="1.0.0",
            title="TEDS" if whole else "TEDS, structure only",
            kind="document",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=False,
            normaliser="first table of the HTML body; comments are left out"
            + ("" if whole else "; what cells hold is left out"),
            formula="max over references of 1 - tree edit distance / elements of the larger table, at least 0; an "
            "answer without a table: 0"
            + ("; another content costs levenshtein / longer length over characters and tags" if whole else ""),
            source="Zhong et al. 2020, arXiv:1911.10683, section 5; src/metric.py of ibm-aur-nlp/PubTabNet",
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
        true = [table for text in references if (table := self._read(text))]
        if len(true) < len(references):
            return Measure.unscored(INVALID_REFERENCE)
        predicted = self._read(answer)
        if predicted is None:
            return Measure(value=0.0, statistics={"similarity": 0.0, "without_table": 1.0})
        return best([_compare(reference, predicted) for reference in true])

    def _read(self, text: str) -> Table | None:
        return read_table(text, with_content=self._profile == "pubtabnet")


def _compare(true: Table, predicted: Table) -> Measure:
    elements = max(true.elements, predicted.elements)
    try:
        distance = edit_distance(true.root, predicted.root)
    except TooLarge:
        return Measure.unscored(TOO_LARGE)
    value = max(1.0 - distance / elements, 0.0) if elements else 1.0
    return Measure(value=value, statistics={"similarity": value, "without_table": 0.0})
