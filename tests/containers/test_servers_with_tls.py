"""Debian's own Postgres and Redis, which speak TLS themselves, reached by the settings that a user writes for them."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from tests.support.processes import PATIENCE_S, Services
from tests.support.stack import ROOT, TERMINAL, until
from vlmhyperbench.bus import Bus
from vlmhyperbench.client import Client
from vlmhyperbench.db.engine import Database
from vlmhyperbench.errors import InvalidInput, Unavailable
from vlmhyperbench.local.certificates import Certificates
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.settings import Settings
from vlmhyperbench.wire.runs import Run

pytestmark = pytest.mark.anyio

UNPACKED = Path(__file__).parents[2] / ".venvs" / "containers" / "servers"
POSTGRES = next(iter(sorted(UNPACKED.glob("usr/lib/postgresql/*/bin"))), None)
REDIS = UNPACKED / "usr" / "bin" / "redis-server"
IS_NEEDED = os.environ.get("VLMHB_NEED_CONTAINERS") == "--need-all"

if (POSTGRES is None or not REDIS.exists()) and not IS_NEEDED:
    pytest.skip("the servers are not unpacked: make containers", allow_module_level=True)

LIBRARIES = {"LD_LIBRARY_PATH": str(UNPACKED / "usr/lib/x86_64-linux-gnu")}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("tls"))
    made.prepare({"127.0.0.1"})
    return made


@contextmanager
def running(argv: list[str], *, log: Path) -> Iterator[None]:
    with (
        log.open("wb") as file,
        subprocess.Popen(argv, env={**os.environ, **LIBRARIES}, stdout=file, stderr=file) as it,
    ):
        try:
            yield
        finally:
            it.terminate()
            it.wait(PATIENCE_S)


def until_open(port: int, log: Path) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < give_up_at, log.read_text()
            time.sleep(0.05)
        else:
            return


def until_says(sentence: str, log: Path) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while sentence not in log.read_text():
        assert time.monotonic() < give_up_at, log.read_text()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def database_url(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster that accepts connections by TLS and password only."""
    assert POSTGRES is not None
    folder, port = tmp_path_factory.mktemp("pg"), free_port()
    (folder / "password").write_text("right")
    as_user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.geteuid() == 0 else []
    share = ["-L", str(UNPACKED / "usr/share/postgresql" / POSTGRES.parent.name)]
    made = [
        *as_user,
        str(POSTGRES / "initdb"),
        *share,
        "-D",
        str(folder / "data"),
        "-U",
        "owner",
        "-A",
        "scram-sha-256",
    ]
    made += ["--encoding=UTF8", "--locale=C", f"--pwfile={folder / 'password'}"]
    subprocess.run(made, env={**os.environ, **LIBRARIES}, check=True, capture_output=True)
    shutil.copy(certificates.cert_file, folder / "data" / "server.crt")
    shutil.copy(certificates.key_file, folder / "data" / "server.key")
    (folder / "data" / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")
    argv = [
        *as_user,
        str(POSTGRES / "postgres"),
        "-D",
        str(folder / "data"),
        "-p",
        str(port),
        "-k",
        "",
        "-h",
        "127.0.0.1",
    ]
    with running([*argv, "-c", "ssl=on"], log=folder / "log"):
        until_says("ready to accept connections", folder / "log")
        yield f"postgresql://owner:right@127.0.0.1:{port}/postgres?sslmode=verify-full"


@pytest.fixture(scope="module")
def redis_url(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis that has a TLS port only."""
    folder, port = tmp_path_factory.mktemp("redis"), free_port()
    options = {
        "port": "0",
        "tls-port": str(port),
        "bind": "127.0.0.1",
        "requirepass": "right",
        "tls-cert-file": str(certificates.cert_file),
        "tls-key-file": str(certificates.key_file),
        "tls-ca-cert-file": str(certificates.ca_file),
        "tls-auth-clients": "no",
        "dir": str(folder),
        "save": "",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    with running([str(REDIS), *words], log=folder / "log"):
        until_open(port, folder / "log")
        yield f"rediss://:right@127.0.0.1:{port}/0"


def settings_of(home: Path, ca_file: Path | None, urls: Mapping[str, str]) -> Settings:
    return Settings(home=home, tls_ca_file=ca_file, **{name: SecretStr(url) for name, url in urls.items()})  # type: ignore[arg-type]


async def is_there(settings: Settings) -> bool:
    database = Database(settings.database_url.get_secret_value())
    try:
        async with database.transaction() as session:
            is_encrypted = await session.scalar(text("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
    finally:
        await database.close()
    return bool(is_encrypted)


async def test_postgres_is_reached_by_the_authority_of_the_settings(
    certificates: Certificates, database_url: str, tmp_path: Path
) -> None:
    assert await is_there(settings_of(tmp_path, certificates.ca_file, {"database_url": database_url}))


async def test_postgres_of_another_authority_or_name_or_without_tls_is_refused(
    certificates: Certificates, database_url: str, tmp_path: Path
) -> None:
    others = Certificates(tmp_path / "others")
    others.prepare({"127.0.0.1"})
    named = database_url.replace("@127.0.0.1", "@localhost")
    plain = database_url.replace("verify-full", "disable")
    for ca_file, url in ((others.ca_file, database_url), (certificates.ca_file, named), (None, plain)):
        with pytest.raises(Unavailable):
            await is_there(settings_of(tmp_path, ca_file, {"database_url": url}))


async def test_redis_is_reached_by_the_authority_of_the_settings_and_by_no_other(
    certificates: Certificates, redis_url: str, tmp_path: Path
) -> None:
    others = Certificates(tmp_path / "others")
    others.prepare({"127.0.0.1"})
    for ca_file, is_trusted in ((certificates.ca_file, True), (others.ca_file, False)):
        bus = Bus(settings_of(tmp_path, ca_file, {"redis_url": redis_url}).redis_url.get_secret_value())
        assert await bus.is_up() is is_trusted
        await bus.close()


SERVICES = {
    "vlmhyperbench_scheduler": "scheduler",
    "vlmhyperbench_api": "api",
    "vlmhyperbench_inference_worker": "inference",
    "vlmhyperbench_eval_worker": "evaluation",
    "vlmhyperbench_reporter": "reporting",
}


async def test_a_whole_platform_runs_on_servers_that_speak_tls_only(
    certificates: Certificates, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    port, key = free_port(), f"tests_{'k' * 43}"
    home = tmp_path / "home"
    (home / "run").mkdir(parents=True)
    (home / "run" / "api-key").write_text(key)
    (home / "run" / "metrics-key").write_text(f"metrics_{'m' * 43}")
    given = {
        "VLMHB_TLS_CA_FILE": str(certificates.ca_file),
        "VLMHB_STORAGE_URL": str(tmp_path / "storage"),
        "VLMHB_REGISTRIES": str(ROOT / "registries"),
        "VLMHB_KEY_PEPPER": "pepper-of-tests",
        "VLMHB_API_PORT": str(port),
    }
    entry = {"target": {"model": "simulated-instant"}, "task": "synthetic-questions"}
    entry["dataset"] = {"name": "synthetic-questions", "limit": 20}
    async with Services(home, database_url=database_url, redis_url=redis_url, environment=given) as services:
        prepared = services.start("vlmhyperbench.local.supervisor.prepare")
        assert await asyncio.to_thread(prepared.wait, PATIENCE_S) == 0, services.log()
        for module, name in SERVICES.items():
            services.start(module, name=name)
        with Client(f"http://127.0.0.1:{port}", key) as client:

            def ended() -> Run | None:
                run = client.runs.get(run_id)
                return run if run.state in TERMINAL else None

            def submit() -> Run:
                return client.runs.create(RunEntry.model_validate(entry))

            run_id = (await asyncio.to_thread(until, submit, "an API", PATIENCE_S, services.log)).id
            run = await asyncio.to_thread(until, ended, "the end of the run", PATIENCE_S, services.log)
            assert (run.state, run.done) == ("SUCCEEDED", 20), services.log()
            assert client.report(run_id)


@pytest.mark.parametrize("content", [None, b"no certificate"], ids=["missing", "wrong"])
def test_an_authority_that_cannot_be_used_is_named(tmp_path: Path, database_url: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content)
    with pytest.raises(InvalidInput) as refused:
        settings_of(tmp_path, tmp_path / "ca.pem", {"database_url": database_url})
    assert refused.value.code == "ca_file"
    assert str(tmp_path / "ca.pem") in refused.value.message
