"""MathVista: the share of answers that are right by the type of their question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import ClassVar

from rapidfuzz.distance import Levenshtein

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.judged import measure_right, texts_of
from vlmhyperbench_text_metrics.multiple_choice import options_of, read_option
from vlmhyperbench_text_metrics.pairs import share

_QUOTED = re.compile(r'The answer is "(.*)"\.')
_BRACKETED = re.compile(r"\(([a-zA-Z])\)")
_MAX_CHARS = 10_000
"""An answer longer than this is none of a few words, and comparing it with options would take long."""


class MathVista:
    """The answer is right, by the type of its question.

    ## Formula

    Multiple choice (`question_type: multi_choice`): the letter in brackets, or the answer as a whole, if it is a
    letter, else the option with the smallest Levenshtein distance; its text must be the reference. `answer_type:
    integer`: the answer as a number without its decimals. `float`: rounded to `precision` decimals. Other types: the
    answer as it is. 1 if the text equals the reference's, else 0.

    `question_type`, `answer_type`, `precision` and `choices` are in the metadata, as in the benchmark's files.

    ## A group

    The mean of its samples' values; the additive statistics are `correct` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. An answer that is no number where one is asked
    for is wrong. An empty answer to a multiple choice is wrong; the script takes the shortest option for it. Nothing is
    read out of an answer of more than 10,000 characters.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | lupantech/MathVista, lmms-eval 0.7 | GPT extracts the answer first from every text that is not already an option
        or a number; published numbers have that step. Ask for the bare answer, or read it by an extractor. `quick` is
        their extraction without GPT (`quick_extract`), which is off by default |
    | VLMEvalKit | none to `vlmevalkit` where its first reading succeeds; else GPT extracts the answer there, and here
        it is wrong. It has no first reading of lists |
    | `quick` against `vlmevalkit` | `14.0` is the integer 14 in `quick` only; an option inside of a sentence is read
        in `vlmevalkit` only, unless its letter stands in brackets |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "direct": "the script's normalisation and comparison of answers that need no extraction by a model.",
        "quick": 'as `direct`, of the text between the quotes where the answer has `The answer is "text".`',
        "vlmevalkit": (
            "the first reading of VLMEvalKit: an option as in multiple_choice@vlmevalkit; an integer or a float where "
            "the whole answer is one, equal to the reference. A list is never right."
        ),
    }

    def __init__(self, *, profile: str = "direct") -> None:
        self._profile = check_profile("mathvista", profile, self.profiles)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="mathvista",
            profile=self._profile,
            version="1.0.0",
            title="MathVista",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=True,
            normaliser="the option that is read; the answer as a number"
            if self._profile == "vlmevalkit"
            else "the option's text; integers without decimals; floats rounded to the sample's precision",
            formula="1 if the normalised answer is the reference, else 0",
            source="Lu et al. 2024, arXiv:2310.02255, appendix; calculate_score.py of lupantech/MathVista",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        rule = {"direct": _is_right, "quick": _is_quickly_right, "vlmevalkit": _is_read}[self._profile]
        return measure_right(predictions, references, metadata, rule)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "correct")


def _is_right(answer: str, reference: str, metadata: JsonObject) -> bool:
    normalised = _normalised(answer.strip(), metadata)
    return normalised is not None and normalised.strip() == reference.strip()


def _is_quickly_right(answer: str, reference: str, metadata: JsonObject) -> bool:
    quoted = _QUOTED.search(answer)
    return _is_right(quoted[1] if quoted else answer, reference, metadata)


def _is_read(answer: str, reference: str, metadata: JsonObject) -> bool:
    if metadata.get("question_type") == "multi_choice":
        options = options_of(metadata)
        letter = read_option(answer, options)
        return letter is not None and options.get(letter) == reference
    number = {"integer": int, "float": float}.get(str(metadata.get("answer_type")))
    try:
        return number is not None and number(answer) == number(reference)
    except ValueError:
        return False


def _normalised(answer: str, metadata: JsonObject) -> str | None:
    if metadata.get("question_type") == "multi_choice":
        return _option(answer, texts_of(metadata, "choices"))
    try:
        if metadata.get("answer_type") == "integer":
            return str(int(float(answer)))
        if metadata.get("answer_type") == "float":
            precision = metadata.get("precision")
            return str(round(float(answer), int(precision) if isinstance(precision, (int, float)) else 0))
    except (ValueError, OverflowError):
        return None
    return answer


def _option(answer: str, choices: Sequence[str]) -> str | None:
    if not answer or not choices or len(answer) > _MAX_CHARS:
        return None
    bracketed = _BRACKETED.search(answer)
    letter = bracketed[1].upper() if bracketed else answer
    if len(letter) == 1 and letter in ascii_uppercase[: len(choices)]:
        return choices[ascii_uppercase.index(letter)]
    return min(choices, key=lambda choice: Levenshtein.distance(letter, choice))
