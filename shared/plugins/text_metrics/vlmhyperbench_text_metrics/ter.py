"""TER: edits per reference word, where moving a sequence of words is one edit; pooled over a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import ClassVar, NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.pairs import lay_out

SHIFTED_WORDS = 500
"""Maximum number of words for the search of moves, whose time is practically unbounded for longer texts."""


class _Edits(NamedTuple):
    edits: float
    length: float
    """Statistic: mean number of words of the references."""
    unshifted: float
    """Statistic: 1 if a text is too long for the search of moves, so that its edits are an upper bound."""


class Ter:
    """Translation edit rate: edits per reference word, where moving a sequence of words is one edit.

    ## Formula

    100 · edits of the nearest reference / mean number of words of the references. Edits are insertions, deletions,
    substitutions and moves of runs of words, found by Tercom's search as sacrebleu implements it.

    The value is never clipped; 100 is one edit per word.

    The search for moves has no useful bound in time, so where a text has more than 500 words the edits are those
    without moves, which moves could only lower. Such samples are counted by the statistic `unshifted`.

    ## A group

    Pooled: 100 · Σ `edits` / Σ `length`; 100 where all references are empty and there are edits.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. Against an empty reference an empty answer
    scores 0 and any other 100, as in sacrebleu.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | sacrebleu | none up to 500 words; beyond, it goes on searching for moves |
    | WER | no moves, case counts, and an empty reference costs the number of insertions |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "sacrebleu": "lower case, Tercom's tokeniser without normalisation, punctuation kept.",
    }

    def __init__(self, *, profile: str = "sacrebleu") -> None:
        # Importing sacrebleu takes most of a second, and the other metrics of the package do not need it.
        from sacrebleu.metrics.ter import TER

        self._profile = check_profile("ter", profile, self.profiles)
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
        edits = [self._edits(predictions[row], references[row]) for row in pairs.rows.tolist()]
        table = np.array(edits, dtype=np.float64).reshape(len(edits), len(_Edits._fields))
        values = np.array([_rate(own.edits, own.length) for own in edits], dtype=np.float64)
        return pairs.measures(values, {name: table[:, no] for no, name in enumerate(_Edits._fields)})

    def compared(self, texts: Sequence[str]) -> list[str]:
        return [" ".join(text.lower().split()) for text in texts]

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
