"""`score`: score a file of answers with one metric, without a stack."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple, cast

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.groups import SCORING
from vlmhyperbench.cli.output import emit, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.lines import lines_of
from vlmhyperbench.scoring.measuring import measure_all
from vlmhyperbench_sdk.discovery import construct_metric, names
from vlmhyperbench_sdk.jsontext import compact_json, parse_json, parse_object
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.types import JsonObject, JsonValue

BATCH_ROWS = 50_000
_FIELDS = "id", "prediction", "targets", "metadata"
_CURE = 'Write one JSON object per line: {"id": 1, "prediction": "4", "targets": ["4", "four"]}.'


class Row(NamedTuple):
    """One row of the file."""

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
    output: OutputFlags = TEXT,
) -> int:
    """Score a file of answers with one metric; no stack is needed.

    Each line of the file is a JSON object, for example {"id": 1, "prediction": "4", "targets": ["4", "four"]}. The
    prediction is text (another value is scored as its JSON text), or null without an answer. The targets are one
    accepted answer or a list of them. Some metrics need further fields, which their page names.

    Args:
        file: File of answers, in JSON Lines.
        metric: Metric of an installed package, or of the registry: NAME or NAME@PROFILE.
        param: Parameter of the metric, NAME=VALUE; the value is JSON or text, or @FILE with JSON or text. May be given
            several times.
        output: How the output is printed.
    """
    with _opened(metric, param, output) as opened:
        scores: list[dict[str, JsonValue]] = []
        totals = Totals()
        rows = _rows(file)
        while batch := list(islice(rows, BATCH_ROWS)):
            scores += _measure(opened, batch, totals)
        if not scores:
            raise InvalidInput(f"{file} contains no rows.", cure=_CURE)
        aggregate = totals.aggregate(opened)
    if output.json:
        emit("score", {"metric": asdict(opened.description), "scores": scores, "aggregate": aggregate})
    else:
        _print(opened, scores, aggregate)
    return exits.OK


class Totals:
    """Sums over all rows."""

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
        """Return the value over all rows, with its mean, counts and additive statistics."""
        sums = {name: math.fsum(numbers) for name, numbers in self._parts.items()}
        return {
            "value": metric.combine(sums),
            "mean": math.fsum(self.values) / len(self.values) if self.values else None,
            "n": self.rows,
            "n_scored": len(self.values),
            "n_unscored": self.rows - len(self.values),
            "statistics": sums,
        }


@contextmanager
def _opened(name: str, params: Sequence[str], output: OutputFlags) -> Iterator[Metric]:
    """Open a metric that an installed package registers, or one of the registry."""
    plain, _, profile = name.partition("@")
    given = dict(_param(text) for text in params)
    if profile:
        if given.get("profile", profile) != profile:
            raise InvalidInput(
                "--metric and --param name two different profiles.",
                cure="Give only one: --metric NAME@PROFILE, or --param profile=PROFILE.",
            )
        given["profile"] = profile
    spec = None
    if not ("." in plain or ":" in plain or plain in names("metrics")):
        with suppress(ModuleNotFoundError):  # a small installation reads no registry
            from vlmhyperbench.cli import registered_metric

            spec = registered_metric.pinned(plain, given)
    if spec is None:
        yield construct_metric(plain, given, name=plain)
    else:
        with registered_metric.opened(spec, output) as metric:
            yield metric


def _param(text: str) -> tuple[str, JsonValue]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InvalidInput(f"--param {text!r} is not a parameter.", cure="Write --param NAME=VALUE.", code="usage")
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
        location = f"{path}:{no}"
        row = parse_object(line, what=location, any_text=True)
        missing = [field for field in _FIELDS[:3] if field not in row]
        if missing:
            raise InvalidInput(f"{location}: the field {missing[0]!r} is missing.", cure=_CURE)
        key = _key(row["id"], location)
        if seen.setdefault(key, no) != no:
            raise InvalidInput(
                f"{location}: line {seen[key]} has the same id {key!r}.", cure="Give each row its own id."
            )
        if not isinstance(row["prediction"], str) or not isinstance(row["targets"], str):
            exact = cast("dict[str, JsonValue]", parse_json(line, what=location, any_text=True, exact=True))
            row |= {name: exact[name] for name in ("prediction", "targets")}
        yield _row(key, row, location)


def _key(value: JsonValue, location: str) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidInput(f"{location}: the id is neither text nor a whole number.", cure=_CURE)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"{location}: the id contains a lone surrogate.", cure="Correct the id.") from error
    return value


def _row(key: str | int, row: dict[str, JsonValue], location: str) -> Row:
    targets, prediction, metadata = row["targets"], row["prediction"], row.get("metadata", {})
    if not isinstance(metadata, dict):
        raise InvalidInput(f"{location}: the metadata is not an object.", cure='Write "metadata": {"NAME": VALUE}.')
    further = {name: value for name, value in row.items() if name not in _FIELDS}
    return Row(
        key=key,
        prediction=None if prediction is None else _text(prediction),
        references=() if targets is None else tuple(map(_text, targets if isinstance(targets, list) else [targets])),
        metadata={**further, **metadata},
    )


def _text(value: JsonValue) -> str:
    """Return text unchanged, and any other value as JSON text with its digits unchanged and its keys sorted."""
    return value if isinstance(value, str) else compact_json(value)


def _measure(metric: Metric, batch: Sequence[Row], totals: Totals) -> list[dict[str, JsonValue]]:
    predictions = [row.prediction for row in batch if row.prediction is not None]
    answered = [row for row in batch if row.prediction is not None]
    references, metadata = [row.references for row in answered], [row.metadata for row in answered]
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
    name = f"{description.title} ({description.name}@{description.profile} {description.version})"
    say(f"{name}: {_number(value)} {description.unit}")
    if description.aggregation == "pooled":
        say(f"  mean over the rows: {_number(mean)}")
    say(f"  rows with a score: {aggregate['n_scored']} of {aggregate['n']}")
    reasons: dict[str, int] = {}
    for sample in scores:
        if sample["error"]:
            reasons[str(sample["error"])] = reasons.get(str(sample["error"]), 0) + 1
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:10]:
        say(f"  rows without a score because of {reason}: {count}")


def _number(value: JsonValue) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "–"
