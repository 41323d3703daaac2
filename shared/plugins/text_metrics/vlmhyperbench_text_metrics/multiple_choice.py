"""Multiple choice: the share of answers from which the right letter is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import ClassVar

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.judged import measure_right, texts_of
from vlmhyperbench_text_metrics.pairs import share

_MARKS = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_VERBOSE = re.compile(r"(?i)(?:correct\s+)?answer\s+is\s+\**([ABCD])\**")
_MMLU_PRO = re.compile(r"answer is \(?([ABCDEFGHIJ])\)?")
_LAST_WORDS = 5
"""A letter counts only among the last words of an answer, of which it may be one of this many."""
_DECLINES = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_UNKNOWN = "Z"
"""The letter by which VLMEvalKit marks an answer that declines."""


class MultipleChoice:
    """The right letter is read from the answer.

    ## Formula

    1 if the letter that the profile reads is the reference, else 0. The options are the metadata's `choices`, labelled
    A, B, C …; without them, A to D.

    ## A group

    The mean of its samples' values; the additive statistics are `correct` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. An answer from which no letter is read is wrong,
    and none is guessed.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | VLMEvalKit, heuristic matching | none to `vlmevalkit`; with a judge, a model reads what the heuristic cannot, so
        its published numbers are higher for models that talk |
    | lmms-eval 0.7, `ai2d` | `exact_match` after `A.` at the beginning is cut to `A`: `(A)` is right, `The answer is A`
        is wrong |
    | lmms-eval 0.7, `extract_mcq_answer` | a letter at either end, or after a phrase, or anywhere |
    | lm-evaluation-harness 0.4, `mmlu_pro` | none to `mmlu_pro` |
    | TIGER-AI-Lab/MMLU-Pro | reads `answer: X` too, and then the last letter; guesses at random where nothing is read |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "vlmevalkit": (
            "`can_infer` of VLMEvalKit: punctuation becomes spaces; the only option letter that is a word of its own "
            "counts if it is among the last five words. Else `answer is X`; else the only option whose text occurs in "
            "the answer, unless that is longer than twice all options."
        ),
        "mmlu_pro": "the first `answer is X` or `answer is (X)`, A to J, in this case.",
    }

    def __init__(self, *, profile: str = "vlmevalkit") -> None:
        self._profile = check_profile("multiple_choice", profile, self.profiles)

    @property
    def description(self) -> MetricDescription:
        is_pro = self._profile == "mmlu_pro"
        return MetricDescription(
            name="multiple_choice",
            profile=self._profile,
            version="1.0.0",
            title="Multiple choice",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=True,
            normaliser="the letter after `answer is`" if is_pro else "the letter, or the option whose text occurs",
            formula="1 if the letter that is read from the answer is the reference, else 0",
            source="Wang et al. 2024, arXiv:2406.01574; mmlu_pro of EleutherAI/lm-evaluation-harness"
            if is_pro
            else "Duan et al. 2024, arXiv:2407.11691; can_infer of open-compass/VLMEvalKit",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        return measure_right(predictions, references, metadata, self._is_right)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "correct")

    def _is_right(self, answer: str, reference: str, metadata: JsonObject) -> bool:
        if self._profile == "mmlu_pro":
            announced = _MMLU_PRO.search(answer)
            letter = announced[1] if announced else None
        else:
            letter = read_option(answer, options_of(metadata))
        return letter == reference.strip().upper()


def options_of(metadata: JsonObject) -> dict[str, str]:
    """Return letter → text of the options; A to D with empty texts where the metadata has none."""
    return dict(zip(ascii_uppercase, texts_of(metadata, "choices") or [""] * 4, strict=False))


def read_option(answer: str, options: Mapping[str, str]) -> str | None:
    """Return the letter of the option that an answer chooses, by letter or by text; None if it chooses none."""
    if any(text in answer for text in _DECLINES):
        return _UNKNOWN
    words = answer.translate(_MARKS).split()
    letters = [letter for letter in options if letter in words]
    if len(letters) == 1 and words.index(letters[0]) > len(words) - _LAST_WORDS:
        return letters[0]
    if not letters and _UNKNOWN in words:
        return _UNKNOWN
    announced = _VERBOSE.search(answer)
    if announced and announced[1].upper() in options:
        return announced[1].upper()
    return _read_text(answer.lower(), options)


def _read_text(answer: str, options: Mapping[str, str]) -> str | None:
    if len(answer) > 2 * sum(map(len, options.values())):
        return None
    occurring = [letter for letter, text in options.items() if text.lower() in answer]
    return occurring[0] if len(occurring) == 1 else None
