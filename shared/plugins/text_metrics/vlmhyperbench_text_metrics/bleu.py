"""BLEU: n-gram precision with a brevity penalty, corpus BLEU of any group from additive n-gram counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import ClassVar

import numpy as np

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import lay_out

_ORDERS = range(1, 5)
_COLUMNS = ("sys_len", "ref_len", *(f"correct_{n}" for n in _ORDERS), *(f"total_{n}" for n in _ORDERS))


class Bleu:
    """Corpus BLEU as sacrebleu computes it.

    ## Formula

    Geometric mean of the clipped precisions of 1- to 4-grams, times the brevity penalty, in points. The exact sacrebleu
    signature is the metric's `formula`.

    ## A group

    Pooled: corpus BLEU without effective order, from `sys_len`, `ref_len`, `correct_n` and `total_n`; no mean of
    sentence scores. A group has no corpus BLEU (no value, rather than 0) where no answer holds a 4-gram and its
    references have fewer than four words on average.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. All references of a sample are used at once.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | sacrebleu | none; hypothesis = prediction, and swapping the two gives another score |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "sacrebleu": (
            "tokeniser 13a, exponential smoothing, case counts. A sample's value is sentence BLEU with effective order."
        ),
    }

    def __init__(self, *, profile: str = "sacrebleu") -> None:
        # Importing sacrebleu takes most of a second, and the other metrics of the package do not need it.
        from sacrebleu.metrics.bleu import BLEU

        self._profile = check_profile("bleu", profile, self.profiles)
        self._sentence = BLEU(effective_order=True)
        self._corpus = BLEU()

    @property
    def description(self) -> MetricDescription:
        return MetricDescription(
            name="bleu",
            profile=self._profile,
            version="1.1.0",
            title="BLEU",
            kind="text",
            unit="points",
            range=(0.0, 100.0),
            direction="higher",
            aggregation="pooled",
            proportion=False,
            normaliser="none; tokeniser 13a",
            formula=f"nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|version:{version('sacrebleu')}",
            source="Papineni et al. 2002, doi:10.3115/1073083.1073135; sacrebleu (Post 2018, arXiv:1804.08771)",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        scores = [self._sentence.sentence_score(predictions[row], references[row]) for row in pairs.rows.tolist()]
        counts = np.array(
            [(score.sys_len, score.ref_len, *score.counts, *score.totals) for score in scores], dtype=np.float64
        ).reshape(len(scores), len(_COLUMNS))
        # Rounding gives a perfect sentence a score that is a few 1e-14 above 100.
        values = np.array([min(score.score, 100.0) for score in scores], dtype=np.float64)
        return pairs.measures(values, {name: counts[:, no] for no, name in enumerate(_COLUMNS)})

    def compared(self, texts: Sequence[str]) -> list[str]:
        return [self._sentence.tokenizer(text.rstrip()) for text in texts]

    def combine(self, sums: Mapping[str, float]) -> float | None:
        count = sums.get("count", 0.0)
        if count <= 0 or (sums["total_4"] <= 0 and sums["ref_len"] < _ORDERS[-1] * count):
            return None
        score = self._corpus.compute_bleu(
            correct=[round(sums[f"correct_{n}"]) for n in _ORDERS],
            total=[round(sums[f"total_{n}"]) for n in _ORDERS],
            sys_len=round(sums["sys_len"]),
            ref_len=round(sums["ref_len"]),
            smooth_method="exp",
        )
        return min(score.score, 100.0)
