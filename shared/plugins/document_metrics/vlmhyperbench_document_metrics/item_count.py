"""Item count accuracy: whether an answer lists as many items as the document has, and which of them are recognised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from vlmhyperbench_document_metrics.documents import Container, JsonAnswers, measure_documents
from vlmhyperbench_document_metrics.fields import RECOGNISED_PERCENT, Tally, compare_fields
from vlmhyperbench_document_metrics.rules import FORMULAS, NORMALISER, RULES, field_text
from vlmhyperbench_document_metrics.shown import compared_documents
from vlmhyperbench_sdk.params import check_choice, check_profile
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measure, Measures

NO_ITEM_LISTS = "no_item_lists"

_STATISTICS = ("items_right", "items_larger", "items_expected", "items_predicted", "items_recognised", "invalid")


class ItemCountAccuracy:
    """Whether an answer lists as many items as the document has, and how many of them are recognised.

    ## Formula

    Σ items / Σ max(items of the answer, items of the reference), over all item lists of the reference; best over the
    references.

    - An item list is a list of the reference that holds an object, or holds nothing. An item without any field (null,
      `{}`) is none. Where the answer has no list in that place it has no items.
    - Lists are found as fields are in [field_accuracy](field_accuracy.md). A list inside of an item is compared with
      that of the matched item, and with none where no field of the item is right.
    - An item is recognised where it is matched with an F1 of its fields of at least 0.85.
    - Lists that are empty on both sides: 1.

    Options: `rule` (`exact`, `cer` or `similarity`: when a field of an item is right), `on_invalid` (`exclude` or
    `zero`), `repair` (false or true).

    ## A group

    Σ items_right / Σ items_larger. The additive statistics are `items_right`, `items_larger`, `items_expected`,
    `items_predicted`, `items_recognised`, `invalid` and `count`; recall of items, say, is Σ items_recognised / Σ
    items_expected.

    ## How it is given

    As in [field_accuracy](field_accuracy.md):

    ```json
    {"id": 1, "prediction": {"items": [{"name": "tea"}]}, "targets": {"items": [{"name": "tea"}, {"name": "milk"}]}}
    ```

    ## Bad input

    As in [field_accuracy](field_accuracy.md), but fields do not matter: a reference without an item list is unscored
    (`no_item_lists`). Under `on_invalid: zero` an answer that is not JSON is 0; where the document has no item at all
    it counts as one that is made up.

    ## Where tools differ

    | Tool | Difference |
    |---|---|
    | Share of documents whose count is right | 1 or 0 by document; here two of three items are 2/3 |
    | Means over lists | a list of one item weighs as much there as one of fifty; here every item weighs the same |
    """

    profiles: ClassVar[Mapping[str, str]] = {
        "count": (
            "items is min(items of the answer, items of the reference), which for one list is 1 − |predicted "
            "− expected| / max(predicted, expected)."
        ),
        "recognised": "items is the number of recognised items; never more than `count`.",
    }

    def __init__(
        self,
        *,
        profile: str = "count",
        rule: str = "exact",
        on_invalid: Literal["exclude", "zero"] = "exclude",
        repair: bool = False,
    ) -> None:
        self._profile = check_profile("item_count_accuracy", profile, self.profiles)
        self._rule = check_choice("rule", rule, RULES)
        self._reading = JsonAnswers(on_invalid=on_invalid, repair=repair)

    @property
    def description(self) -> MetricDescription:
        items = "min(items of the answer, items of the reference)" if self._profile == "count" else "recognised items"
        return MetricDescription(
            name="item_count_accuracy",
            profile=self._profile,
            version="1.0.0",
            title="Item count accuracy" if self._profile == "count" else "Item count accuracy, recognised items",
            kind="document",
            unit="1",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="pooled",
            proportion=False,
            normaliser=f"{NORMALISER}; {self._reading}",
            formula=f"sum of {items} / sum of max(items of the answer, items of the reference) over the item lists of "
            f"the reference; an item is recognised at field F1 >= {RECOGNISED_PERCENT / 100}, a field is right where "
            f"{FORMULAS[self._rule]}",
            source="this project",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,  # noqa: ARG002 (part of the contract)
    ) -> Measures:
        return measure_documents(
            predictions,
            references,
            self._reading,
            compare=self._compare,
            unreadable=self._unreadable,
            statistics=_STATISTICS,
        )

    def compared(self, texts: Sequence[str]) -> list[str]:
        return compared_documents(texts, self._reading, field_text)

    def combine(self, sums: Mapping[str, float]) -> float | None:
        if sums.get("count", 0.0) <= 0:
            return None
        return _share(sums["items_right"], sums["items_larger"])

    def _compare(self, reference: Container, answer: JsonValue) -> Measure:
        tally = compare_fields(reference, answer, self._rule)
        return self._measure(tally, larger=tally.items_larger, invalid=0.0)

    def _unreadable(self, reference: Container) -> Measure:
        tally = compare_fields(reference, None, self._rule)
        # If the document has no item, the answer counts as an invented one, because it must not be right.
        return self._measure(tally, larger=max(tally.items_larger, 1), invalid=1.0)

    def _measure(self, tally: Tally, *, larger: int, invalid: float) -> Measure:
        if tally.lists == 0:
            return Measure.unscored(NO_ITEM_LISTS)
        right = tally.items_smaller if self._profile == "count" else tally.items_recognised
        statistics = {
            "items_right": right,
            "items_larger": larger,
            "items_expected": tally.items_expected,
            "items_predicted": tally.items_predicted,
            "items_recognised": tally.items_recognised,
        }
        numbers = {name: float(number) for name, number in statistics.items()}
        return Measure(value=_share(right, larger), statistics={**numbers, "invalid": invalid})


def _share(right: float, larger: float) -> float:
    return right / larger if larger > 0 else 1.0
