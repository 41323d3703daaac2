"""The GPUs that are left to a worker are what its launchers ask of Docker and of Apptainer, and no others."""

from __future__ import annotations

import json
import os
import re
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.environments.standing_in import Order

IMAGE = f"sha256:{'0' * 64}"
TWO = "GPU-11111111-0000-0000-0000-000000000000,MIG-22222222-0000-0000-0000-000000000000"
ANSWERS: dict[tuple[str, str], tuple[int, object]] = {
    ("GET", "/version"): (200, {"ApiVersion": "1.44", "Version": "28.0"}),
    ("GET", "/info"): (200, {"SecurityOptions": []}),
    ("GET", "/containers/json"): (200, []),
    ("GET", "/networks"): (200, []),
    ("GET", f"/images/{IMAGE}/json"): (200, {"Id": IMAGE}),
    ("POST", "/networks/create"): (201, {"Id": "n"}),
    ("GET", "/networks/n"): (200, {"Id": "n", "Name": "n"}),
    ("DELETE", "/networks/n"): (204, None),
    ("POST", "/containers/create"): (500, {"message": "it has heard enough"}),
}
"""What a daemon of Docker answers until a container is created, which this one refuses."""


class _Daemon(BaseHTTPRequestHandler):
    asked: list[Any]

    def _answer(self) -> None:
        path = re.sub(r"^/v[0-9.]+", "", self.path.partition("?")[0])
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path == "/containers/create":
            self.asked.append(json.loads(body))
        status, answer = ANSWERS[self.command, path]
        content = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the names of http.server

    def log_message(self, *_: object) -> None:
        pass


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def docker(path: Path) -> Iterator[list[Any]]:
    """Answer in place of Docker's daemon, and record what containers it is asked for."""
    asked: list[Any] = []
    with _Server(str(path), type("Daemon", (_Daemon,), {"asked": asked})) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()


def launch(module: str, spec: dict[str, str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    marker = folder / "marker.json"
    marker.write_text(json.dumps({"packages": {}, "image": IMAGE, "image_file": str(folder / "image.sif")}))
    argv = Order(spec=spec, marker=str(marker)).argv(f"vlmhyperbench.environments.{module}")
    return subprocess.run(
        argv,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("visible", "ids", "count"), [(TWO, TWO.split(","), 0), ("all", None, -1), ("", None, None), ("-1", None, None)]
)
def test_docker_is_asked_for_the_gpus_of_the_worker(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, visible: str, ids: list[str] | None, count: int | None
) -> None:
    path = tmp_path_factory.mktemp("d") / "docker.sock"
    with docker(path) as asked:
        said = launch(
            "docker_run", {"image": IMAGE}, tmp_path, CUDA_VISIBLE_DEVICES=visible, DOCKER_HOST=f"unix://{path}"
        )
    assert json.loads(said.stdout)["code"] == "docker_failed", said.stderr
    [container] = asked
    requests = container["HostConfig"].get("DeviceRequests")
    if count is None:
        assert not requests
    else:
        [request] = requests
        assert (request["DeviceIDs"] or None, request["Count"], request["Capabilities"]) == (ids, count, [["gpu"]])


@pytest.mark.parametrize("visible", [TWO, "all", ""])
def test_apptainer_is_asked_for_the_gpus_of_the_worker(tmp_path: Path, visible: str) -> None:
    program = tmp_path / "programs" / "apptainer"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >'{tmp_path}/asked'\n")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    spec = {"definition": "Bootstrap: scratch\n"}
    said = launch("apptainer_run", spec, tmp_path, CUDA_VISIBLE_DEVICES=visible, PATH=path)
    assert said.returncode == 0, said.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    values = [value for option, value in pairwise(asked) if option == "--env"]
    assert ("--nv" in asked) is bool(visible)
    assert values == ([f"CUDA_VISIBLE_DEVICES={TWO}", "CUDA_DEVICE_ORDER=PCI_BUS_ID"] if visible == TWO else [])
