"""A stack stays where its database says its files are, until its user names another place that can be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bucket import KEY, SECRET, serve_bucket
from vlmhyperbench.errors import Conflict, VlmHyperBenchError
from vlmhyperbench.local.supervisor import control
from vlmhyperbench.local.supervisor.home import Home
from vlmhyperbench.local.supervisor.storing import check_own, chosen_storage
from vlmhyperbench.settings import store

KEYS = {"access_key_id": "id", "secret_access_key": "secret"}


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLMHB_STORAGE_URL", raising=False)


def test_a_new_stack_stores_in_its_home(tmp_path: Path) -> None:
    assert chosen_storage(Home(tmp_path)) == {"storage_url": str(tmp_path / "storage")}


def test_a_stack_stays_in_its_bucket_with_its_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as environment:
        environment.setenv("VLMHB_STORAGE_URL", "s3://bucket/x")
        for name, value in KEYS.items():
            environment.setenv(f"VLMHB_STORAGE_S3__{name.upper()}", value)
        first = chosen_storage(Home(tmp_path))
    assert first == {"storage_url": "s3://bucket/x", "storage_s3": KEYS}
    store(tmp_path, first)
    assert chosen_storage(Home(tmp_path)) == first
    monkeypatch.setenv("VLMHB_STORAGE_S3__ACCESS_KEY_ID", "new")
    assert chosen_storage(Home(tmp_path)) == {**first, "storage_s3": {**KEYS, "access_key_id": "new"}}


def test_a_home_that_has_joined_another_stack_gets_none_of_its_own(tmp_path: Path) -> None:
    check_own(Home(tmp_path))
    store(tmp_path, {"api_port": 8760})
    check_own(Home(tmp_path))
    store(tmp_path, {"server_url": "https://10.0.0.5:8770"})
    with pytest.raises(Conflict) as refused:
        check_own(Home(tmp_path))
    assert refused.value.code == "joined_elsewhere"


@pytest.mark.parametrize(
    ("url", "secret", "code"),
    [
        ("s3://store/x", "another-secret-key-of-nobody", "s3_denied"),
        ("s3://absent/x", SECRET, "s3_no_bucket"),
        ("s3://", SECRET, "s3_url"),
    ],
)
def test_a_stack_with_a_bucket_that_it_cannot_use_starts_nothing_and_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, secret: str, code: str
) -> None:
    home, settings = Home(tmp_path / "home"), {"storage_url": str(tmp_path / "home" / "storage")}
    store(home.root, settings)
    with serve_bucket(tmp_path / "s3") as bucket:
        bucket.put("store", {})
        access = {"endpoint_url": bucket.url, "region": "us-east-1", "access_key_id": KEY, "secret_access_key": secret}
        monkeypatch.setenv("VLMHB_STORAGE_URL", url)
        for name, value in access.items():
            monkeypatch.setenv(f"VLMHB_STORAGE_S3__{name.upper()}", value)
        with pytest.raises(VlmHyperBenchError) as refused:
            control.up(home, host="127.0.0.1", port=0)
    assert (refused.value.code, secret in str(refused.value)) == (code, False)
    monkeypatch.delenv("VLMHB_STORAGE_URL")
    assert chosen_storage(home)["storage_url"] == settings["storage_url"]
    assert not list(home.logs.iterdir())
