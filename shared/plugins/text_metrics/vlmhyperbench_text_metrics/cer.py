"""CER: character edits per reference character, pooled over a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.edit_rates import measure_edits, pooled_rate
from vlmhyperbench_text_metrics.pairs import lay_out


class Cer:
    """Character errors per character of the reference.

    ## Formula

    character edits (insertions, deletions, substitutions) / characters of the reference. An empty reference: 0 if the
    prediction is empty too, else the number of insertions over 1.

    The value is never clipped.

    ## A group

    Pooled: Σ edits / Σ reference characters, from the statistics `edits` and `length`; over 1 where every reference is
    empty. This is not the mean of the samples' rates: long references weigh more. Of several references the one with
    the lowest rate counts, the first among equals.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. A combining character is a character. A megabyte
    against a megabyte is quadratic and takes tens of seconds.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | jiwer | none for one reference; it takes no more than one |
    | means of per-sample rates | another number: of `x`/`a` and nine right characters in ten, the mean is 0.5 and the
        pooled rate 0.1 |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "jiwer": (
            "what jiwer 4 computes with its default transforms. White space at the ends is no part of a text; "
            "nothing else is normalised: case, punctuation and inner white space count."
        ),
    }

    def __init__(self, *, profile: str = "jiwer") -> None:
        self._profile = check_profile("cer", profile, self.profiles)

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="cer",
            profile=self._profile,
            version="1.0.0",
            title="Character error rate",
            kind="text",
            unit="1",
            range=(0.0, None),
            direction="lower",
            aggregation="pooled",
            proportion=False,
            normaliser="none; outer white space is no part of a text",
            formula="sum of character edits / sum of reference characters; an empty reference: insertions / 1",
            source="jiwer 4, process_characters with cer_default",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        return measure_edits(lay_out(predictions, references), _strip)

    def compared(self, texts: Sequence[str]) -> list[str]:
        return _strip(texts)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return pooled_rate(sums)


def _strip(texts: Sequence[str]) -> list[str]:
    return list(map(str.strip, texts))
