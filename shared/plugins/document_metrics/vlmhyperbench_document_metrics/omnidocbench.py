"""OmniDocBench: how far the texts, formulas and tables of a page in Markdown are from those of its annotation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from vlmhyperbench_document_metrics.documents import INVALID_REFERENCE
from vlmhyperbench_document_metrics.matching import match
from vlmhyperbench_document_metrics.page_elements import PageElements, read_annotation, read_markdown
from vlmhyperbench_document_metrics.rows import NO_REFERENCE, TOO_LARGE, gather
from vlmhyperbench_document_metrics.teds import Teds
from vlmhyperbench_document_metrics.work import TooLarge, Work
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measure, Measures

NO_ELEMENT = "no_element"
MAX_COST = 0.7
"""Maximum distance of two elements that are matched."""
_DROPPED = ("\\begin{", "\\end{")
_STYLES = ("text", "mathrm", "mathbf", "mathit", "mathsf", "mathcal", "mathbb", "boldsymbol", "textbf", "textit")
_SPACES = ("hspace{", "vspace{", "tag{", "label{", "quad", "qquad", ",", ";", "!", " ")


class OmniDocBench:
    r"""How far the texts, formulas or tables of a page in Markdown are from those of its annotation.

    ## Formula

    The page is cut into tables (HTML, or lines with bars), display formulas (`$$…$$`, `\[…\]`) and a text for each line
    that is left. Elements of a kind are matched one to one with those of the annotation, by the smallest sum of their
    distances (Levenshtein distance over the longer length); pairs further apart than 0.7 are none.

    - `text`, `formula`: Σ distances / Σ longer lengths of the pairs; an annotated element without a partner counts its
      length in both. 0 is best.
    - `table`: the mean of [teds](teds.md) over the annotated tables; one without a partner is 0. 1 is best.

    Before they are compared, texts become lower case (NFKC) without punctuation. Formulas lose environments, styles and
    spacing. Markup of headings and inline formulas is removed.

    ## A group

    The same over all elements of all pages: Σ `distance` / Σ `length`, or Σ `similarity` / Σ `tables`. The other
    additive statistic is `count`.

    ## How it is given

    The answer is Markdown, the reference the JSON of the page as in the data: `layout_dets` with `category_type`,
    `order`, `anno_id` and `text`, `latex` or `html`; `extra.relation` joins parts that are `truncated`.

    ## Bad input

    - No reference: unscored (`no_reference`). A reference of another form: unscored (`invalid_reference`).
    - A page whose annotation has no element of the kind: unscored (`no_element`).
    - Texts that are too long to be compared, or tables that are too large: unscored (`too_large`).
    - Elements of the answer without a partner cost nothing, as in lmms-eval: a page that is written twice is not worse.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | lmms-eval 0.7, `omnidocbench` | it cuts off what it takes for reasoning at the beginning, such as a first
        paragraph in bold; otherwise none |
    | OmniDocBench, VLMEvalKit | they split and join lines until they match best, leave captions, headers and footers
        out of the texts, take the mean over pages, and write `th` as `td`. OmniDocBench computes CDM of rendered
        formulas too, for which LaTeX has to run. Their scores are others |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "text": "edit distance of texts.",
        "formula": "edit distance of display formulas, not CDM.",
        "table": "TEDS of tables.",
    }

    def __init__(self, *, profile: str = "text") -> None:
        self._profile = check_profile("omnidocbench", profile, self.profiles)
        self._teds = Teds()

    @property
    def description(self) -> MetricDescription:
        is_table = self._profile == "table"
        return MetricDescription(
            name="omnidocbench",
            profile=self._profile,
            version="1.0.1",
            title=f"OmniDocBench, {self._profile}",
            kind="document",
            unit="1",
            range=(0.0, 1.0),
            direction="higher" if is_table else "lower",
            aggregation="pooled",
            proportion=False,
            normaliser={
                "text": "NFKC, lower case, punctuation becomes spaces, white space collapsed",
                "formula": "NFKC, lower case, without environments, styles and spacing",
                "table": "as teds, without line breaks",
            }[self._profile],
            formula="sum of TEDS of matched tables / annotated tables"
            if is_table
            else "sum of Levenshtein distances of matched elements / sum of their longer lengths",
            source="Ouyang et al. 2024, arXiv:2412.07626; omnidocbench of EvolvingLMMs-Lab/lmms-eval",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        measures = [self._sample(answer, own) for answer, own in zip(predictions, references, strict=True)]
        return gather(measures, ("similarity", "tables") if self._profile == "table" else ("distance", "length"))

    def compared(self, texts: Sequence[str]) -> list[str]:
        pages = [read_annotation(text) or read_markdown(text) for text in texts]
        return ["\n".join(map(self._normalised, self._of(page))) for page in pages]

    def combine(self, sums: Mapping[str, float]) -> float | None:
        part, whole = ("similarity", "tables") if self._profile == "table" else ("distance", "length")
        return sums[part] / sums[whole] if sums.get(whole, 0.0) > 0 else None

    def _of(self, page: PageElements) -> list[str]:
        return {"text": page.text, "formula": page.formula, "table": page.table}[self._profile]

    def _normalised(self, element: str) -> str:
        return {"text": _plain_text, "formula": _plain_formula, "table": _plain_html}[self._profile](element)

    def _sample(self, answer: str, references: Sequence[str]) -> Measure:
        if not references:
            return Measure.unscored(NO_REFERENCE)
        said, measures = self._of(read_markdown(answer)), []
        for text in references:
            page = read_annotation(text)
            if page is None:
                return Measure.unscored(INVALID_REFERENCE)
            try:
                measures.append(self._compare(self._of(page), said))
            except TooLarge:
                return Measure.unscored(TOO_LARGE)
        scored = [(measure.value, measure) for measure in measures if measure.value is not None]
        choose = max if self._profile == "table" else min
        return choose(scored, key=lambda item: item[0])[1] if scored else measures[0]

    def _compare(self, true: Sequence[str], said: Sequence[str]) -> Measure:
        own, other = ([self._normalised(element) for element in elements] for elements in (true, said))
        pairs = dict(_pairs(own, other))
        if self._profile == "table":
            similarity = sum(self._teds_of(true[row], said[column]) for row, column in pairs.items())
            counts = {"similarity": similarity, "tables": float(len(true))}
        else:
            partners = [other[pairs[row]] if row in pairs else "" for row in range(len(own))]
            counts = {
                "distance": float(sum(map(Levenshtein.distance, own, partners))),
                "length": float(sum(max(len(text), len(partner)) for text, partner in zip(own, partners, strict=True))),
            }
        value = self.combine(counts)
        return Measure.unscored(NO_ELEMENT) if value is None else Measure(value=value, statistics=counts)

    def _teds_of(self, true: str, said: str) -> float:
        measures = self._teds.measure([said.replace("\n", "")], [[true.replace("\n", "")]])
        if measures.reasons[0] == TOO_LARGE:
            raise TooLarge
        return measures.values[0] or 0.0


def _pairs(true: Sequence[str], said: Sequence[str]) -> list[tuple[int, int]]:
    if not true or not said:
        return []
    work = Work()
    work.count_pairs(len(true) * len(said))
    work.count_texts(sum(map(len, true)), sum(map(len, said)))
    costs: npt.NDArray[np.float64] = cdist(true, said, scorer=Levenshtein.normalized_distance, dtype=np.float64)
    rows, columns = match(-costs)
    return [
        (int(row), int(column)) for row, column in zip(rows, columns, strict=True) if costs[row, column] <= MAX_COST
    ]


def _plain_text(text: str) -> str:
    lowered = unicodedata.normalize("NFKC", text).lower()
    return " ".join("".join(char if char.isalnum() else " " for char in lowered).split())


def _plain_formula(latex: str) -> str:
    latex = unicodedata.normalize("NFKC", latex)
    for command in _DROPPED:
        latex = _without(latex, command, keep=False, other="")
    for style in _STYLES:
        latex = _without(latex, f"\\{style}{{", keep=True, other="")
    for space in _SPACES:
        command = f"\\{space}"
        latex = _without(latex, command, keep=False, other=" ") if space.endswith("{") else latex.replace(command, " ")
    return " ".join(latex.lower().split())


def _without(latex: str, command: str, *, keep: bool, other: str) -> str:
    """Replace a command and its argument, up to the next closing brace, by the argument or by another text."""
    parts, at = [], 0
    while (begin := latex.find(command, at)) >= 0 and (end := latex.find("}", begin + len(command))) >= 0:
        parts += [latex[at:begin], latex[begin + len(command) : end] if keep else other]
        at = end + 1
    return "".join([*parts, latex[at:]])


def _plain_html(html: str) -> str:
    return re.sub(r"\s+", " ", html.strip().lower())
