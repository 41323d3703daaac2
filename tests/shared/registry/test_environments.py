"""The environment of an engine: declared by a backend, replaced by a model, pinned with the target."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import Shelf, load
from tests.support.wording import Wording
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.specs import ModelTarget
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry

BACKEND = "environment: {virtualenv: {python: '3.12', requirements: [engine==1.0], manager: pip}}\n"
PULLED_ID = f"environment: {{docker: {{image: 'sha256:{'0' * 64}', pull: missing}}}}\n"
MODEL = "backends: [engine]\nenvironment:\n  virtualenv:\n    requirements: [engine==2.0]\n"


def _environment(catalogue: Catalogue, model: str = "m", **target: str) -> VirtualenvSpec | None:
    entry = RunEntry.model_validate({"target": {"model": model, **target}, "task": "t"})
    resolved = resolve_run(catalogue, entry, plugins=Shelf()).target
    assert isinstance(resolved, ModelTarget)
    return resolved.environment


def test_a_model_runs_in_the_environment_of_its_backend_unless_it_has_its_own(tmp_path: Path) -> None:
    catalogue = load(tmp_path, {"backends/engine.yaml": BACKEND, "models/x.yaml": MODEL})
    declared = VirtualenvSpec(python="3.12", requirements=("engine==1.0",), manager="pip")
    assert _environment(catalogue) == declared
    assert _environment(catalogue, "x") == VirtualenvSpec(requirements=("engine==2.0",))
    assert _environment(catalogue, backend="other") is None


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("environment: {virtualenv: {requirements: ['engine>=1']}}\n", "environment.virtualenv.requirements.0"),
        ("environment: {virtualenv: {requirements: [a==1], overrides: ['-r x']}}\n", "virtualenv.overrides.0"),
        ("environment: {virtualenv: {requirements: [a==1], python: python3}}\n", "environment.virtualenv.python"),
        ("environment: {virtualenv: {requirements: [a==1], python: 3.12}}\n", "environment.virtualenv.python"),
        ("environment: {virtualenv: {requirements: []}}\n", "environment.virtualenv"),
        ("environment: {virtualenv: {requirements: [a==1], manager: poetry}}\n", "environment.virtualenv.manager"),
        ("environment: {virtualenv: {requirements: [a==1], conda: [b==1]}}\n", "environment.virtualenv"),
        (
            "environment: {virtualenv: {requirements: [a==1], manager: conda, conda: ['b>=1']}}\n",
            "environment.virtualenv.conda.0",
        ),
        (
            "environment: {virtualenv: {requirements: [a==1], manager: conda, channels: ['https://h/c']}}\n",
            "environment.virtualenv.channels.0",
        ),
        (
            "environment: {remote: {cloud: moon, accelerators: 'L4:1', max_hourly_cost_usd: 1}}\n",
            "cloud",
        ),
        (
            "environment: {remote: {cloud: runpod, accelerators: L4, max_hourly_cost_usd: 1, requirements: [a==1]}}\n",
            "accelerators",
        ),
        ("environment: {remote: {cloud: runpod, accelerators: 'L4:1', requirements: [a==1]}}\n", "max_hourly_cost_usd"),
        ("environment: {docker: {image: x}}\n", "environment.docker.image"),
        ("environment: {docker: {image: sha256:abc}}\n", "environment.docker.image"),
        pytest.param(PULLED_ID, "environment.docker", id="an id is pulled"),
        ("environment: {apptainer: {file: /x.sif}}\n", "environment.apptainer"),
        ("environment: {apptainer: {python: python3}}\n", "environment.apptainer"),
        ("environment: {}\n", "environment"),
        ("environment: {singularity: {file: /x.sif}}\n", "environment.singularity"),
    ],
)
def test_a_wrong_environment_is_refused_with_its_line_and_a_cure(
    tmp_path: Path, text: str, location: str, wording: Wording
) -> None:
    with pytest.raises(RegistryErrors) as refused:
        load(tmp_path, {"backends/x.yaml": text})
    error = next(error for error in refused.value.errors if location in str(error.field))
    assert (str(error.file).endswith("x.yaml"), error.line) == (True, 1)
    wording(error.message)
    wording(error.cure)
