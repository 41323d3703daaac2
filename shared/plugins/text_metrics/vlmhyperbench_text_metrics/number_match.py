"""Number match: the share of answers whose final number is that of the worked solution."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.judged import measure_right
from vlmhyperbench_text_metrics.pairs import share

_ANNOUNCED = re.compile(r"#### (-?[0-9.,]+)")
_ANY = re.compile(r"-?[$0-9.,]{2,}|-?[0-9]+")
_MARK = "#### "


class NumberMatch:
    """The final number of an answer is that of the worked solution.

    ## Formula

    A number is read from the answer by the profile. From it and from the reference, all up to the last `#### `, commas,
    dollar signs and a full stop at the end are removed; 1 if the remaining texts are equal, else 0. So `18` and `18.0`
    differ.

    ## A group

    The mean of its samples' values; the additive statistics are `correct` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. An answer without a number is wrong.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | lm-evaluation-harness 0.4, `gsm8k` | none: its filters strict-match and flexible-extract; it also ends an answer
        at `Question:`, which a task does by `stop` |
    | openai/grade-school-math, `dataset.py` | as `gsm8k_strict`, but neither dollar signs nor a full stop are removed |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "gsm8k_flexible": "the last number of the answer, with its currency, commas and points.",
        "gsm8k_strict": "the first number after `#### `, as the worked examples end.",
    }

    def __init__(self, *, profile: str = "gsm8k_flexible") -> None:
        self._profile = check_profile("number_match", profile, self.profiles)

    @property
    def description(self) -> MetricDescription:
        which = "last number" if self._profile == "gsm8k_flexible" else "first number after ####"
        return MetricDescription(
            name="number_match",
            profile=self._profile,
            version="1.0.0",
            title="Number match",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=True,
            normaliser="without commas, dollar signs and a full stop at the end",
            formula=f"1 if the {which} of the answer is the text of the reference's number, else 0",
            source="Cobbe et al. 2021, arXiv:2110.14168; gsm8k.yaml of EleutherAI/lm-evaluation-harness",
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

    def _is_right(self, answer: str, reference: str, _metadata: JsonObject) -> bool:
        number = self._read(answer)
        return number is not None and _bare(number) == _bare(reference)

    def _read(self, answer: str) -> str | None:
        if self._profile == "gsm8k_strict":
            announced = _ANNOUNCED.search(answer)
            return announced[1] if announced else None
        numbers = _ANY.findall(answer)
        return numbers[-1] if numbers else None


def _bare(text: str) -> str:
    """Return a number without what is ignored, in the order in which lm-evaluation-harness removes it."""
    return re.sub(r"\.$", "", text.replace(",", "").replace("$", "").rpartition(_MARK)[2]).lower()
