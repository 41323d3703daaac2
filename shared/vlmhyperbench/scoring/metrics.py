"""Open the metric that a run pins: for whoever measures with it, and for whoever combines its sums into a report."""

from __future__ import annotations

from typing import cast

from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.errors import Conflict, InvalidInput, PluginFailure, VlmHyperBenchError
from vlmhyperbench_sdk.protocols import Metric


def open_metric(spec: MetricSpec) -> Metric:
    """Find and construct a metric by its pinned spec.

    Raises:
        NotFound: nobody registers it.
        InvalidInput: it refuses its profile or params.
        Conflict: what is installed is another version, or two packages register the name.
        PluginFailure: importing or constructing it failed.
    """
    found = discovery.load("metrics", spec.class_path)
    try:
        metric = cast("Metric", found(**{**spec.params, "profile": spec.profile}))
        installed = metric.description.version
    except VlmHyperBenchError:
        raise
    except TypeError as error:
        raise InvalidInput(f"The metric {spec.name!r} refuses its params: {error}.") from error
    except Exception as error:
        raise PluginFailure(f"The metric {spec.name!r} cannot be constructed: {error}.") from error
    if installed != spec.version:
        raise Conflict(
            f"The run pins the metric {spec.name} {spec.version}, but {installed} is installed.",
            cure="Install the pinned version, or start a new run.",
            code="metric_version",
        )
    return metric
