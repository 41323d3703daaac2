"""`score`: score a file of answers by one metric, without a stack."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple, cast

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import SCORING
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.lines import lines_of
from vlmhyperbench.scoring.measuring import measure_all
from vlmhyperbench.scoring.metrics import construct_metric
from vlmhyperbench_sdk.jsontext import compact_json, parse_json, parse_object
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.types import JsonObject, JsonValue

BATCH_ROWS = 50_000
_FIELDS = "id", "prediction", "targets", "metadata"


class Row(NamedTuple):
    """One answer of the file."""

    key: str | int
    prediction: str | None
    references: tuple[str, ...]
    metadata: JsonObject


def score(
    file: Path,
    /,
    *,
    metric: Annotated[str, Parameter(group=SCORING)],
    param: Annotated[Sequence[str], Parameter(group=SCORING)] = (),
    shown: Shown = HUMAN,
) -> int:
    """Score a file of answers by one metric, without a stack.

    Every line is a JSON object: `id`, `prediction` (text; anything else is scored as its JSON text; null where there
    is no answer), `targets` (one reference or a list of them), and the further fields that the metric's page names.

    Args:
        file: JSON Lines.
        metric: NAME, or NAME@PROFILE.
        param: A parameter of the metric, NAME=VALUE; the value is JSON or plain text, or @FILE with either.
        shown: How the answer is shown.
    """
    opened = _open(metric, param)
    scores: list[dict[str, JsonValue]] = []
    totals = Totals()
    rows = _rows(file)
    while batch := list(islice(rows, BATCH_ROWS)):
        scores += _measure(opened, batch, totals)
    if not scores:
        raise InvalidInput(f"{file} has no rows.", cure="Give one JSON object per line.")
    aggregate = totals.aggregate(opened)
    if shown.json:
        emit("score", {"metric": asdict(opened.description), "scores": scores, "aggregate": aggregate})
    else:
        _print(opened, scores, aggregate)
    return exits.OK


class Totals:
    """What the rows add up to."""

    def __init__(self) -> None:
        self.rows = 0
        self.values: list[float] = []
        self._parts: dict[str, list[float]] = {}

    def add(self, value: float | None, statistics: Sequence[tuple[str, float]]) -> None:
        """Add one row."""
        self.rows += 1
        if value is not None:
            self.values.append(value)
        for name, number in statistics:
            self._parts.setdefault(name, []).append(number)

    def aggregate(self, metric: Metric) -> dict[str, JsonValue]:
        """Return the group's value with what it rests on: a value without its counts says nothing."""
        sums = {name: math.fsum(numbers) for name, numbers in self._parts.items()}
        return {
            "value": metric.combine(sums),
            "mean": math.fsum(self.values) / len(self.values) if self.values else None,
            "n": self.rows,
            "n_scored": len(self.values),
            "n_unscored": self.rows - len(self.values),
            "statistics": sums,
        }


def _open(name: str, params: Sequence[str]) -> Metric:
    plain, _, profile = name.partition("@")
    given = dict(_param(text) for text in params)
    if profile:
        if given.get("profile", profile) != profile:
            raise InvalidInput("Two profiles are given.", cure="Write NAME@PROFILE, or --param profile=PROFILE.")
        given["profile"] = profile
    return construct_metric(plain, given, name=plain)


def _param(text: str) -> tuple[str, JsonValue]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InvalidInput(f"{text!r} is no parameter.", cure="Write --param NAME=VALUE.", code="usage")
    if value.startswith("@"):
        value = "".join(line for _, line in lines_of(Path(value[1:])))
    try:
        return name, parse_json(value)
    except InvalidInput:
        return name, value  # plain text needs no quotes


def _rows(path: Path) -> Iterator[Row]:
    seen: dict[str | int, int] = {}
    for no, line in lines_of(path):
        if not line.strip():
            continue
        where = f"{path}:{no}"
        row = parse_object(line, what=where, any_text=True)
        missing = [field for field in _FIELDS[:3] if field not in row]
        if missing:
            raise InvalidInput(f"{where}: the field {missing[0]!r} is missing.", cure="Give id, prediction, targets.")
        key = _key(row["id"], where)
        if seen.setdefault(key, no) != no:
            raise InvalidInput(f"{where}: the id {key!r} is that of line {seen[key]}.", cure="Give every row its own.")
        if not isinstance(row["prediction"], str) or not isinstance(row["targets"], str):
            exact = cast("dict[str, JsonValue]", parse_json(line, what=where, any_text=True, exact=True))
            row |= {name: exact[name] for name in ("prediction", "targets")}
        yield _row(key, row, where)


def _key(value: JsonValue, where: str) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidInput(f"{where}: the id is neither text nor a whole number.")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{where}: the id holds a lone surrogate.") from error
    return value


def _row(key: str | int, row: dict[str, JsonValue], where: str) -> Row:
    targets, prediction, metadata = row["targets"], row["prediction"], row.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InvalidInput(f"{where}: the metadata is no object.")
    further = {name: value for name, value in row.items() if name not in _FIELDS}
    return Row(
        key=key,
        prediction=None if prediction is None else _text(prediction),
        references=() if targets is None else tuple(map(_text, targets if isinstance(targets, list) else [targets])),
        metadata={**further, **metadata},
    )


def _text(value: JsonValue) -> str:
    """Return a text as it is, and anything else as its JSON text: numbers digit by digit, keys sorted."""
    return value if isinstance(value, str) else compact_json(value)


def _measure(metric: Metric, batch: Sequence[Row], totals: Totals) -> list[dict[str, JsonValue]]:
    predictions = [row.prediction for row in batch if row.prediction is not None]
    asked = [row for row in batch if row.prediction is not None]
    references, metadata = [row.references for row in asked], [row.metadata for row in asked]
    measures = iter(measure_all(metric, predictions, references, metadata))
    scores: list[dict[str, JsonValue]] = []
    for row in batch:
        measure = None if row.prediction is None else next(measures)
        value, error = (measure.value, measure.reason) if measure else (None, "no_prediction")
        totals.add(value, list(measure.statistics.items()) if measure else [])
        scores.append({"id": row.key, "value": value, "error": error})
    return scores


def _print(metric: Metric, scores: Sequence[dict[str, JsonValue]], aggregate: dict[str, JsonValue]) -> None:
    description = metric.description
    value, mean = aggregate["value"], aggregate["mean"]
    named = f"{description.title} ({description.name}@{description.profile} {description.version})"
    say(f"{named}: {_number(value)} {description.unit}")
    if description.aggregation == "pooled":
        say(f"  mean of the samples: {_number(mean)}")
    say(f"  {aggregate['n_scored']} of {aggregate['n']} rows are scored.")
    reasons: dict[str, int] = {}
    for sample in scores:
        if sample["error"]:
            reasons[str(sample["error"])] = reasons.get(str(sample["error"]), 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:10]:
        say(f"  {count} x {reason}")


def _number(value: JsonValue) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "–"
