"""Open the metric that a run pins, to measure answers or to combine sums for a report."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from vlmhyperbench.sources import require_source
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import Conflict, PluginFailure, VlmHyperBenchError
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.types import JsonValue

Policy = Literal["zero", "exclude"]
"""`zero`: it counts as a wrong answer; `exclude`: it has no value."""

_POLICY = "on_invalid"
"""Param of metrics that parse answers themselves: the worth of an unreadable answer."""

if TYPE_CHECKING:
    from vlmhyperbench.domain.specs import MetricSpec


def open_metric(spec: MetricSpec) -> Metric:
    """Find and construct a metric by its pinned spec.

    Raises:
        NotFound: no package registers it.
        InvalidInput: it refuses its profile or params.
        Conflict: another version is installed, its code was edited, or two packages register the name.
        PluginFailure: importing or constructing it failed.
    """
    require_source(spec.package, f"metric {spec.name!r}")
    metric = construct_metric(spec.class_path, {**spec.params, "profile": spec.profile}, name=spec.name)
    installed = metric.description.version
    if installed != spec.version:
        raise Conflict(
            f"The run pins the metric {spec.name} {spec.version}, but {installed} is installed.",
            cure="Install the pinned version, or start a new run.",
            code="metric_version",
        )
    return metric


def open_answering(spec: MetricSpec, *, on_invalid: Policy) -> Metric:
    """Open a metric for answers: unreadable answers count by the run's policy, unless the metric's params set one.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure: as `open_metric`.
    """
    return open_metric(spec if _POLICY in spec.params else _with_policy(spec, on_invalid))


def open_failing(spec: MetricSpec) -> Metric:
    """Open a metric for failures: unreadable answers have the worst value, whatever its params are.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure: as `open_metric`.
    """
    return open_metric(_with_policy(spec, "zero"))


def _with_policy(spec: MetricSpec, on_invalid: Policy) -> MetricSpec:
    """Set the policy in the params of a metric that has this param."""
    require_source(spec.package, f"metric {spec.name!r}")
    metric_class = discovery.load("metrics", spec.class_path)
    if _POLICY not in inspect.signature(metric_class).parameters:
        return spec
    return spec.model_copy(update={"params": {**spec.params, _POLICY: on_invalid}})


def construct_metric(class_path: str, params: Mapping[str, JsonValue], *, name: str) -> Metric:
    """Find and construct a metric by its registered name or its dotted path; `name` is its name in errors.

    Raises:
        NotFound: no package registers it.
        InvalidInput: it refuses its profile or params.
        Conflict: two packages register the name.
        PluginFailure: importing or constructing it failed.
    """
    metric = cast("Metric", discovery.construct("metrics", class_path, params, called=name))
    try:
        metric.description  # noqa: B018 -- reports a description that cannot be made before anything is measured
    except VlmHyperBenchError:
        raise
    except Exception as error:  # the plugin's own code runs here, and may raise anything
        message = f"The description of the metric {name!r} cannot be read: it raises {type(error).__name__} ({error})."
        raise PluginFailure(message, cure="Correct the property description of the metric's class.") from error
    return metric
