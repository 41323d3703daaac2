"""Compute a metric's measures of a batch; an error of the plugin affects only the rows that cause it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

from vlmhyperbench.metric_process import MetricLost, RaisedApart
from vlmhyperbench_sdk.errors import PluginFailure
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.types import JsonObject, Measure, Measures

_REASON_CHARS = 300


def measure_all(
    metric: Metric,
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    metadata: Sequence[JsonObject],
) -> list[Measure]:
    """Measure a batch; rows on which the metric raises or breaks its contract become unscored, and no others.

    All three sequences have the shape (rows,).

    Raises:
        MetricLost: the process of a metric in its own environment ended or hangs.
    """
    if not predictions:
        return []
    try:
        measures = metric.measure(predictions, references, metadata=metadata)
        return _checked(measures, len(predictions))
    except MetricLost:
        raise
    except Exception as error:  # noqa: BLE001 -- the plugin's own code runs here, and may raise anything
        if len(predictions) == 1:
            return [Measure.unscored(_reason(f"metric_error: {_words(error)}"))]
    half = len(predictions) // 2
    first = measure_all(metric, predictions[:half], references[:half], metadata[:half])
    return first + measure_all(metric, predictions[half:], references[half:], metadata[half:])


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, RaisedApart) else f"{type(error).__name__}: {error}"


def _checked(measures: Measures, count: int) -> list[Measure]:
    """Refuse measures that must not be stored: a missing row, an invalid number, statistics of an unscored sample."""
    columns = [measures.values, measures.reasons, *measures.statistics.values()]
    if any(len(column) != count for column in columns):
        raise PluginFailure(f"A metric gave columns of other lengths than its batch of {count}.")
    return [_checked_row(measures[index]) for index in range(count)]


def _checked_row(measure: Measure) -> Measure:
    numbers = list(measure.statistics.values())
    for number in (*numbers, 0.0 if measure.value is None else measure.value):
        if type(number) is not float and (isinstance(number, bool) or not isinstance(number, Real)):
            raise PluginFailure(f"A metric gave a {type(number).__name__} instead of a number.")
        if not math.isfinite(number):
            raise PluginFailure("A metric gave a number that is not finite.")
    if measure.value is not None:
        return measure
    if not measure.reason or any(numbers):
        raise PluginFailure("A metric left a sample unscored without a reason, or with statistics.")
    return Measure.unscored(_reason(measure.reason))


def _reason(text: str) -> str:
    """Return a plugin's text in a form that can be stored: bounded and valid UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\N{REPLACEMENT CHARACTER}")[:_REASON_CHARS]
