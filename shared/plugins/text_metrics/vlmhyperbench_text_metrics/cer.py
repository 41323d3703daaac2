"""CER: character edits per reference character, pooled over a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.edit_rates import measure_edits, pooled_rate
from vlmhyperbench_text_metrics.pairs import lay_out

PROFILES = ("jiwer",)


class Cer:
    """Character error rate as jiwer defines it, unclipped: above 1 where more is wrong than the reference is long."""

    def __init__(self, *, profile: str = "jiwer") -> None:
        self._profile = check_profile("cer", profile, PROFILES)

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

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return pooled_rate(sums)


def _strip(texts: Sequence[str]) -> list[str]:
    return list(map(str.strip, texts))
