"""`slurm`: what cannot work on the nodes is refused before a file is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from vlmhyperbench.cli.join_tokens import create
from vlmhyperbench.cli.slurm import slurm
from vlmhyperbench.errors import InvalidInput

SERVER = "https://host:8770"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(mode=0o600)
    return path


def test_a_batch_without_a_mistake_is_written(tmp_path: Path, token_file: Path) -> None:
    out = tmp_path / "out"
    assert slurm(server=SERVER, token_file=token_file, time="2-12:00:00", out=out) == 0
    assert f"--server {SERVER}" in out.read_text()


@pytest.mark.parametrize("time", ["soon", "1:99:00", "1:60", "-1", ""])
def test_a_time_that_slurm_does_not_know_is_refused(time: str, tmp_path: Path, token_file: Path) -> None:
    with pytest.raises(InvalidInput, match="--time"):
        slurm(server=SERVER, token_file=token_file, time=time, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("server", ["http://host:8770", "host:8770", "https://", "ftp://host"])
def test_a_server_to_which_no_token_may_be_sent_is_refused(server: str, tmp_path: Path, token_file: Path) -> None:
    with pytest.raises(InvalidInput):
        slurm(server=server, token_file=token_file, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["ca_file", "sif"])
def test_a_file_that_is_missing_is_refused(option: str, tmp_path: Path, token_file: Path) -> None:
    given = {option: tmp_path / "missing"}
    with pytest.raises(InvalidInput, match=str(tmp_path / "missing")):
        slurm(server=SERVER, token_file=token_file, out=tmp_path / "out", **given)  # type: ignore[arg-type] # by name


def test_a_storage_that_no_container_would_see_is_refused(tmp_path: Path, token_file: Path) -> None:
    with pytest.raises(InvalidInput, match="--sif"):
        slurm(server=SERVER, token_file=token_file, storage=tmp_path, out=tmp_path / "out")


@pytest.mark.parametrize("text", ["31d", "0s", "2", "1w"])
def test_a_token_lives_for_a_second_to_thirty_days(text: str) -> None:
    with pytest.raises(InvalidInput, match="--expires-in"):
        create(expires_in=text)
