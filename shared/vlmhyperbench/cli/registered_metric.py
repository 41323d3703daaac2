"""Open a metric of the registry for a command, in its own environment if its entry declares one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from vlmhyperbench.cli.output import teller
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.cli.registry import open_catalogue
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.environments.metric_hosts import metric_hosts_here
from vlmhyperbench.registry.metrics import pin_metrics
from vlmhyperbench.registry.pins import errors_of
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.scoring.metrics import host_of, open_metric
from vlmhyperbench.settings import Settings
from vlmhyperbench_sdk.protocols import Metric
from vlmhyperbench_sdk.types import JsonValue


def pinned(name: str, params: Mapping[str, JsonValue]) -> MetricSpec | None:
    """Pin a metric of the registry with further params, of which `profile` chooses one; None if it has no entry.

    Raises:
        RegistryErrors: the entry has no such profile, or its environment cannot be pinned.
    """
    catalogue = open_catalogue()
    entry = catalogue.metrics.get(name)
    if entry is None:
        return None
    own = dict(params)
    profile = own.pop("profile", entry.profile)
    references = References(catalogue=catalogue, plugins=InstalledPlugins())
    [spec] = pin_metrics(references, [f"{name}@{profile}"], None, ("metric",))
    if spec is None or references.problems:
        raise errors_of(references, "metrics", entry)
    return spec.model_copy(update={"params": {**spec.params, **own}})


@contextmanager
def opened(spec: MetricSpec, output: OutputFlags) -> Iterator[Metric]:
    """Open a pinned metric; its environment is built if it is missing.

    Raises:
        VlmHyperBenchError: the metric cannot be opened, or its environment cannot be prepared.
    """
    with metric_hosts_here([spec], Settings.load(), tell=teller(output, spec.name)) as hosts:
        yield open_metric(spec, host_of(spec, hosts))
