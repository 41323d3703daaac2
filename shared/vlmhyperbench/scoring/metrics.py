"""Open the metric that a run pins, to measure answers or to combine sums for a report."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, Protocol

from vlmhyperbench.decoding import decode
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.metric_process import MetricHost
from vlmhyperbench.scoring.apart import MetricApart, named, open_apart
from vlmhyperbench.sources import require_source
from vlmhyperbench_sdk import discovery
from vlmhyperbench_sdk.discovery import construct_metric
from vlmhyperbench_sdk.errors import Conflict
from vlmhyperbench_sdk.protocols import Metric, MetricDescription
from vlmhyperbench_sdk.types import JsonValue

Policy = Literal["zero", "exclude"]
"""`zero`: it counts as a wrong answer; `exclude`: it has no value."""

_POLICY = "on_invalid"
"""Param of metrics that parse answers themselves: the worth of an unreadable answer."""


class RunsApart(Protocol):
    """The pinned spec of a plugin that may run in an environment of its own: of a metric, a dataset or a prompt."""

    @property
    def environment(self) -> VirtualenvSpec | None: ...


Params = Mapping[str, JsonValue]
NO_PARAMS: Final[Params] = MappingProxyType({})
Hosts = Mapping[str, MetricHost]
"""Digest of a pinned environment → the environment, prepared on this machine."""
NO_HOSTS: Final[Hosts] = MappingProxyType({})


def host_of(spec: RunsApart, hosts: Hosts) -> MetricHost | None:
    """Return the prepared environment that a plugin pins; None if it pins none, or it is not prepared."""
    return hosts.get(digest_of(spec.environment)) if spec.environment is not None else None


def open_metric(spec: MetricSpec, host: MetricHost | None = None, *, optional: Params = NO_PARAMS) -> Metric:
    """Find and construct a metric by its pinned spec; params in `optional` are only given to a class that has them.

    A metric that pins an environment is opened in its `host`.

    Raises:
        NotFound: no package registers it.
        InvalidInput: it refuses its profile or params.
        Conflict: another version is installed, its code was edited, or two packages register the name.
        PluginFailure: importing or constructing it failed.
        NotReady: its environment is not prepared here.
    """
    params = {**spec.params, "profile": spec.profile}
    metric: Metric
    if spec.environment is not None:
        metric = open_apart(spec.class_path, params, optional=optional, name=spec.name, host=host)
    else:
        require_source(spec.package, f"metric {spec.name!r}")
        known = inspect.signature(discovery.load("metrics", spec.class_path)).parameters if optional else {}
        fitting = {name: value for name, value in optional.items() if name in known}
        metric = construct_metric(spec.class_path, {**fitting, **params}, name=spec.name)
    installed = metric.description.version
    if installed != spec.version:
        raise Conflict(
            f"The run pins the metric {spec.name} {spec.version}, but {installed} is installed.",
            cure="Install the pinned version, or start a new run.",
            code="metric_version",
        )
    return metric


def open_answering(spec: MetricSpec, host: MetricHost | None = None, *, on_invalid: Policy) -> Metric:
    """Open a metric for answers: unreadable answers count by the run's policy, unless the metric's params set one.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure, NotReady: as `open_metric`.
    """
    return open_metric(spec, host, optional={_POLICY: on_invalid})


def open_stored(spec: MetricSpec, description: JsonValue, hosts: Hosts, *, on_invalid: Policy) -> Metric:
    """Open a metric that has measured, to show and to combine its measures; an environment is used only to combine.

    Args:
        spec: The metric.
        description: What was stored of its description, if it has an environment of its own.
        hosts: The environments that are prepared.
        on_invalid: The policy of its run.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure: as `open_metric`; or the description is not valid.
    """
    if spec.environment is None:
        return open_answering(spec, on_invalid=on_invalid)
    params = {**spec.params, "profile": spec.profile}
    return MetricApart(
        named=named(spec.class_path, params, optional={_POLICY: on_invalid}, name=spec.name),
        description=decode(MetricDescription, description, f"The stored description of the metric {spec.name!r}"),
        host=host_of(spec, hosts),
    )


def is_combined_apart(spec: MetricSpec, description: JsonValue) -> bool:
    """Return whether a report needs the environment of a metric: a mean is computed without the metric's code."""
    about = description if isinstance(description, Mapping) else {}
    return spec.environment is not None and about.get("aggregation") == "pooled"


def open_failing(spec: MetricSpec, host: MetricHost | None = None) -> Metric:
    """Open a metric for failures: unreadable answers have the worst value, whatever its params are.

    Raises:
        NotFound, InvalidInput, Conflict, PluginFailure, NotReady: as `open_metric`.
    """
    own = {name: value for name, value in spec.params.items() if name != _POLICY}
    return open_metric(spec.model_copy(update={"params": own}), host, optional={_POLICY: "zero"})
