"""ANLS*: ANLS of every value of a nested document, including missing and invented values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from vlmhyperbench_document_metrics.documents import (
    INVALID_REFERENCE,
    JsonAnswers,
    NotJson,
    best,
    is_broken_json,
    read_container,
)
from vlmhyperbench_document_metrics.rows import NO_REFERENCE, TOO_LARGE, gather, share
from vlmhyperbench_document_metrics.shown import compared_documents
from vlmhyperbench_document_metrics.tree_similarity import leaf_text, similarity
from vlmhyperbench_document_metrics.work import TooLarge
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import INVALID_ANSWER, MetricDescription
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measure, Measures

_STATISTICS = ("similarity", "invalid")


class AnlsStar:
    r"""ANLS of every value of a nested document, including missing and invented values.

    ## Formula

    Σ s / length, best over the references; 1 where the length is 0.

    | Reference and answer | Σ s | length |
    |---|---|---|
    | text, number, true or false, both | 1 − NL where NL ≤ 0.5, else 0; NL = Levenshtein distance / longer length | 1 |
    | null and null, `""`, `[]`, `{}` or a missing key | 1 | 1 |
    | two objects | sum over the keys that either has; a key that only the answer has counts 0 | sum over the same keys
        |
    | two lists | sum over matched items | sum over matched items, and the leaves of all others |
    | anything else | 0 | the greater number of leaves |

    Items are matched so that the sum of their own ANLS* is highest; the order of items never counts. Among such
    matchings the one of the least length counts, then the one with the greatest Σ s. A number is its text in Python
    (`12.5`, `1e+16`), true is `true`.

    Options: `on_invalid` (`exclude` or `zero`), `repair` (false or true).

    ## A group

    The mean of its samples' values; the additive statistics are `similarity`, `invalid` and `count`.

    ## How it is given

    A reference that is a JSON object or array is a document, and the answer is read as JSON. Any other reference is a
    text, `null` and `12.50` included, and the answer is the text as it stands. Several references are alternatives (the
    tuples of the paper). In rows for `vlmhyperbench score` an array is given inside of the list of targets:

    ```json
    {"id": 1, "prediction": {"no": "A-17"}, "targets": {"no": "A-17", "total": 12.5}}
    {"id": 2, "prediction": "[\"tea\", \"milk\"]", "targets": [["milk", "tea"]]}
    {"id": 3, "prediction": "Berlin", "targets": ["Berlin", "Berlin, Germany"]}
    ```

    A list of texts as reference stands for alternatives where the answer is one JSON text, as in the paper.

    ## Bad input

    - No reference: unscored (`no_reference`).
    - A reference that begins as JSON does (`{"`, `["`, `[{`, `[[`) and is not, or has a key twice: unscored
      (`invalid_reference`). `[illegible]` is a text.
    - An answer to a document that is not JSON to the letter (RFC 8259; no key twice, no NaN, at most 64 levels):
      unscored (`invalid_json`), or 0 with `on_invalid: zero`, where `invalid` counts it. `repair: true` reads the first
      code fence, else the first balanced object or array, whichever the reference is.
    - More than 4,000,000 pairs of values in one comparison of two lists (2,000 items with 2,000), 40,000,000 in all,
      where a pair of lists counts 100, or more than 4·10¹⁰ pairs of characters (200,000 with 200,000): unscored
      (`too_large`).

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | anls_star 1.0.1 | none where one matching is best. It breaks ties between matchings by the order of the items:
        against `{"a": "x", "l": ["q", ["r", "s"]]}`, `{"a": "x", "l": ["v", ["t", "u"]]}` is 0.25 there and 0.2 with
        the two items swapped; here it is 0.25 in both orders |
    | anls_star 1.0.1 | a key that the answer makes up with the value null counts against it there, and here |
    | anls_star 1.0.1, `return_key_scores` | not given; `field_accuracy` has statistics by field |
    | `anls` of this project | half a text wrong (NL = 0.5) is 0 there and 0.5 here; it case-folds (`ß` is `ss`), this
        one writes in lower case |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "paper": "leaves in lower case, white space collapsed and stripped.",
    }

    def __init__(
        self, *, profile: str = "paper", on_invalid: Literal["exclude", "zero"] = "exclude", repair: bool = False
    ) -> None:
        self._profile = check_profile("anls_star", profile, self.profiles)
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

    def compared(self, texts: Sequence[str]) -> list[str]:
        return compared_documents(texts, self._reading, lambda value: "(null)" if value is None else leaf_text(value))

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
    """Compare a document; a list of texts means alternatives if the answer is a single text, as in the paper."""
    if (
        isinstance(answer, str)
        and isinstance(reference, list)
        and all(isinstance(accepted, str) for accepted in reference)
    ):
        return max((similarity(accepted, answer) for accepted in reference), default=0.0)
    return similarity(reference, answer)


def _scored(value: float, *, invalid: float = 0.0) -> Measure:
    return Measure(value=value, statistics={"similarity": value, "invalid": invalid})
