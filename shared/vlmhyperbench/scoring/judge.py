"""The metric `judge`: the worth of an LLM's verdicts on an answer; an unreadable verdict has no value.

It reads verdicts that were requested before (`domain.judging`) and sends no requests itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import fmean

from pydantic import TypeAdapter, ValidationError

from vlmhyperbench.domain.judging import Judging, Order, plain
from vlmhyperbench.errors import InvalidInput, pydantic_message
from vlmhyperbench.scoring.extraction import extract
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measures

PROFILE = "v1"
VERSION = "1.0.0"
KEY = "verdicts"
"""Key of the verdicts in a sample's metadata; absent if there was no answer to judge."""

UNREADABLE = "unreadable verdict"
NO_VERDICT = "no verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One verdict of a judge."""

    order: Order
    repeat: int
    text: str | None
    """None: the request failed."""


_VERDICTS = TypeAdapter(tuple[Verdict, ...])


class Judge:
    """The mean worth of the verdicts on an answer, from 0 to 1; over both orders, if both were requested."""

    def __init__(self, *, profile: str = PROFILE, **params: JsonValue) -> None:
        if profile != PROFILE:
            raise InvalidInput(f"A judge has no profile {profile!r}.", cure=f"Write {PROFILE}.")
        try:
            self._judging = Judging.model_validate(params)
        except ValidationError as error:
            first = error.errors()[0]
            message = f"A judge's params: {'.'.join(map(str, first['loc']))}: {pydantic_message(first)}."
            raise InvalidInput(message, cure="Correct the metric's entry.") from error

    @property
    def description(self) -> MetricDescription:
        judging = self._judging
        return MetricDescription(
            name="judge",
            profile=PROFILE,
            version=VERSION,
            title=judging.title,
            kind="text",
            unit="worth of the verdict",
            range=(0.0, 1.0),
            direction="higher",
            aggregation="mean",
            proportion=False,
            normaliser=f"{judging.extractor.label}, small letters",
            formula=(
                f"mean worth of {len(judging.orders)} × {judging.decoding.n} verdicts by {judging.target.served_name}"
            ),
            source=f"prompt {judging.prompt.name} {judging.prompt.version}",
        )

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],  # noqa: ARG002 (part of the contract)
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        """Score the verdicts in the metadata; an answer that was never judged counts as wrong."""
        judged = [_verdicts(entry) for entry in metadata or [{}] * len(predictions)]
        worths = iter(self._worths([verdict for verdicts in judged if verdicts is not None for verdict in verdicts]))
        scored = [
            self._value(None if verdicts is None else [(verdict, next(worths)) for verdict in verdicts])
            for verdicts in judged
        ]
        return Measures(
            values=[valued.value for valued in scored],
            reasons=[valued.reason for valued in scored],
            statistics={name: [valued.statistics.get(name, 0.0) for valued in scored] for name in _STATISTICS},
        )

    def combine(self, sums: Mapping[str, float]) -> float | None:
        return sums["worth"] / sums["count"] if sums.get("count") else None

    def _worths(self, verdicts: Sequence[Verdict]) -> list[float | None]:
        """Return the worth of each verdict; None if it is unreadable or missing."""
        labels = {plain(label): worth for label, worth in self._judging.labels.items()}
        texts = extract([verdict.text or "" for verdict in verdicts], extractor=self._judging.extractor).texts
        return [_worth(labels, verdict, text) for verdict, text in zip(verdicts, texts, strict=True)]

    def _value(self, read: Sequence[tuple[Verdict, float | None]] | None) -> _Valued:
        if read is None:
            return _Valued(value=0.0, statistics={"worth": 0.0, "count": 1.0})
        by_order = {
            order: {verdict.repeat: worth for verdict, worth in read if verdict.order == order and worth is not None}
            for order in self._judging.orders
        }
        if not all(by_order.values()):
            is_missing = all(verdict.text is None for verdict, _ in read)
            return _Valued(reason=NO_VERDICT if is_missing else UNREADABLE)
        value = fmean(fmean(worths.values()) for worths in by_order.values())
        return _Valued(value=value, statistics={"worth": value, "count": 1.0, **_agreement(by_order.values())})


_STATISTICS = ("worth", "count", "orders", "orders_agree", "repeats", "repeats_agree")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Valued:
    value: float | None = None
    reason: str | None = None
    statistics: Mapping[str, float] = field(default_factory=dict)


def _worth(labels: Mapping[str, float | str], verdict: Verdict, text: str | None) -> float | None:
    worth = labels.get(plain(text)) if verdict.text is not None and text is not None else None
    if isinstance(worth, str):
        position = "second" if verdict.order == "reference_first" else "first"
        return float(worth == position)
    return worth


def _agreement(by_order: Iterable[Mapping[int, float]]) -> dict[str, float]:
    """Count pairs of verdicts on an answer, and pairs that agree: both orders of a repeat, two repeats of an order.

    Args:
        by_order: For each order, repeat → worth of the readable verdicts.
    """
    orders = list(by_order)
    swapped = [
        (first[repeat], second[repeat])
        for first, second in combinations(orders, 2)
        for repeat in first.keys() & second.keys()
    ]
    repeated = [pair for worths in orders for pair in combinations(worths.values(), 2)]
    return {
        "orders": float(len(swapped)),
        "orders_agree": float(sum(first == second for first, second in swapped)),
        "repeats": float(len(repeated)),
        "repeats_agree": float(sum(first == second for first, second in repeated)),
    }


def _verdicts(metadata: JsonObject) -> tuple[Verdict, ...] | None:
    return _VERDICTS.validate_python(metadata[KEY]) if KEY in metadata else None
