"""What `vlmhyperbench compose` writes for a machine, and what it says of one that lacks something."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.nvml import fake_driver
from tests.support.processes import PATIENCE_S
from vlmhyperbench.deployment.compose_files import override, read_env_file, variables_in, with_profiles
from vlmhyperbench.deployment.secrets_of_stack import prepare_secrets
from vlmhyperbench.errors import Conflict, InvalidInput
from vlmhyperbench.settings import Settings
from vlmhyperbench.worker.devices import DeviceInfo
from vlmhyperbench.worker.shares import Share

GIB = 2**30


def gpu(no: int, *, is_declared: bool = False) -> DeviceInfo:
    return DeviceInfo(no=no, kind="gpu", uuid=f"GPU-{no}", name="H100", memory_bytes=80 * GIB, is_declared=is_declared)


SHARES = (
    Share(name="gpu-0", devices=(gpu(0),), cores=frozenset({0, 1})),
    Share(name="gpu-1", devices=(gpu(1), gpu(2)), cores=frozenset({2, 3})),
)


def test_every_share_of_gpus_is_a_service_with_its_own_devices_and_cores() -> None:
    services = yaml.safe_load(override(SHARES, 100 * GIB))["services"]
    assert list(services) == ["inference-gpu-0", "inference-gpu-1"]
    gang = services["inference-gpu-1"]
    (devices,) = gang["deploy"]["resources"]["reservations"]["devices"]
    assert devices["device_ids"] == ["GPU-1", "GPU-2"]
    assert gang["environment"]["VLMHB_DEVICES"] == "GPU-1,GPU-2"
    assert gang["environment"]["VLMHB_WORKER_NAME"] == "gpu-1"
    assert (gang["cpuset"], gang["profiles"]) == ("2,3", ["gpu"])
    assert gang["deploy"]["resources"]["limits"]["memory"] == "${VLMHB_INFERENCE_MEMORY:-40g}"
    assert gang["extends"]["file"] == "deploy/compose/inference.yaml"


def test_declared_devices_are_no_services() -> None:
    declared = Share(name="gpu", devices=(gpu(0, is_declared=True),))
    limits = {"memory": "${VLMHB_INFERENCE_MEMORY:-80g}"}
    assert yaml.safe_load(override([declared] * 2, 100 * GIB))["services"] == {
        "inference-cpu": {"deploy": {"resources": {"limits": limits}}}
    }
    assert with_profiles("", [declared]) == "COMPOSE_PROFILES=cpu\n"


def test_what_the_user_wrote_stays_and_the_profile_follows_the_machine(tmp_path: Path) -> None:
    written = "# a remark\nVLMHB_PORT=9000\nCOMPOSE_PROFILES=s3\n\n COMPOSE_PROFILES = cpu,tls\n#VLMHB_TAG=1\n"
    assert with_profiles(written, SHARES) == ("# a remark\nVLMHB_PORT=9000\n\nCOMPOSE_PROFILES=gpu,tls\n#VLMHB_TAG=1\n")
    assert variables_in(written) == {"VLMHB_PORT": "9000", "COMPOSE_PROFILES": "cpu,tls"}
    assert with_profiles("VLMHB_PORT=9000", SHARES) == "VLMHB_PORT=9000\nCOMPOSE_PROFILES=gpu\n"
    assert read_env_file(tmp_path / "missing") == ""
    (tmp_path / ".env").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput):
        read_env_file(tmp_path / ".env")


def test_more_gpus_than_before_divide_the_memory_anew(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    limits = []
    for gpus in (1, 2):
        (tmp_path / "driver").mkdir(exist_ok=True)
        driver = fake_driver(tmp_path / "driver", gpus=gpus)
        compose(tmp_path, LD_LIBRARY_PATH=str(driver.folder))
        services = yaml.safe_load((tmp_path / "compose.override.yaml").read_text())["services"]
        found = {service["deploy"]["resources"]["limits"]["memory"] for service in services.values()}
        limits += [int(limit.partition(":-")[2].removesuffix("g}")) for limit in found]
        assert len(services) == gpus
    one, two = limits
    assert two == max(2, one // 2)
    assert (tmp_path / ".env").read_text() == "COMPOSE_PROFILES=gpu\n"


def test_secrets_are_made_once_and_fit_each_other(tmp_path: Path) -> None:
    folder = tmp_path / ".compose"
    kept = os.umask(0o077)
    try:
        made = prepare_secrets(folder)
    finally:
        os.umask(kept)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir() if path.is_file()} == {0o444}
    values = {name: (folder / name).read_text().strip() for name in made}
    assert f":{values['postgres_password']}@postgres:5432/" in values["database_url"]
    assert values["worker_database_url"].startswith("postgresql+psycopg://vlmhyperbench_worker:")
    assert values["postgres_password"] not in values["worker_database_url"]
    redis = values["redis_url"].partition("://:")[2].partition("@")[0]
    assert f"requirepass {redis}\n" in values["valkey_conf"]
    assert "maxmemory-policy noeviction" in values["valkey_conf"]
    keys = json.loads(values["storage_s3"])
    assert values["s3_auth_key"] == f"{keys['access_key_id']},{keys['secret_access_key']}"
    assert prepare_secrets(folder) == []
    (folder / "database_url").unlink()
    assert prepare_secrets(folder) == ["database_url"]
    assert (folder / "database_url").read_text().strip() == values["database_url"]


def test_a_folder_of_secrets_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".compose").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Conflict):
        prepare_secrets(tmp_path / ".compose")


def test_files_in_the_folder_of_settings_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("VLMHB_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "vlmhb_redis_url").write_text("redis://:from-a-file@valkey:6379/0\n")
    (folder / "vlmhb_storage_s3").write_text('{"access_key_id": "id", "secret_access_key": "key"}\n')
    monkeypatch.setenv("VLMHB_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VLMHB_SETTINGS_DIR", str(folder))
    settings = Settings.load()
    assert settings.redis_url.get_secret_value() == "redis://:from-a-file@valkey:6379/0"
    assert settings.storage_s3.secret_access_key.get_secret_value() == "key"
    monkeypatch.setenv("VLMHB_REDIS_URL", "redis://:from-a-variable@valkey:6379/0")
    assert Settings.load().redis_url.get_secret_value() == "redis://:from-a-variable@valkey:6379/0"
    monkeypatch.setenv("VLMHB_SETTINGS_DIR", str(tmp_path / "missing"))
    assert Settings.load().storage_s3.access_key_id.get_secret_value() == ""


def test_a_file_of_settings_that_is_not_valid_is_named_without_its_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vlmhb_database_url").write_text("mysql://user:the-password@host/name")
    monkeypatch.setenv("VLMHB_SETTINGS_DIR", str(tmp_path))
    monkeypatch.delenv("VLMHB_DATABASE_URL", raising=False)
    with pytest.raises(InvalidInput) as refused:
        Settings.load()
    assert "VLMHB_DATABASE_URL" in str(refused.value)
    assert "the-password" not in str(refused.value)


def compose(folder: Path, *flags: str, **environment: str) -> tuple[int, dict[str, Any]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VLMHB_")}
    argv = [sys.executable, "-m", "vlmhyperbench.cli.main", "compose", str(folder), *flags, "--json"]
    done = subprocess.run(
        argv, check=False, capture_output=True, text=True, timeout=PATIENCE_S, env={**kept, **environment}
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}


@pytest.mark.parametrize("has_docker", [True, False], ids=["no-daemon", "no-docker"])
def test_a_machine_without_docker_and_with_a_taken_port_is_told_so(tmp_path: Path, has_docker: bool) -> None:
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    if has_docker:
        (programs / "docker").write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
        (programs / "docker").chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / ".env").write_text(
            f"VLMHB_PORT={port}\nVLMHB_GRAFANA_PORT={port}\nCOMPOSE_PROFILES=cpu,monitoring\nVLMHB_INFERENCE_MEMORY=9000g\n"
        )
        code, said = compose(tmp_path, "--check", PATH=str(programs))
    assert code == 3
    checks = {check["name"]: check for check in said["data"]["checks"]}
    assert {name: check["code"] for name, check in checks.items()} == {
        "docker": "no_docker",
        "compose": "no_compose",
        "port": "port",
        "port of Grafana": "port",
        "memory": "memory",
    }
    assert all(check["cure"] for check in checks.values())
    assert not (tmp_path / ".compose").exists()


def test_gpus_without_the_toolkit_are_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from vlmhyperbench.deployment.checks import check_machine

    docker = tmp_path / "docker"
    docker.write_text(
        "#!/bin/sh\ncase $1 in compose) echo 2.30.1 ;; info) echo '{\"runc\":{}} null' ;; *) echo 28 ;; esac\n"
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    checks = {check.name: check for check in check_machine(tmp_path, SHARES, {}, 2**30)}
    assert (checks["nvidia toolkit"].is_ok, checks["nvidia toolkit"].code) == (False, "no_toolkit")
    assert "nvidia-ctk" in checks["nvidia toolkit"].cure
    assert checks["compose"].is_ok


def test_a_gpu_that_does_not_exist_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text("services: {}\n")
    code, _ = compose(tmp_path, VLMHB_DEVICES="GPU-of-nobody", VLMHB_HOME=str(tmp_path / "home"))
    assert code not in (0, None)
    assert not (tmp_path / ".compose").exists()


def test_a_folder_without_compose_yaml_is_refused(tmp_path: Path) -> None:
    code, said = compose(tmp_path)
    assert code != 0
    assert "no_compose_file" in json.dumps(said)
