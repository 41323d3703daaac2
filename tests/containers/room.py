"""What the tests of containers share: an image with Python alone, an engine of the standard library, its adapter."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.needs import skip_or_fail
from vlmhyperbench.domain.environments import ApptainerSpec, DockerSpec
from vlmhyperbench.environments.docker_daemon import docker_client, docker_version
from vlmhyperbench.errors import VlmHyperBenchError

ROOM = Path(os.environ.get("VLMHB_CONTAINERS", Path(__file__).parents[2] / ".venvs" / "containers"))
"""Where `make containers` keeps the base image."""
IMAGE = "vlmhyperbench-base:latest"
ARCHIVE = ROOM / "base.tar"

ADAPTER = """
from pathlib import Path

from vlmhyperbench_simulated.adapter import Simulated
from vlmhyperbench_sdk.protocols import EngineLaunch


class Adapter(Simulated):
    def plan_engine(self, load, *, port, python, host="127.0.0.1"):
        server = Path(__file__).with_name("server.py")
        argv = (python, "-I", str(server), host, str(port), *load.files.values())
        return EngineLaunch(argv=argv, url=f"http://{host}:{port}", engine="contained", env={"OWN": "yes"})
"""

SERVER = """
import http.server, json, os, socket, sys, threading, urllib.request

host, port, files = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
print("The engine listens.", flush=True)


def facts():
    status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line)
    facts = {"uid": os.getuid(), "rights": int(status["CapEff"], 16), "gains": int(status["NoNewPrivs"])}
    facts["environment"] = dict(os.environ)
    facts["files"] = [open(name).read() for name in files]
    facts["processes"] = sum(name.isdigit() for name in os.listdir("/proc"))
    for what, where in (("image", "/made"), ("model", files[0] if files else "/made"), ("scratch", "/tmp/made")):
        try:
            open(where, "a").close()
            facts[what] = "written"
        except OSError as error:
            facts[what] = type(error).__name__
    return facts


def reach(target):
    try:
        socket.create_connection(tuple(target), 2).close()
        return "reached"
    except OSError as error:
        return "not reached"


def begin(threads):
    end, begun = threading.Event(), 0
    try:
        for _ in range(threads):
            threading.Thread(target=end.wait, daemon=True).start()
            begun += 1
    except RuntimeError:  # the container allows no more
        pass
    end.set()
    return begun


class Engine(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(facts() if self.path == "/props" else {})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = json.loads(request["messages"][-1]["content"])
        if "take_mib" in said:
            kept = [b"x" * 2**20 for _ in range(said["take_mib"])]
        text = json.dumps(reach(said["reach"])) if "reach" in said else str(begin(said.get("begin", 0)))
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        self.answer({"id": "1", "object": "chat.completion", "choices": choices})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer((host, port), Engine).serve_forever()
"""

_LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
while True:
    server.accept()
"""


def need(kind: str) -> None:
    """Skip a test where Docker, Apptainer or the base image is missing; with `VLMHB_NEED_CONTAINERS` that fails."""
    missing = _missing(kind)
    if missing is not None:
        skip_or_fail(f"{missing} `make containers` installs it.", "VLMHB_NEED_CONTAINERS")


def _missing(kind: str) -> str | None:
    if not ARCHIVE.exists():
        return f"There is no {ARCHIVE}."
    if kind == "apptainer":
        return None if shutil.which("apptainer") else "Apptainer is not installed."
    try:
        docker_version()
    except VlmHyperBenchError as error:
        return str(error)
    return None


def docker_spec(**fields: object) -> DockerSpec:
    """Return a container of the base image."""
    with docker_client() as client:
        return DockerSpec(image=client.images.get(IMAGE).id, **fields)


def apptainer_spec(**fields: object) -> ApptainerSpec:
    """Return a container of the base image's archive."""
    digest = hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()
    return ApptainerSpec(file=str(ARCHIVE), sha256=digest, **fields)


def write_adapter(folder: Path) -> None:
    """Install an adapter whose engine needs Python alone."""
    package = folder / "contained_adapter"
    package.mkdir()
    (package / "__init__.py").write_text(ADAPTER)
    (package / "server.py").write_text(SERVER)
    info = folder / "contained_adapter-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: contained-adapter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vlmhyperbench.backends]\ncontained = contained_adapter:Adapter\n")


def containers_and_networks() -> tuple[list[str], list[str]]:
    """Return the names of the containers and networks that launchers have made."""
    with docker_client() as client:
        label = {"label": "io.vlmhyperbench.owner"}
        containers = client.containers.list(all=True, filters=label, ignore_removed=True)
        return [item.name for item in containers], [item.name for item in client.networks.list(filters=label)]


@contextmanager
def other_machine() -> Iterator[tuple[str, int]]:
    """Yield the address of a server that is behind a network of its own, which takes root to make."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("A network in place of another machine takes root and the program ip.")
    name, ours, theirs = f"vlmhb{os.getpid()}", "198.18.77.1", "198.18.77.2"
    commands = (
        f"ip netns add {name}",
        f"ip link add {name}a type veth peer name {name}b netns {name}",
        f"ip address add {ours}/30 dev {name}a",
        f"ip link set {name}a up",
        f"ip -n {name} address add {theirs}/30 dev {name}b",
        f"ip -n {name} link set {name}b up",
        f"ip -n {name} route add default via {ours}",
    )
    try:
        for command in commands:
            subprocess.run(command.split(), check=True)
        argv = ["ip", "netns", "exec", name, sys.executable, "-I", "-c", _LISTEN, theirs]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                yield theirs, int(server.stdout.readline())
            finally:
                server.kill()
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=False)
