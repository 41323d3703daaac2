"""Open a metric that is to be registered, in the environment of its own that its entry will declare."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from vlmhyperbench.cli.output import teller
from vlmhyperbench.cli.output_flags import OutputFlags
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.environments.metric_hosts import metric_hosts_here
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryError, RegistryErrors, field_of
from vlmhyperbench.registry.packages import pin_metric_environment
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.schemas import MetricEntry
from vlmhyperbench.registry.validation import validate
from vlmhyperbench.scoring.apart import open_apart
from vlmhyperbench.scoring.metrics import host_of
from vlmhyperbench.settings import Settings
from vlmhyperbench_sdk.protocols import MetricDescription


def described_apart(
    class_path: str, environment: Mapping[str, JsonValue], catalogue: Catalogue, output: OutputFlags
) -> MetricDescription:
    """Return the description of a metric that has no entry yet, in an environment, which is built if it is missing.

    Args:
        class_path: Class of the metric, or the name under which a package of the environment registers it.
        environment: What an entry says of the environment.
        catalogue: Where the packages are registered that it names.
        output: How progress is printed.

    Raises:
        RegistryErrors: the environment cannot be pinned.
        VlmHyperBenchError: it cannot be prepared, or the metric cannot be opened.
    """
    entry, problems = validate(
        MetricEntry, {"class_path": class_path, "profile": "v1", "environment": dict(environment)}
    )
    references = References(catalogue=catalogue, plugins=InstalledPlugins())
    spec = pin_metric_environment(references, entry, ("environment",)) if entry is not None else None
    if spec is None or references.problems:
        raise RegistryErrors(
            RegistryError(field=field_of(problem.path), message=problem.message, cure=problem.cure)
            for problem in (*problems, *references.problems)
        )
    metric = MetricSpec(name=class_path, profile="", version="", class_path=class_path, environment=spec)
    with metric_hosts_here([metric], Settings.load(), tell=teller(output, class_path)) as hosts:
        host = host_of(metric, hosts)
        return open_apart(class_path, {}, optional={}, name=class_path, host=host).description
