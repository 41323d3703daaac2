from __future__ import annotations

import stat
from pathlib import Path

import pytest

from vlmhyperbench import settings as module
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.settings import Settings


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("VLMHB_HOME", "VLMHB_RUN_MODE", "RUN_MODE", "VLMHB_DATABASE_URL", "VLMHB_REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))


def test_the_default_home_is_the_xdg_data_folder(tmp_path: Path) -> None:
    settings = Settings.load()
    assert settings.home == tmp_path / "xdg" / "vlmhyperbench"
    assert settings.storage_url == str(settings.home / "storage")
    assert settings.secrets_dir == settings.home / "secrets"
    assert settings.api_url == "http://127.0.0.1:8760"


def test_the_environment_wins_over_the_stored_file_and_the_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = module.store(
        tmp_path, {"database_url": "postgresql+psycopg:///stored", "redis_url": "redis://stored", "api_port": 9000}
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    monkeypatch.setenv("VLMHB_HOME", str(tmp_path))
    monkeypatch.setenv("VLMHB_DATABASE_URL", "postgresql+psycopg:///given")
    settings = Settings.load()
    assert settings.database_url.get_secret_value() == "postgresql+psycopg:///given"
    assert settings.redis_url.get_secret_value() == "redis://stored"
    assert settings.api_port == 9000


def test_the_stored_file_is_that_of_the_given_home(tmp_path: Path) -> None:
    module.store(tmp_path, {"api_port": 9001})
    assert Settings(home=tmp_path).api_port == 9001


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    module.store(tmp_path, {"database_url": "postgresql://u:hunter2@/x"})
    assert "hunter2" not in repr(Settings(home=tmp_path))


def test_nested_timers_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLMHB_TIMERS__LEASE_S", "40")
    assert Settings.load().timers.lease_s == 40.0


def test_the_run_mode_can_also_be_set_by_its_old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUN_MODE", "dev")
    assert Settings.load().run_mode == "dev"
    monkeypatch.setenv("VLMHB_RUN_MODE", "prod")
    assert Settings.load().run_mode == "prod"


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLMHB_API_PORT", "eighty")
    monkeypatch.setenv("VLMHB_TIMERS__LEASE_S", "1")
    with pytest.raises(InvalidInput, match=r"VLMHB_API_PORT.*VLMHB_TIMERS"):
        Settings.load()


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_stored_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text(content)
    with pytest.raises(InvalidInput, match=r"settings\.json"):
        Settings(home=tmp_path)


def test_an_unknown_stored_setting_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module.store(tmp_path, {"databse_url": "x"})
    monkeypatch.setenv("VLMHB_HOME", str(tmp_path))
    with pytest.raises(InvalidInput, match="DATABSE_URL"):
        Settings.load()


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("DATABASE_URL", "mysql://user:hunter2@host/db", "invalid_input"),
        ("DATABASE_URL", "postgresql://user:hunter2@host:x/db", "invalid_input"),
        ("DATABASE_URL", "postgresql://user:hunter2@host/db?sslmode=full", "invalid_input"),
        ("DATABASE_URL", "postgresql://user:hunter2@host/db?sslmode=verify-full&sslrootcert=/absent", "ca_file"),
        ("REDIS_URL", "http://:hunter2@host", "invalid_input"),
        ("REDIS_URL", "rediss://:hunter2@host?ssl_ca_certs=/absent", "ca_file"),
    ],
)
def test_an_address_that_cannot_be_right_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, code: str
) -> None:
    monkeypatch.setenv(f"VLMHB_{name}", value)
    with pytest.raises(InvalidInput) as refused:
        Settings.load()
    assert (refused.value.code, "hunter2" in str(refused.value)) == (code, False)
    assert f"VLMHB_{name}" in refused.value.message
    assert refused.value.cure


def test_addresses_trust_the_authority_of_the_settings_unless_they_name_their_own(tmp_path: Path) -> None:
    own, other = tmp_path / "own.pem", tmp_path / "other.pem"
    for file in (own, other):
        file.write_text("-----BEGIN CERTIFICATE-----")
    settings = Settings.model_validate(
        {
            "home": tmp_path,
            "tls_ca_file": own,
            "database_url": "postgres://u:p@host/db?sslmode=verify-full",
            "redis_url": f"rediss://:p@host/0?ssl_ca_certs={other}",
            "worker_redis_url": "rediss://:p@host/0",
        }
    )
    assert settings.database_url.get_secret_value() == (
        f"postgresql+psycopg://u:p@host/db?sslmode=verify-full&sslrootcert={own}"
    )
    assert f"ssl_ca_certs={other}" in settings.redis_url.get_secret_value()
    assert str(own) not in settings.worker_redis_url.get_secret_value()


def test_a_certificate_of_the_api_needs_its_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VLMHB_API_TLS_CERT", str(tmp_path / "server.pem"))
    with pytest.raises(InvalidInput):
        Settings.load()


def test_the_keys_of_a_bucket_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLMHB_STORAGE_S3__SECRET_ACCESS_KEY", "hunter2")
    settings = Settings.load()
    assert settings.storage_s3.revealed() == {"secret_access_key": "hunter2"}
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("url", ["ftp://host/folder", "file://host/folder", "folder", "s3://"])
def test_a_storage_that_cannot_be_is_refused_by_the_name_of_its_setting(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLMHB_STORAGE_URL", url)
    with pytest.raises(InvalidInput, match="VLMHB_STORAGE_URL"):
        Settings.load()


def test_a_relative_home_is_that_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VLMHB_HOME", "here")
    assert Settings.load().storage_url == str(tmp_path / "here" / "storage")
