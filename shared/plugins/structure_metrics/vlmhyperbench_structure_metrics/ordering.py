"""Ordering: similarity of an order of pages to the true order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

from vlmhyperbench_sdk.errors import InvalidInput
from vlmhyperbench_sdk.params import check_profile
from vlmhyperbench_sdk.protocols import INVALID_ANSWER, MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures
from vlmhyperbench_structure_metrics.orders import (
    Order,
    is_same_pages,
    kendall_tau,
    positional_accuracy,
    read_answer,
    read_list,
    spearman_rho,
)

STATISTICS = ("score", "count", "wrong_pages", "invalid")

NO_REFERENCE = "no_reference"
INVALID_REFERENCE = "invalid_reference"

_MEASURES: dict[str, Callable[[Order, Order], float]] = {
    "kendall_tau": kendall_tau,
    "spearman_rho": spearman_rho,
    "positional_accuracy": positional_accuracy,
}
_FORMULAS = {
    "kendall_tau": "(concordant - discordant pairs) / pairs",
    "spearman_rho": "1 - 6 * sum of d^2 / (n * (n^2 - 1)), d = difference of a page's two ranks",
    "positional_accuracy": "pages at their place / pages",
}
_SOURCES = {
    "kendall_tau": "Kendall 1938, Biometrika 30, A new measure of rank correlation",
    "spearman_rho": "Spearman 1904, American Journal of Psychology 15, without ties",
    "positional_accuracy": "share of fixed points of the permutation",
}


class Ordering:
    """How close an order of pages is to the true one.

    ## Formula

    - tau: (concordant − discordant pairs) / pairs.
    - rho: 1 − 6 Σ d² / (n (n² − 1)); d is the difference of a page's two ranks.
    - positional accuracy: pages at their place / pages.

    A wrong set of pages (one is missing, one too many, one twice) is 0 in all three, which is more than the −1 of an
    order back to front. A single page is 1 if it is the right one. Of several references the best counts.

    ## What is an order

    An answer: a JSON list of whole numbers or labels, or page numbers alone, apart by white space, commas, semicolons
    or arrows (`3, 1, 2`, `3 -> 1 -> 2`), in one pair of brackets or none, with or without a full stop at the end. `3`,
    `"3"`, `03` and `3.0` are one page; labels count as they are, but for white space around them. An empty answer
    orders no page: a wrong set. Sentences and code fences around an order are taken off by an extractor
    (`json_repaired` with `opening: "["`), not here.

    A reference: a JSON list without repetitions of at least one page.

    ## A group

    The mean of its samples' values; the additive statistics are `score`, `count`, `wrong_pages` and, under `on_invalid:
    zero`, `invalid`.

    ## Bad input

    A sample without a reference is unscored (`no_reference`), and so is one none of whose references is an order
    (`invalid_reference`). An answer that is no order is unscored (`invalid_json`), or 0 with the param `on_invalid:
    zero`.

    ## Rows of `vlmhyperbench score`

    ```json
    {"id": 1, "prediction": "3, 1, 2", "targets": [[3, 1, 2]]}
    ```

    `targets` is a list of references, each a list: `[3, 1, 2]` alone would be three references, none of which is an
    order.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | scipy `kendalltau`, `spearmanr` | none where the pages are the same, two or more; fewer are not a number there |
    | Kendall's tau-b, tau-c | the same: an order has no ties |
    | Scores that compare the pages two orders share | a missing page costs the whole score here |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "kendall_tau": "tau.",
        "spearman_rho": "rho.",
        "positional_accuracy": "pages at their place.",
    }

    def __init__(self, *, profile: str = "kendall_tau", on_invalid: Literal["exclude", "zero"] = "exclude") -> None:
        self._profile = check_profile("ordering", profile, self.profiles)
        if on_invalid not in ("exclude", "zero"):
            raise InvalidInput(f"The param 'on_invalid' is {on_invalid!r}.", cure="Give exclude or zero.")
        self._on_invalid = on_invalid
        self._measure = _MEASURES[profile]

    @property
    def description(self) -> MetricDescription:
        worth = "have no value" if self._on_invalid == "exclude" else "are worth 0"
        return MetricDescription(
            name="ordering",
            profile=self._profile,
            version="1.0.0",
            title=f"Ordering, {self._profile.replace('_', ' ')}",
            kind="ordering",
            unit="1",
            range=(0.0 if self._profile == "positional_accuracy" else -1.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=False,
            normaliser=f"a JSON list, or page numbers alone, is an order; other answers {worth}",
            formula=f"{_FORMULAS[self._profile]}; a wrong set of pages: 0; one page: 1; best over references",
            source=_SOURCES[self._profile],
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        rows = [self._row(prediction, own) for prediction, own in zip(predictions, references, strict=True)]
        return Measures(
            values=[None if isinstance(row, str) else row["score"] for row in rows],
            reasons=[row if isinstance(row, str) else None for row in rows],
            statistics={
                name: [0.0 if isinstance(row, str) else row.get(name, 0.0) for row in rows] for name in STATISTICS
            },
        )

    def compared(self, texts: Sequence[str]) -> list[str]:
        orders = [read_list(text) if number else read_answer(text) for number, text in enumerate(texts)]
        return [text if order is None else " → ".join(order) for text, order in zip(texts, orders, strict=True)]

    def combine(self, sums: Mapping[str, float]) -> float | None:
        count = sums.get("count", 0.0)
        return sums["score"] / count if count > 0 else None

    def _row(self, prediction: str, references: Sequence[str]) -> dict[str, float] | str:
        """Return the statistics of an answer, or the reason why there are none."""
        if not references:
            return NO_REFERENCE
        truths = [order for text in references if (order := read_list(text)) and len(set(order)) == len(order)]
        if not truths:
            return INVALID_REFERENCE
        order = read_answer(prediction)
        if order is None:
            return {"count": 1.0, "score": 0.0, "invalid": 1.0} if self._on_invalid == "zero" else INVALID_ANSWER
        scores = [self._measure(order, true) for true in truths if is_same_pages(order, true)]
        if not scores:
            return {"count": 1.0, "score": 0.0, "wrong_pages": 1.0}
        return {"count": 1.0, "score": max(scores)}
