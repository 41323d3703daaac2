"""Containers where Docker and Apptainer are missing: what the error names, and what `doctor` and `envs` say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.environments import refused
from tests.support.wording import Wording
from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec
from vlmhyperbench.errors import Unavailable

IMAGE = f"sha256:{'0' * 64}"
DOCKER = DockerSpec(image=IMAGE)
APPTAINER = ApptainerSpec(definition="Bootstrap: scratch\n")


def test_a_machine_without_docker_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refused(DOCKER, tmp_path)
    assert (type(error), error.code) == (Unavailable, "no_docker")
    wording(error.message)
    wording(error.cure)


def test_a_daemon_that_does_not_run_is_told_from_a_missing_docker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    (tmp_path / "dockerd").write_text("")
    (tmp_path / "dockerd").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    error = refused(DOCKER, tmp_path)
    assert error.code == "no_docker"
    wording(error.message)
    wording(error.cure)


def test_a_daemon_of_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://gpu.example.org:2376")
    error = refused(DOCKER, tmp_path)
    assert error.code == "no_docker"
    wording(error.message)
    wording(error.cure)


def test_a_machine_without_apptainer_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refused(APPTAINER, tmp_path)
    assert (type(error), error.code) == (Unavailable, "no_apptainer")
    wording(error.message)
    wording(error.cure)


@pytest.mark.parametrize("is_declared", [False, True])
def test_doctor_fails_without_docker_only_if_an_entry_needs_it(tmp_path: Path, is_declared: bool) -> None:
    if is_declared:
        backends = tmp_path / "registries" / "backends"
        backends.mkdir(parents=True)
        text = f"default_backend_class: simulated\nenvironment: {{docker: {{image: '{IMAGE}'}}}}\n"
        (backends / "contained.yaml").write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
    environment = {**kept, "VLMHB_HOME": str(tmp_path), "DOCKER_HOST": "unix:///nowhere/docker.sock"}
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "doctor", "--json"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120, env=environment)
    (docker,) = [check for check in json.loads(done.stdout)["data"] if check["name"] == "docker"]
    assert docker["is_ok"] is not is_declared
    assert ("backends/contained" in docker["detail"]) is is_declared
    assert bool(docker["cure"]) is is_declared
