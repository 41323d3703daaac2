"""`vlmhyperbench envs` with containers, and images that are missing, changed or without Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.containers.room import ARCHIVE, apptainer_spec, containers_and_networks, docker_spec, need
from tests.support.environments import refused
from tests.support.wording import Wording
from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound


def envs(home: Path, *arguments: str) -> tuple[int, Any]:
    """Run a command; return its exit code and the data of its JSON."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "envs", *arguments, "--json"]
    environment = {**kept, "VLMHB_HOME": str(home)}
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120, env=environment)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout)["data"]


def test_an_image_is_listed_examined_and_forgotten(tmp_path: Path) -> None:
    need("docker")
    image = docker_spec().image
    backends = tmp_path / "registries" / "backends"
    backends.mkdir(parents=True)
    text = f"default_backend_class: simulated\nenvironment: {{docker: {{image: '{image}'}}}}\n"
    (backends / "contained.yaml").write_text(text)

    def row() -> dict[str, Any]:
        (found,) = [row for row in envs(tmp_path, "list")[1] if row["entries"] == ["backends/contained"]]
        assert isinstance(found, dict)
        return found

    assert (row()["kind"], row()["state"]) == ("docker", "not built")
    code, [built] = envs(tmp_path, "build", "contained")
    assert (code, built["image"], built["python"]) == (0, image, "python3")
    listed = row()
    assert (listed["state"], listed["key"], listed["python"]) == ("ready", built["key"], built["python_version"])
    assert listed["size_bytes"] > 2**20
    assert envs(tmp_path, "remove", "contained")[0] == 0
    assert row()["state"] == "not built"
    assert docker_spec().image == image, "the image itself stays"


@pytest.fixture
def docker() -> None:
    """Skip before the sentences of a test are expected."""
    need("docker")


def test_an_image_that_is_not_there_is_not_pulled_by_itself(docker: None, tmp_path: Path, wording: Wording) -> None:
    error = refused(DockerSpec(image=f"sha256:{'0' * 64}"), tmp_path)
    assert (type(error), error.code) == (NotFound, "no_image")
    wording(error.message)
    wording(error.cure)


def test_an_image_without_the_declared_python_is_refused(tmp_path: Path) -> None:
    need("docker")
    error = refused(docker_spec(python="/opt/none/bin/python"), tmp_path)
    assert (type(error), error.code) == (InvalidInput, "no_python")
    assert "/opt/none/bin/python" in error.message
    assert containers_and_networks()[0] == []


def test_a_file_that_changed_since_it_was_pinned_is_refused(tmp_path: Path) -> None:
    need("apptainer")
    error = refused(apptainer_spec().model_copy(update={"sha256": "0" * 64}), tmp_path)
    assert (type(error), error.code) == (Conflict, "image_changed")
    assert str(ARCHIVE) in error.message
    missing = refused(ApptainerSpec(file=str(tmp_path / "none.sif"), sha256="0" * 64), tmp_path)
    assert (type(missing), missing.code) == (NotFound, "no_image")


def test_a_definition_that_cannot_be_built_shows_the_end_of_the_log(tmp_path: Path) -> None:
    need("apptainer")
    error = refused(ApptainerSpec(definition="Bootstrap: nonsense\nFrom: nowhere\n"), tmp_path)
    assert (type(error), error.code) == (InvalidInput, "environment_failed")
    assert "nonsense" in error.message
    assert list(tmp_path.glob("*/image.sif")) == []
