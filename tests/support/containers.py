"""Servers of tests in containers of Docker, by testcontainers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.processes import PATIENCE_S

USER = "tests"


@dataclass(frozen=True, slots=True)
class ServerInContainer:
    """A server that ends with its container."""

    url: str


@contextmanager
def postgres_in_container(image: str) -> Iterator[ServerInContainer]:
    """Start an image that takes the variables of the official one of Postgres."""
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    testcontainers_config.ryuk_disabled = True  # its image is of a registry; the container ends with this block
    with TemporaryDirectory() as folder:
        password = Path(folder) / "password"
        password.write_text("secret-of-tests")
        Path(folder).chmod(0o755)
        password.chmod(0o444)
        ready = LogMessageWaitStrategy("database system is ready to accept connections").with_startup_timeout(
            int(PATIENCE_S)
        )
        container = (
            DockerContainer(image)
            .with_env("POSTGRES_USER", USER)
            .with_env("POSTGRES_DB", USER)
            .with_env("POSTGRES_PASSWORD_FILE", "/run/password")
            .with_volume_mapping(str(password), "/run/password", "ro")
            .with_exposed_ports(5432)
            .waiting_for(ready)
        )
        with container as started:
            host, port = started.get_container_host_ip(), started.get_exposed_port(5432)
            yield ServerInContainer(f"postgresql+psycopg://{USER}:{password.read_text()}@{host}:{port}/{USER}")
