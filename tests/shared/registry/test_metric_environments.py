"""The environment of a metric: declared by its entry, pinned with the run, and left out where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import Shelf, errors_of, load
from tests.support.wording import Wording
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.packages import IndexPackage
from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry

OWN = "class_path: shares:Share\nprofile: v1\nenvironment: {virtualenv: {requirements: ['numpy==1.26.4']}}\n"
PACKAGE = "source: {type: pypi, name: my-bench, version: 1.0.0}\n"


def _pinned(root: Path, text: str, **more: str) -> MetricSpec:
    files = {"metrics/own.yaml": text, **{name.replace("__", "/") + ".yaml": content for name, content in more.items()}}
    entry = RunEntry.model_validate({"target": {"model": "m"}, "task": "t", "metrics": ["own", "cer"]})
    metric, other = resolve_run(load(root, files), entry, plugins=Shelf()).metrics
    assert "environment" not in other.model_dump(mode="json")  # so that old digests stay
    return metric


def test_a_metric_is_pinned_with_its_environment_and_nothing_of_this_installation(tmp_path: Path) -> None:
    metric = _pinned(tmp_path, OWN)
    assert metric.environment == VirtualenvSpec(requirements=("numpy==1.26.4",))
    assert (metric.class_path, metric.package) == ("shares:Share", None)


def test_the_package_that_it_names_is_one_of_those_of_its_environment(tmp_path: Path) -> None:
    metric = _pinned(tmp_path, f"{OWN}package: my-bench\n", **{"packages__my-bench": PACKAGE})
    assert metric.environment is not None
    assert metric.environment.packages == (IndexPackage(name="my-bench", version="1.0.0"),)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(OWN.replace("virtualenv", "docker"), id="a container"),
        pytest.param(f"{OWN}package: my-bench\n", id="no such package"),
        pytest.param(OWN.replace("requirements: ['numpy==1.26.4']", "packages: [my-bench]"), id="nor such"),
        pytest.param(OWN.replace("shares:Share", "vlmhyperbench.scoring.judge:Judge"), id="a judge"),
    ],
)
def test_what_cannot_be_pinned_is_refused(tmp_path: Path, text: str, wording: Wording) -> None:
    errors = errors_of(tmp_path, {"metrics/own.yaml": text})
    wording(next((error for error in errors if "environment" in error), errors[0]))
