"""Conformance suite of metrics: batches, additivity, hostile text, unscored samples.

A plugin's test is one line, `check_metric(MyMetric())`; a metric that needs samples of its own kind gives `cases`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import PluginFailure
from vlmhyperbench_sdk.protocols import Metric, MetricDescription
from vlmhyperbench_sdk.types import JsonObject, Measures

_TOLERANCE = 1e-9
_CURE = "Correct the metric; docs/write-a-metric.md states its contract."


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCase:
    """One sample as passed to a metric."""

    prediction: str
    references: tuple[str, ...]
    metadata: JsonObject = field(default_factory=dict)


PLAIN_CASES: tuple[MetricCase, ...] = (
    MetricCase(prediction="the cat sat on the mat", references=("the cat sat on the mat",)),
    MetricCase(prediction="The cat", references=("the cat sat", "a cat")),
    MetricCase(prediction="12.50", references=("12,50", "12.50 EUR")),
    MetricCase(prediction="", references=("something",)),
    MetricCase(prediction="something", references=("",)),
    MetricCase(prediction="", references=("",)),
    MetricCase(prediction="wholly different", references=("x", "y", "z")),
    MetricCase(prediction="an answer", references=()),
)
"""Correct, nearly correct, wrong, empty on either side, several references, no reference."""

HOSTILE_CASES: tuple[MetricCase, ...] = tuple(
    MetricCase(prediction=text, references=references)
    for text in (
        "\x00",
        "\ud800",
        "a\ud800b\udfff",
        "\u202eright to left\u202c",
        "e\u0301" * 40,
        "\ufeff\u200b\u00a0\u3000",
        "NaN",
        "'; DROP TABLE run; --",
        "{{ 7 * 7 }}",
        "[" * 400,
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\r\n\t\v\f\x1c\x85\u2028",
        "long " * 2000,
    )
    for references in (("plain",), (text, ""), ())
)
"""Text that models and attackers really send, on which no metric may raise."""


def check_metric(metric: Metric, *, cases: Sequence[MetricCase] = ()) -> None:
    """Check that a metric fulfils its contract.

    Args:
        metric: an instance, constructed as by the platform.
        cases: further samples, specific to the metric, in addition to the general ones.

    Raises:
        PluginFailure: it violates the contract; the message lists every violation.
    """
    breaches = list(breaches_of(metric, cases=cases))
    if breaches:
        message = f"The metric {type(metric).__name__} breaks its contract: {'; '.join(breaches)}."
        raise PluginFailure(message, cure=_CURE)


def names_of(distribution: str) -> list[str]:
    """Return the metrics that a distribution registers, so that its test covers new ones automatically."""
    return [name for name in discovery.names("metrics") if distribution in discovery.owners("metrics", name)]


def in_every_profile(names: Iterable[str]) -> list[Metric]:
    """Construct metrics in each profile that their class declares, or once if it declares none.

    Raises:
        PluginFailure: a metric's description has another name than its registration, or another profile.
    """
    made: list[Metric] = []
    for name in names:
        plugin = discovery.load("metrics", name)
        profiles = getattr(plugin, "profiles", None)
        metrics = {profile: plugin(profile=profile) for profile in profiles} if profiles else {None: plugin()}
        for profile, metric in metrics.items():
            described = metric.description
            if described.name != name or profile not in (None, described.profile):
                message = (
                    f"The description of the metric {name!r} in the profile {profile!r} has the name "
                    f"{described.name!r} and the profile {described.profile!r}."
                )
                raise PluginFailure(message, cure=_CURE)
            made.append(metric)
    return made


def breaches_of(metric: Metric, *, cases: Sequence[MetricCase] = ()) -> Iterable[str]:
    """Return a description of every violation of the metric contract; the same violation is described once."""
    return dict.fromkeys(_breaches(metric, cases))


def _breaches(metric: Metric, cases: Sequence[MetricCase]) -> Iterator[str]:
    yield from _description(metric.description)
    everything = [*PLAIN_CASES, *HOSTILE_CASES, *cases]
    whole = _run(metric, everything)
    if isinstance(whole, str):
        yield whole
        return
    shape = list(_shape(whole, len(everything), metric.description))
    yield from shape
    if shape:
        return
    for check in (_splits, _order, _scored, _additivity, _combine_of_nothing):
        yield from check(metric, everything, whole)


def _run(metric: Metric, cases: Sequence[MetricCase]) -> Measures | str:
    try:
        return metric.measure(
            [case.prediction for case in cases],
            [case.references for case in cases],
            metadata=[case.metadata for case in cases],
        )
    except Exception as error:  # noqa: BLE001 -- the plugin's own code runs here, and may raise anything
        return f"measure raises {type(error).__name__} ({error}) on a batch of {len(cases)}"


def _description(description: MetricDescription) -> Iterator[str]:
    for name in ("name", "profile", "version", "title", "unit", "normaliser", "formula", "source"):
        if not getattr(description, name).strip():
            yield f"the description lacks its {name}"
    low, high = description.range
    if low is not None and high is not None and low >= high:
        yield f"the range ({low}, {high}) is empty"
    if description.proportion and description.range != (0.0, 1.0):
        yield "a proportion has a range other than (0, 1)"
    if description.proportion and description.aggregation != "mean":
        yield "a proportion is not aggregated as a mean"


def _shape(measures: Measures, count: int, description: MetricDescription) -> Iterator[str]:
    columns: dict[str, Sequence[object]] = {"values": measures.values, "reasons": measures.reasons}
    columns.update({f"statistics[{name!r}]": column for name, column in measures.statistics.items()})
    for name, column in columns.items():
        if len(column) != count:
            yield f"{name} has {len(column)} entries for {count} samples"
            return
    for index in range(count):
        yield from _row(measures, index, description)


def _row(measures: Measures, index: int, description: MetricDescription) -> Iterator[str]:
    measure = measures[index]
    if not all(math.isfinite(number) for number in measure.statistics.values()):
        yield f"a statistic of sample {index} is not finite"
    if measure.value is None:
        if not measure.reason:
            yield f"sample {index} is unscored without a reason"
        if any(measure.statistics.values()):
            yield f"sample {index} is unscored but has statistics"
        return
    low, high = description.range
    if not math.isfinite(measure.value):
        yield f"the value of sample {index} is not finite"
    elif (low is not None and measure.value < low) or (high is not None and measure.value > high):
        yield f"the value {measure.value} of sample {index} is outside the declared range"
    if measure.reason is not None:
        yield f"sample {index} has a value and a reason"
    if description.proportion and measure.value not in (0.0, 1.0):
        yield f"the value {measure.value} of sample {index} of a proportion is neither 0 nor 1"


def _splits(metric: Metric, cases: Sequence[MetricCase], whole: Measures) -> Iterator[str]:
    """Check that a sample's score does not depend on its batch, and that an empty batch is accepted."""
    for size in (1, 3, len(cases) // 2):
        for start in range(0, len(cases), size):
            part = _run(metric, cases[start : start + size])
            yield from _compare(part, whole, range(start, start + size), f"in batches of {size}")
    empty = _run(metric, [])
    if isinstance(empty, str) or len(empty) != 0:
        yield empty if isinstance(empty, str) else "an empty batch has measures"


def _order(metric: Metric, cases: Sequence[MetricCase], whole: Measures) -> Iterator[str]:
    yield from _compare(_run(metric, cases[::-1]), whole, range(len(cases) - 1, -1, -1), "in reversed order")


def _compare(part: Measures | str, whole: Measures, indexes: Sequence[int], how: str) -> Iterator[str]:
    """Compare measures of a part with those of the same samples in the whole batch, by their indexes there."""
    if isinstance(part, str):
        yield part
        return
    for number in range(len(part)):
        measure, index = part[number], indexes[number]
        expected = whole[index]
        is_same = (measure.value, measure.reason) == (expected.value, expected.reason)
        if not is_same or not _equal(measure.statistics, expected.statistics):
            yield f"sample {index} has other measures {how} than in one batch"


def _equal(first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    """Compare statistics; a missing statistic counts as 0."""
    return all(first.get(name, 0.0) == second.get(name, 0.0) for name in {*first, *second})


def _scored(metric: Metric, cases: Sequence[MetricCase], whole: Measures) -> Iterator[str]:
    del metric, cases
    if all(value is None for value in whole.values):
        yield "no case is scored; give cases of the metric's own kind"


def _additivity(metric: Metric, cases: Sequence[MetricCase], whole: Measures) -> Iterator[str]:
    """Check that sums of statistics give the value of any group, and that `combine` does not modify its argument."""
    for step in (1, 2, 3):
        group = [index for index in range(0, len(cases), step) if whole.values[index] is not None]
        if not group:
            continue
        sums = _sums(whole, group)
        given = dict(sums)
        combined = _combine(metric, sums)
        if isinstance(combined, str):
            yield combined
        elif combined is None or not math.isfinite(combined):
            yield f"combine gives {combined} for a group of {len(group)} scored samples"
        elif sums != given:
            yield "combine changes the sums that it is given"
        elif metric.description.aggregation == "mean":
            values = [value for index in group if (value := whole.values[index]) is not None]
            mean = math.fsum(values) / len(values)
            if not math.isclose(combined, mean, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
                yield f"combine gives {combined} for {len(group)} values whose mean is {mean:.9g}"


def _combine_of_nothing(metric: Metric, cases: Sequence[MetricCase], whole: Measures) -> Iterator[str]:
    del cases
    combined = _combine(metric, dict.fromkeys(whole.statistics, 0.0))
    if combined is not None:
        yield combined if isinstance(combined, str) else f"combine gives {combined} for a group without scored samples"


def _sums(measures: Measures, group: Sequence[int]) -> dict[str, float]:
    return {name: math.fsum(column[index] for index in group) for name, column in measures.statistics.items()}


def _combine(metric: Metric, sums: Mapping[str, float]) -> float | str | None:
    try:
        return metric.combine(sums)
    except Exception as error:  # noqa: BLE001 -- the plugin's own code runs here, and may raise anything
        return f"combine raises {type(error).__name__} ({error})"
