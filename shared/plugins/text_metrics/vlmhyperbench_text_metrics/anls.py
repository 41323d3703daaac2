"""ANLS: average normalised Levenshtein similarity, which tolerates small reading errors only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_text_metrics.edit_rates import distances
from vlmhyperbench_text_metrics.pairs import IntArray, Pairs, lay_out, share

_PAPER = "Biten et al. 2019, arXiv:1905.13648, eq. 1"


class Anls:
    """Average normalised Levenshtein similarity, which tolerates small reading errors only.

    ## Formula

    Texts are stripped and case-folded; d is their Levenshtein distance in code points, L the longer length, NL = d / L
    (0 for two empty texts). The value is the best over the references of 1 − NL where NL is under the threshold, else
    0.

    The threshold is decided on integers (2d against L), so that rounding never moves it.

    ## A group

    The mean of its samples' values; the additive statistics are `similarity` and `count`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), never 0. An empty answer scores 1 against an empty
    reference and 0 against any other. A combining character counts as a code point of its own. A megabyte against an
    ordinary reference takes milliseconds; a megabyte against a megabyte is quadratic and takes tens of seconds.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | package `anls` 0.0.2 | white space inside a text is collapsed first: `a b` against `a  b` scores 1, here 0.75 |
    | google-research/pix2struct, `anls_metric` | `NL <= 0.5` counts (profile `inclusive`); lower case, ends are not
        stripped |

    White space at the ends makes a text longer and so hides errors: `"      ab      "` against `"ax"` has NL = 0.5 only
    after stripping.
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "paper": (
            "NL < 0.5 counts, as in Biten et al. 2019, arXiv:1905.13648, eq. 1; a similarity of exactly 0.5 scores 0."
        ),
        "inclusive": "NL ≤ 0.5 counts.",
        "docvqa": (
            "as the evaluation script of the DocVQA challenge, and the harnesses after it, compute it, so "
            "that numbers can be held against published ones. d is the distance of the texts in lower case "
            "with each run of white space one space; L is the longer length of the texts as they came, in "
            'upper case; NL ≤ 0.5 counts. Spaces around an answer therefore flatter it: `"      ab      "` '
            'against `"ax"` scores 0.93.'
        ),
    }

    def __init__(self, *, profile: str = "paper") -> None:
        self._profile = check_profile("anls", profile, self.profiles)

    @property
    def description(self) -> MetricDescription:
        sign = "<" if self._profile == "paper" else "<="
        is_docvqa = self._profile == "docvqa"
        return MetricDescription(
            name="anls",
            profile=self._profile,
            version="1.0.0",
            title="ANLS",
            kind="text",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=False,
            normaliser="lower case, white space collapsed" if is_docvqa else "strip, casefold",
            formula=f"max over references of s = 1 - NL if NL {sign} 0.5 else 0, NL = levenshtein / longer length"
            + (" of the texts as they came" if is_docvqa else ""),
            source="evaluation script of the DocVQA challenge" if is_docvqa else _PAPER,
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        pairs = lay_out(predictions, references)
        distance, longest = _compare_as_docvqa(pairs) if self._profile == "docvqa" else _compare(pairs)
        # The threshold is compared in integers, so that 0.5 itself does not depend on rounding.
        counts = (2 * distance < longest) if self._profile == "paper" else (2 * distance <= longest)
        similarity = np.where(counts | (longest == 0), 1.0 - distance / np.maximum(longest, 1), 0.0)
        best = similarity[pairs.best(similarity)]
        return pairs.measures(best, {"similarity": best})

    def compared(self, texts: Sequence[str]) -> list[str]:
        return _collapse(texts) if self._profile == "docvqa" else _fold(texts)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return share(sums, "similarity")


def _compare(pairs: Pairs) -> tuple[IntArray, IntArray]:
    distance, said_length, true_length = distances(pairs, _fold)
    return distance, np.maximum(said_length, true_length)


def _compare_as_docvqa(pairs: Pairs) -> tuple[IntArray, IntArray]:
    """Divide by the length of the original texts, because the script normalises texts only for the distance."""
    distance, _, _ = distances(pairs, _collapse)
    return distance, np.maximum(_raw_lengths(pairs.predictions), _raw_lengths(pairs.references))


def _fold(texts: Sequence[str]) -> list[str]:
    return [text.strip().casefold() for text in texts]


def _collapse(texts: Sequence[str]) -> list[str]:
    return [" ".join(text.lower().split()) for text in texts]


def _raw_lengths(texts: Sequence[str]) -> IntArray:
    return np.array([len(text) if text.isascii() else len(text.upper()) for text in texts], dtype=np.int64)
