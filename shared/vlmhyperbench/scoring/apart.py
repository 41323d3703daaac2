"""What stands here for a metric that runs in an environment of its own; `metric_process` has the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from vlmhyperbench.decoding import decode
from vlmhyperbench.metric_process import MetricHost, RaisedApart, process_of
from vlmhyperbench_sdk.errors import InvalidInput, NotReady, PluginFailure
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import JsonObject, JsonValue, Measures

BATCH_ROWS: Final = 500
"""Answers in one request, which bounds its reply; a sample's score does not depend on its batch."""
_MAX_SUMS: Final = 500_000
"""Sums in one request."""
_DESCRIPTION: Final = "Correct the property description of the metric's class."


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricApart:
    """A metric in its own environment, with the protocol `Metric`; its process starts when it is first asked."""

    named: JsonObject
    """What opens it: `class_path`, `params`, `optional` and `called`."""
    description: MetricDescription
    host: MetricHost | None
    """None where its environment is not prepared; then only its description is known."""
    distribution: str | None = None
    """The distribution that its class comes from, as `NAME==VERSION`."""

    @property
    def combine(self) -> CombineApart:
        """The function that combines sums."""
        return CombineApart(metric=self)

    def measure(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        *,
        metadata: Sequence[JsonObject] | None = None,
    ) -> Measures:
        """Score a batch, in parts.

        Raises:
            RaisedApart: the metric raised.
            PluginFailure: it gave columns of another length than its batch.
            MetricLost: its process ended or hangs.
        """
        values: list[float | None] = []
        reasons: list[str | None] = []
        statistics: dict[str, list[float]] = {}
        for first in range(0, len(predictions), BATCH_ROWS):
            part = slice(first, first + BATCH_ROWS)
            batch: dict[str, JsonValue] = {
                "predictions": predictions[part],
                "references": [list(accepted) for accepted in references[part]],
                "metadata": None if metadata is None else metadata[part],
            }
            measured = _columns(ask(self.named, self.host, "measure", batch), len(predictions[part]))
            for name in measured.statistics:
                statistics.setdefault(name, [0.0] * len(values))
            for name, column in statistics.items():
                column += measured.statistics.get(name, [0.0] * len(measured))
            values += measured.values
            reasons += measured.reasons
        return Measures(values=values, reasons=reasons, statistics=statistics)


@dataclass(frozen=True, slots=True, kw_only=True)
class CombineApart:
    """The `combine` of a metric in its own environment: of one group's sums, or of many at once."""

    metric: MetricApart

    def __call__(self, sums: Mapping[str, float]) -> float | None:
        """Return the value of a group from the sums of its statistics.

        Raises:
            PluginFailure: the metric raised, or gave no number.
        """
        return self.of_rows(tuple(sums), [tuple(sums.values())])[0]

    def of_rows(self, names: Sequence[str], rows: Sequence[Sequence[float]]) -> list[float | None]:
        """Return the values of groups, each from a row of sums, whose columns are `names`.

        Raises:
            PluginFailure: the metric raised, or gave no number.
        """
        size = max(1, _MAX_SUMS // max(1, len(names)))
        parts = [self._of_part(names, rows[first : first + size]) for first in range(0, len(rows), size)]
        return [value for part in parts for value in part]

    def _of_part(self, names: Sequence[str], rows: Sequence[Sequence[float]]) -> list[float | None]:
        what = f"The metric {self.metric.named['called']!r}"
        try:
            values = ask(self.metric.named, self.metric.host, "combine", {"names": names, "rows": rows})
        except RaisedApart as error:
            raise PluginFailure(f"{what} fails when it combines sums: {error}.") from error
        if not isinstance(values, list) or len(values) != len(rows) or not all(map(_is_number_or_none, values)):
            raise PluginFailure(f"{what} gives no number when it combines sums.")
        return values


def named(
    class_path: str, params: Mapping[str, JsonValue], *, optional: Mapping[str, JsonValue], name: str
) -> JsonObject:
    """Return what opens a metric in its process; params in `optional` are only given to a class that has them."""
    return {"class_path": class_path, "params": dict(params), "optional": dict(optional), "called": name}


def open_apart(
    class_path: str,
    params: Mapping[str, JsonValue],
    *,
    optional: Mapping[str, JsonValue],
    name: str,
    host: MetricHost | None,
) -> MetricApart:
    """Open a metric in its own environment; params in `optional` are only given to a class that has them.

    Raises:
        NotReady: its environment is not prepared here.
        InvalidInput, NotFound, Conflict, PluginFailure: the metric cannot be opened.
        MetricLost: its process ended or hangs.
    """
    wanted = named(class_path, params, optional=optional, name=name)
    what = f"The description of the metric {name!r}"
    try:
        reply = ask(wanted, host, "describe", None)
    except RaisedApart as error:
        raise PluginFailure(f"{what} cannot be read: it raises {error}.", cure=_DESCRIPTION) from error
    about = reply if isinstance(reply, Mapping) else {}
    try:
        description = decode(MetricDescription, about.get("description"), what)
    except InvalidInput as error:
        raise PluginFailure(error.message, cure=_DESCRIPTION) from error
    owner = about.get("distribution")
    return MetricApart(
        named=wanted,
        description=description,
        host=host,
        distribution="==".join(map(str, owner)) if isinstance(owner, list) else None,
    )


def ask(wanted: JsonObject, host: MetricHost | None, question: str, of: JsonValue) -> JsonValue:
    """Ask the process of a metric, which is started if it does not run.

    Raises:
        NotReady: its environment is not prepared here.
        InvalidInput, NotFound, Conflict, PluginFailure: it cannot be opened.
        RaisedApart: it raised.
        MetricLost: its process ended or hangs.
    """
    what = f"metric {wanted['called']!r}"
    if host is None:
        message = f"The {what} is computed in an environment of its own, which is not prepared here."
        cure = f"Build it: `vlmhyperbench envs build metrics/{wanted['called']}`."
        raise NotReady(message, cure=cure, code="no_environment")
    request: JsonObject = {"metric": wanted, "ask": question, "of": of}
    return process_of(host).ask(request, what, within_s=host.reply_s)


def _columns(reply: JsonValue, size: int) -> Measures:
    """Return the columns of a reply, each of which has `size` entries; the entries are checked by the caller.

    Raises:
        PluginFailure: there are others.
    """
    of: Mapping[str, Any] = reply if isinstance(reply, Mapping) else {}
    values, reasons, statistics = of.get("values"), of.get("reasons"), of.get("statistics")
    columns = [values, reasons, *(statistics.values() if isinstance(statistics, Mapping) else [None])]
    if not all(isinstance(column, list) and len(column) == size for column in columns):
        raise PluginFailure(f"A metric gave columns of other lengths than its batch of {size}.")
    return Measures(values=values or (), reasons=reasons or (), statistics=statistics or {})


def _is_number_or_none(value: JsonValue) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
