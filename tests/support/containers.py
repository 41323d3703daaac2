"""Servers of tests in containers of Docker, by testcontainers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.support.processes import PATIENCE_S

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

USER = "tests"
_PASSWORD = "secret-of-tests"


@dataclass(frozen=True, slots=True)
class ServerInContainer:
    """A server that ends with its container."""

    url: str


@contextmanager
def postgres_in_container(image: str) -> Iterator[ServerInContainer]:
    """Start an image that takes the variables of the official one of Postgres."""
    with _secret(_PASSWORD) as password:
        container = (
            _container(image, "database system is ready to accept connections")
            .with_env("POSTGRES_USER", USER)
            .with_env("POSTGRES_DB", USER)
            .with_env("POSTGRES_PASSWORD_FILE", "/run/password")
            .with_volume_mapping(str(password), "/run/password", "ro")
            .with_exposed_ports(5432)
        )
        with container as started:
            host, port = started.get_container_host_ip(), started.get_exposed_port(5432)
            yield ServerInContainer(f"postgresql+psycopg://{USER}:{_PASSWORD}@{host}:{port}/{USER}")


@contextmanager
def valkey_in_container(image: str) -> Iterator[ServerInContainer]:
    """Start an image that takes a file of configuration, as the official one of Valkey does."""
    with _secret(f'requirepass {_PASSWORD}\nbind *\nsave ""\n') as configuration:
        container = (
            _container(image, "Ready to accept connections")
            .with_command("valkey-server /run/valkey.conf")
            .with_volume_mapping(str(configuration), "/run/valkey.conf", "ro")
            .with_exposed_ports(6379)
        )
        with container as started:
            host, port = started.get_container_host_ip(), started.get_exposed_port(6379)
            yield ServerInContainer(f"redis://:{_PASSWORD}@{host}:{port}/0")


def _container(image: str, ready: str) -> DockerContainer:
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    testcontainers_config.ryuk_disabled = True  # its image is of a registry; the container ends with the test session
    return DockerContainer(image).waiting_for(LogMessageWaitStrategy(ready).with_startup_timeout(int(PATIENCE_S)))


@contextmanager
def _secret(text: str) -> Iterator[Path]:
    """A file that the user of a container may read."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        file = Path(folder) / "secret"
        file.write_text(text)
        file.chmod(0o444)
        yield file
