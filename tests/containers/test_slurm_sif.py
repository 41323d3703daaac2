"""A worker of Slurm from a SIF of the image, on a node at the end of a cable: it joins, works, leaves, comes back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.composed import IMAGES, build_images, docker
from tests.containers.room import need
from tests.support.audit import audit
from tests.support.machines import Machine, free_ports, other_machine
from tests.support.slurm import Cluster
from tests.support.stack import Stack, running_stack
from vlmhyperbench.registry.schemas import RunEntry

pytestmark = pytest.mark.timeout(1500)  # it builds the images and the SIF

SIF = "VLMHB_TEST_SIF"
"""Variable with a SIF of the inference worker that is there already."""
_BUILD_S = 1200


@pytest.fixture(scope="module")
def sif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SIF, made from the image as the page on clusters says, or the one that the variable names."""
    need("apptainer")
    if made := os.environ.get(SIF):
        return Path(made)
    need("docker")
    build_images()
    folder = tmp_path_factory.mktemp("sif")
    docker("save", f"{IMAGES}-inference-worker:latest", "--output", str(folder / "inference-worker.tar"), timeout_s=600)
    subprocess.run(
        ["apptainer", "--quiet", "build", "inference-worker.sif", "docker-archive:inference-worker.tar"],
        check=True,
        cwd=folder,
        timeout=_BUILD_S,
    )
    (folder / "inference-worker.tar").unlink()
    return folder / "inference-worker.sif"


@pytest.fixture(scope="module")
def node() -> Iterator[Machine]:
    with other_machine() as made:
        yield made


@pytest.fixture(scope="module")
def stack(registries: Path, node: Machine) -> Iterator[Stack]:
    services = ("scheduler", "api", "evaluation", "reporting")
    with running_stack(registries, services=services, listen=f"{node.near}:{free_ports(node.near)}") as found:
        yield found


def written(stack: Stack, cluster: Cluster, sif: Path, *options: str) -> None:
    """Run `vlmhyperbench slurm` with the words of the page."""
    words = ["--server", stack.listening_url, "--token-file", str(cluster.token_file), "--sif", str(sif)]
    words += ["--ca-file", str(stack.home.root / "tls/ca.pem"), "--storage", str(stack.home.root / "storage")]
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "slurm", *words, "--gpus", "0", *options]
    subprocess.run([*argv, "--out", str(cluster.file)], check=True)


def test_a_worker_of_the_sif_joins_works_leaves_when_idle_and_comes_back(
    stack: Stack, node: Machine, sif: Path, tmp_path: Path
) -> None:
    token = stack.client.create_join_token(kind="inference", max_uses=1).token
    cluster = Cluster(tmp_path, token, node=node.argv([]))
    written(stack, cluster, sif, "--until-idle", "20", "--home", str(tmp_path / "home"))
    given = {
        "target": {"model": "tiny-doc-vlm"},
        "task": "document-qa",
        "dataset": {"name": "synthetic-documents", "limit": 20},
    }
    first = stack.client.runs.create(RunEntry.model_validate(given))
    cluster.submit()
    assert stack.wait(first.id).state == "SUCCEEDED", cluster.logs()
    assert cluster.codes(1) == ["0"], cluster.logs()
    assert stack.query("SELECT name, state FROM worker WHERE kind = 'inference'") == [("slurm-4200", "GONE")]
    assert stack.rows(first.id) == 20

    second = stack.client.runs.create(
        RunEntry.model_validate({**given, "dataset": {"name": "synthetic-documents", "limit": 30}})
    )
    cluster.submit()  # its home has joined, so the token is not needed again
    assert stack.wait(second.id).state == "SUCCEEDED", cluster.logs()
    assert cluster.codes(1) == ["0"], cluster.logs()
    assert token not in cluster.logs()
    manifest = json.dumps(stack.client.runs.get(second.id).model_dump(mode="json"))
    assert "hf_x" not in manifest  # a secret of who has submitted
    audit(stack)
