"""TEDS: edits of rows, cells and their text that turn a table into another, relative to its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from vlmhyperbench_document_metrics.documents import INVALID_REFERENCE, best
from vlmhyperbench_document_metrics.rows import NO_REFERENCE, TOO_LARGE, gather, share
from vlmhyperbench_document_metrics.tables import Table, read_table, table_lines
from vlmhyperbench_document_metrics.tree_edits import edit_distance
from vlmhyperbench_document_metrics.work import TooLarge
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measure, Measures

_STATISTICS = ("similarity", "without_table")
_NO_TABLE = "(no table)"


class Teds:
    """Edits of rows, cells and their text that turn an HTML table into another, relative to its size.

    ## Formula

    1 − tree edit distance / elements of the larger table, best over the references; at least 0.

    The tree has the elements of the table; what is inside of a `td` is the content of that cell. A node more or less
    costs 1, another tag, colspan or rowspan 1, another content of a `td` its Levenshtein distance over the longer
    length, counted in characters and tags (`<b>` is one). Elements are all below `table`, those inside of cells too.
    Two tables without an element: 1.

    ## A group

    The mean of its samples' values; the additive statistics are `similarity`, `without_table` (answers without a table)
    and `count`.

    ## How it is given

    Answer and references are HTML text, with or without `<html>` and `<body>`; the first table that stands directly in
    the body counts, text around it and a code fence do not.

    ```json
    {"id": 1, "prediction": "<table><tr><td>Tea</td></tr></table>", "targets": "<table><tr><td>Tea</td></tr></table>"}
    ```

    ## Bad input

    - No reference: unscored (`no_reference`). A reference without a table: unscored (`invalid_reference`).
    - An answer without a table, or with one inside of another element (`<div>`) only: 0, as in the script.
    - A span that is no number counts as 1. Comments and processing instructions are left out; NUL and lone surrogates
      are U+FFFD. Elements nested deeper than 255 are left out by the parser. Nothing is fetched, and no entities but
      HTML's own are known.
    - Unscored (`too_large`): what differs of the tables holds more than 200,000 characters and tags, more than 2,048
      kinds of tags, or more than 4,000,000 pairs of nodes of their subtrees with an elder sibling. Of plain tables
      about 80 rows of 8 cells with as many, wrong throughout, are the most; they take some 20 s. Equal rows at either
      end, and equal cells in the only row that differs, are left out before, which changes no distance: two tables of
      2,000 rows that differ in one cell take half a second.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | PubTabNet's script | it gives 0 to a table that does not stand in `<html><body>`; here such text is read as the
        body, which is the script's value with the two written around it |
    | PubTabNet's script | 0 for a reference without a table, an error for a span that is no number and for two tables
        without an element; a value below 0 where two trees of other shapes need more edits than the larger has elements
        |
    | PubTabNet's script, this | `th` is a tag like any other: its text is never compared, and `th` for `td` costs 1 |
    | OmniDocBench | it writes `th` as `td`, takes `thead` off and normalises text before; a table with either has
        another value there |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "pubtabnet": "PubTabNet's evaluation script.",
        "structure": "what cells hold is left out (`structure_only` of the script, TEDS-Struct elsewhere).",
    }

    def __init__(self, *, profile: str = "pubtabnet") -> None:
        self._profile = check_profile("teds", profile, self.profiles)

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

    def compared(self, texts: Sequence[str]) -> list[str]:
        return [_NO_TABLE if table is None else table_lines(table) for table in map(self._read, texts)]

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
