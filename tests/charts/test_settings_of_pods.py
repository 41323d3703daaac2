"""What the chart gives to pods is what services read: their settings, their secrets, the database of the migrations."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from tests.charts.rendering import ROOT, VALUES, Manifest, containers, environment, pods, render
from tests.support.bucket import KEY, SECRET, serve_bucket
from vlmhyperbench.db import tiers
from vlmhyperbench.db.engine import Database
from vlmhyperbench.domain.api_keys import hmac_of
from vlmhyperbench.secret_files import read_secret
from vlmhyperbench.settings import Settings

SECRETS = {
    "postgres": {
        "url": "postgresql://owner:one@postgres.example/bench",
        "replica-url": "postgresql://owner:one@replica.example/bench",
        "worker-url": "postgresql://worker:two@postgres.example/bench",
    },
    "redis": {"url": "redis://:three@redis.example:6379/0"},
    "s3": {"access-key-id": KEY, "secret-access-key": SECRET},
    "keys": {"pepper": "four", "api-key": f"chart_{'k' * 43}", "metrics-key": f"metrics_{'m' * 43}"},
}
READ_ELSEWHERE = {"VLMHB_LOG_LEVEL", "VLMHB_LOG_FORM", "VLMHB_METRICS_PORT"}
"""Variables that a service reads beside its settings: at its start, before these are loaded."""


def _variables() -> Iterator[str]:
    """Yield every variable that sets a setting, those of its fields included."""
    for name, field in Settings.model_fields.items():
        yield f"VLMHB_{name.upper()}"
        for inner in getattr(field.annotation, "model_fields", ()):
            yield f"VLMHB_{name.upper()}__{inner.upper()}"


@pytest.mark.parametrize("values", VALUES)
def test_every_variable_of_a_pod_is_one_that_its_service_reads(values: str) -> None:
    given = {
        variable["name"]
        for _, pod in pods(render(values))
        for container in containers(pod)
        for variable in container.get("env", [])
        if variable["name"].startswith("VLMHB_")
    }
    assert len(given) > 8
    assert given - set(_variables()) - READ_ELSEWHERE == set()


@pytest.mark.parametrize(
    ("values", "sets", "unfit_s"),
    [
        ("cpu", [], None),
        ("gpu", [], "1800"),
        ("gpu", ["settings.VLMHB_TIMERS__UNFIT_S=7200"], "7200"),
    ],
    ids=["no pool scales", "one does", "stated"],
)
def test_a_job_waits_for_a_pool_that_scales(values: str, sets: list[str], unfit_s: str | None) -> None:
    [container] = [
        container for name, pod in pods(render(values, *sets)) if "scheduler" in name for container in containers(pod)
    ]
    given = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert given.get("VLMHB_TIMERS__UNFIT_S") == unfit_s


@pytest.mark.parametrize("values", VALUES)
def test_no_variable_is_given_twice(values: str) -> None:
    for name, pod in pods(render(values)):
        for container in containers(pod):
            names = [variable["name"] for variable in container.get("env", [])]
            assert len(names) == len(set(names)), name


def _loaded(values: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Settings]:
    """Return the settings of every container of the chart, as its process loads them."""
    loaded = {}
    for name, pod in pods(render(values)):
        for container in pod["spec"]["containers"]:
            with monkeypatch.context() as patched:
                for variable in [name for name in os.environ if name.startswith("VLMHB_")]:
                    patched.delenv(variable)
                for variable, value in environment(container, SECRETS, f"{name}-0").items():
                    file = folder / Path(value).name
                    if value.startswith("/etc/vlmhyperbench/"):
                        file.write_text("-----BEGIN CERTIFICATE-----\n")
                        value = str(file)
                    patched.setenv(variable, value)
                loaded[name.removeprefix("demo-vlmhyperbench-")] = Settings.load()
    return loaded


def test_services_load_what_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = _loaded("gpu", tmp_path, monkeypatch)
    assert set(loaded) == {
        *("api", "scheduler", "migrations", "eval-worker", "reporter"),
        *("inference-h100", "inference-gang", "inference-slices"),
    }
    users = {name: make_url(item.database_url.get_secret_value()).username for name, item in loaded.items()}
    assert {name for name, user in users.items() if user == "owner"} == {"api", "scheduler", "migrations", "reporter"}
    assert set(users.values()) == {"owner", "worker"}
    assert {name for name, item in loaded.items() if item.key_pepper.get_secret_value()} == {
        *("api", "scheduler", "migrations")
    }
    replicas = {name: item.database_replica_url.get_secret_value() for name, item in loaded.items()}
    assert {name for name, url in replicas.items() if url} == {"api"}
    assert "@replica.example/" in replicas["api"]
    assert {item.storage_url for item in loaded.values()} == {"s3://results/stack"}
    assert {item.storage_s3.secret_access_key.get_secret_value() for item in loaded.values()} == {SECRET}
    assert {item.timers.lease_s for item in loaded.values()} == {60}
    assert loaded["inference-h100"].worker_name == "demo-vlmhyperbench-inference-h100-0"
    assert loaded["inference-h100"].models_max_bytes == 2**40
    assert (loaded["api"].api_host, loaded["api"].api_port) == ("0.0.0.0", 8760)
    assert loaded["api"].worker_database_url.get_secret_value().startswith("postgresql+psycopg://worker:two@")


def _init_container() -> Manifest:
    [pod] = [pod for name, pod in pods(render("gpu")) if name.endswith("inference-h100")]
    return pod["spec"]["initContainers"][0]


def test_secrets_of_the_cluster_become_files_that_are_their_owner_s_own(tmp_path: Path) -> None:
    """A volume of a Secret has links to files that a group may read, which workers refuse."""
    mounted, own = tmp_path / "mounted", tmp_path / "own"
    (mounted / "..data").mkdir(parents=True)
    own.mkdir()
    (mounted / "..data" / "HF_TOKEN").write_text("hf_word")
    (mounted / "..data" / "HF_TOKEN").chmod(0o440)
    (mounted / "HF_TOKEN").symlink_to("..data/HF_TOKEN")
    python, *options, source, target = _init_container()["command"]
    assert (python, source, target) == ("python", "/etc/vlmhyperbench/secrets", "/run/vlmhyperbench/secrets")
    for _ in range(2):  # as after a restart of the pod
        subprocess.run([sys.executable, *options, str(mounted), str(own)], check=True)
        assert read_secret(own, "HF_TOKEN") == "hf_word"
    assert [path.name for path in own.iterdir()] == ["HF_TOKEN"]


def test_the_migrations_make_the_tables_the_account_of_workers_and_the_key(
    empty_database_url: str, valkey_server: object, tmp_path: Path
) -> None:
    url = make_url(empty_database_url)
    role = f"worker_{os.getpid()}"
    worker_url = url.set(username=role, password="two").render_as_string(hide_password=False)
    [pod] = [pod for name, pod in pods(render("gpu")) if name.endswith("-migrations")]
    [container] = pod["spec"]["containers"]
    [keys] = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "keys"]
    [items] = [volume["secret"]["items"] for volume in pod["spec"]["volumes"] if volume["name"] == "keys"]
    with serve_bucket(tmp_path / "s3", is_watched=False) as bucket:
        bucket.put("results", {})
        secrets = SECRETS | {"postgres": {"url": empty_database_url, "worker-url": worker_url}}
        given = environment(container, secrets, "migrations-0")
        home = tmp_path / "home"
        (home / "run").mkdir(parents=True)
        assert keys == f"{given['VLMHB_HOME']}/run"
        for item in items:
            (home / "run" / item["path"]).write_text(SECRETS["keys"][item["key"]])
        given |= {"VLMHB_HOME": str(home), "HOME": str(home), "VLMHB_STORAGE_S3__ENDPOINT_URL": bucket.url}
        for outside in ("VLMHB_TLS_CA_FILE", "VLMHB_STORAGE_S3__CA_FILE"):
            del given[outside]
        own = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
        assert container["command"][0] == "python"
        command = [sys.executable, *container["command"][1:]]
        for _ in range(2):  # as an upgrade runs it again
            done = subprocess.run(command, env=own | given, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert not re.search("two|four|secretsecret", done.stdout + done.stderr)
    with psycopg.connect(url.set(drivername="postgresql").render_as_string(hide_password=False)) as connection:
        try:
            stored = {row[0] for row in connection.execute("SELECT hmac_sha256 FROM api_key")}
            assert stored == {hmac_of(SECRETS["keys"][name], "four") for name in ("api-key", "metrics-key")}
            rights = "SELECT has_table_privilege(%s, 'job', 'INSERT'), has_table_privilege(%s, 'api_key', 'SELECT')"
            assert connection.execute(rights, (role, role)).fetchall() == [(True, False)]
            # Whoever may delete rows moves the data of ended runs between tiers.
            movers = {
                name.removeprefix("demo-vlmhyperbench-")
                for name, pod in pods(render("gpu"))
                if pod["metadata"]["labels"].get("vlmhyperbench/role") == "worker"
                and _may_move(environment(pod["spec"]["containers"][0], secrets, f"{name}-0")["VLMHB_DATABASE_URL"])
            }
            assert movers == {"reporter"}
        finally:
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())


def _may_move(url: str) -> bool:
    async def ask() -> bool:
        database = Database(url)
        try:
            async with database.transaction() as session:
                return await tiers.may_move(session)
        finally:
            await database.close()

    return asyncio.run(ask())
