"""Yes or no: how well answers to questions of yes or no agree with the truth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import NO_REFERENCE
from vlmhyperbench_text_metrics.vqa_text import without_punctuation

Reading = Literal["yes", "no", "neither"]

_DENIALS = frozenset({"No", "not", "no"})
_CELLS = ("tp", "fp", "fn", "tn", "wrong_yes", "wrong_no")


class YesNo:
    """How well answers of yes or no agree with the truth, where models talk around the word.

    ## Formula

    tp, fp, fn and tn count with *yes* as the positive class. Accuracy: (tp + tn) / samples. Precision: tp / (tp + fp).
    Recall: tp / (yes in truth). F1: 2 · precision · recall / (precision + recall), 0 where nothing is right. A sample's
    own value is 1 if its answer is right, else 0, in every profile.

    ## A group

    The number of the profile, computed from the sums of `tp`, `fp`, `fn`, `tn`, `wrong_yes` and `wrong_no` (neither yes
    nor no, where yes or no is true), and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`). One whose references are neither yes nor no, or both, is
    unscored (`no_yes_or_no`). An answer that is read as neither is wrong: a missed yes where yes is true, and no false
    yes where no is.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | evaluate.py of POPE | none to `f1`, `accuracy`, `precision`, `recall`, except that a blank answer is yes there |
    | lmms-eval 0.7, `pope` | the whole answer must be `yes` or `no`: `Yes, it is.` is wrong there |
    | VLMEvalKit, `POPE` | reads as `words_f1`; an answer with neither counts as no in its F1, as here |
    | VLMEvalKit, `HallusionBench` | aAcc is `words`; fAcc and qAcc are [hallusionbench](hallusionbench.md) |
    | HallusionBench's own script, lmms-eval | GPT-4 reads the answer |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "f1": (
            "F1 as evaluate.py of POPE. Only the text before the first full stop is read, without commas; it is no if "
            "it has the word No, not or no, and yes otherwise."
        ),
        "accuracy": "accuracy, read as `f1` does.",
        "precision": "precision, read as `f1` does.",
        "recall": "recall, read as `f1` does.",
        "words": (
            "accuracy as VLMEvalKit reads: lower case without punctuation; yes if the word yes is there and no is not, "
            "no in the reverse case, and neither otherwise."
        ),
        "words_f1": "F1, read as `words` does.",
    }

    def __init__(self, *, profile: str = "f1") -> None:
        self._profile = check_profile("yes_no", profile, self.profiles)
        self._is_of_words = profile.startswith("words")

    @property
    def description(self) -> MetricDescription:
        is_mean = self._profile in {"accuracy", "words"}
        formulas = {
            "precision": "tp / (tp + fp)",
            "recall": "tp / yes in truth",
            "accuracy": "(tp + tn) / samples",
            "words": "(tp + tn) / samples",
        }
        return MetricDescription(
            name="yes_no",
            profile=self._profile,
            version="1.0.0",
            title="Yes or no",
            kind="classification",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean" if is_mean else "pooled",
            proportion=is_mean,
            normaliser="the words yes and no" if self._is_of_words else "words before the first full stop, no commas",
            formula=formulas.get(self._profile, "2 * precision * recall / (precision + recall)"),
            source="YOrN_Extraction of open-compass/VLMEvalKit"
            if self._is_of_words
            else "Li et al. 2023, arXiv:2305.10355, section 3; evaluate.py of RUCAIBox/POPE",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        read = _read_words if self._is_of_words else _read_sentence
        cells = [_cell(read(answer), accepted) for answer, accepted in zip(predictions, references, strict=True)]
        return Measures(
            values=[float(cell in {"tp", "tn"}) if cell in _CELLS else None for cell in cells],
            reasons=[None if cell in _CELLS else cell for cell in cells],
            statistics={
                **{name: [float(cell == name) for cell in cells] for name in _CELLS},
                "count": [float(cell in _CELLS) for cell in cells],
            },
        )

    def combine(self, sums: Mapping[str, float]) -> float | None:
        count = sums.get("count", 0.0)
        if count <= 0:
            return None
        right_yes, is_yes = sums["tp"], sums["tp"] + sums["fn"] + sums["wrong_yes"]
        said_yes = sums["tp"] + sums["fp"]
        if self._profile in {"accuracy", "words"}:
            return (right_yes + sums["tn"]) / count
        if self._profile == "precision":
            return right_yes / said_yes if said_yes else 0.0
        if self._profile == "recall":
            return right_yes / is_yes if is_yes else 0.0
        return 2.0 * right_yes / (said_yes + is_yes) if right_yes else 0.0


def _cell(said: Reading, accepted: Sequence[str]) -> str:
    """Return the cell of the confusion matrix, or the reason why there is none."""
    if not accepted:
        return NO_REFERENCE
    true = {text.strip().lower() for text in accepted}
    if true == {"yes"}:
        return {"yes": "tp", "no": "fn", "neither": "wrong_yes"}[said]
    if true == {"no"}:
        return {"yes": "fp", "no": "tn", "neither": "wrong_no"}[said]
    return "no_yes_or_no"


def _read_sentence(answer: str) -> Reading:
    if not answer.strip():
        return "neither"
    words = answer.partition(".")[0].replace(",", "").split(" ")
    return "no" if _DENIALS & set(words) else "yes"


def _read_words(answer: str) -> Reading:
    words = set(re.split(r"\s+", without_punctuation(answer.lower())))
    if ("yes" in words) == ("no" in words):
        return "neither"
    return "yes" if "yes" in words else "no"
