"""TER: edits per reference word, where moving a run of words is one edit; pooled over a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import lay_out

PROFILES = ("sacrebleu",)

SHIFTED_WORDS = 500
"""The search for moves takes time without a bound that a long answer could keep; longer texts go without it."""


class _Edits(NamedTuple):
    edits: float
    length: float
    """Mean number of words of the references."""
    unshifted: float
    """1 where a text is too long for the search of moves, so that edits are an upper bound."""


class Ter:
    """Translation edit rate in points, 100 = one edit per word, unclipped, as sacrebleu computes it by default.

    Case does not count. Edits are those of the nearest reference, divided by the mean length of the references.
    """

    def __init__(self, *, profile: str = "sacrebleu") -> None:
        # sacrebleu takes most of a second to import, which the other metrics of the package need not pay.
        from sacrebleu.metrics.ter import TER

        self._profile = check_profile("ter", profile, PROFILES)
        self._ter = TER()

    @property
    def description(self) -> MetricDescription:
        signature = f"nrefs:var|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:{version('sacrebleu')}"
        return MetricDescription(
            name="ter",
            profile=self._profile,
            version="1.0.0",
            title="Translation edit rate",
            kind="text",
            unit="points",
            range=(0.0, None),
            direction="lower",
            aggregation="pooled",
            proportion=False,
            normaliser="lower case; words are divided by white space",
            formula=f"{signature}; 100 · edits / mean reference words; no moves above {SHIFTED_WORDS} words",
            source="Snover et al. 2006, AMTA, pages 223-231; sacrebleu (Post 2018, arXiv:1804.08771)",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        found = [self._edits(predictions[row], references[row]) for row in pairs.rows.tolist()]
        table = np.array(found, dtype=np.float64).reshape(len(found), len(_Edits._fields))
        values = np.array([_rate(own.edits, own.length) for own in found], dtype=np.float64)
        return pairs.measures(values, {name: table[:, no] for no, name in enumerate(_Edits._fields)})

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return _rate(sums["edits"], sums["length"]) if sums.get("count", 0.0) > 0 else None

    def _edits(self, prediction: str, references: Sequence[str]) -> _Edits:
        predicted, *true = (text.lower().split() for text in (prediction, *references))
        if max(map(len, (predicted, *true))) > SHIFTED_WORDS:
            edits = min(Levenshtein.distance(predicted, own) for own in true)
            return _Edits(edits, sum(map(len, true)) / len(true), 1.0)
        score = self._ter.sentence_score(prediction, references)
        return _Edits(score.num_edits, score.ref_length, 0.0)


def _rate(edits: float, length: float) -> float:
    if length > 0:
        return 100 * (edits / length)
    return 100.0 if edits > 0 else 0.0
