"""Rented machines, as far as none is needed: where paths lie there, how files arrive, which programs must be here."""

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from vlmhyperbench.environments.rented_files import send_files
from vlmhyperbench.environments.rented_records import RentedRecord, record_file
from vlmhyperbench.environments.rented_run import moved
from vlmhyperbench.environments.ssh import Machine, programs
from vlmhyperbench.errors import Unavailable

MACHINE = Machine(
    name="m",
    host="192.0.2.1",
    port=2222,
    user="someone",
    key="/keys/key",
    proxy=None,
    region="CA",
    instance_type="1x_L4",
    hourly_cost_usd=0.43,
    home="/home/someone",
)
HASH = hashlib.sha256(b"weights").hexdigest()
SSH = """\
#!/bin/sh
# The way to a machine that is this one: the options are dropped, and the command runs here.
while :; do
    case "$1" in
        -F | -o | -p | -l) shift 2 ;;
        -T) shift ;;
        *) break ;;
    esac
done
shift
[ "$1" = -- ] && shift
exec sh -c "$*"
"""
SENT = ["/models/a/config.json", "/models/a/model.safetensors", "/lib/adapter"]
THERE = "/home/someone/vlmhyperbench/files"


@pytest.mark.parametrize(
    ("word", "there"),
    [
        ("/models/a/model.safetensors", f"{THERE}/models/a/model.safetensors"),
        ("/models/a", f"{THERE}/models/a"),
        ("/models/a/", f"{THERE}/models/a/"),
        ("/lib/adapter/shim/__main__.py", f"{THERE}/lib/adapter/shim/__main__.py"),
        ("--model=/models/a", f"--model={THERE}/models/a"),
        ("/models/ab", "/models/ab"),
        ("/models/a/other.json", "/models/a/other.json"),
        ("/home/someone/vlmhyperbench/environment/bin/python", "/home/someone/vlmhyperbench/environment/bin/python"),
        ("/", "/"),
        ("--port", "--port"),
        ('{"limit": 1}', '{"limit": 1}'),
    ],
)
def test_paths_of_sent_files_and_of_their_folders_are_those_on_the_machine(word, there):
    assert moved(word, SENT, MACHINE) == there


def test_a_command_is_quoted_for_the_shell_of_the_machine_and_the_users_configuration_is_not_read(tmp_path):
    argv = MACHINE.ssh(tmp_path / "hosts", ["echo", "a b; c"], tunnel=8123)
    assert argv[-1] == "echo 'a b; c'"
    assert argv[argv.index("-F") + 1] == "none"
    assert argv[argv.index("-L") + 1] == "127.0.0.1:8123:127.0.0.1:8123"
    assert f"UserKnownHostsFile={tmp_path / 'hosts'}" in argv


def test_without_ssh_or_rsync_the_error_says_what_to_install(tmp_path, monkeypatch, wording):
    (tmp_path / "ssh").touch(mode=0o700)
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    with pytest.raises(Unavailable) as refused:
        programs()
    assert refused.value.code == "not_installed"
    wording(refused.value)


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def record(tmp_path, monkeypatch):
    """The record of a machine that real rsync reaches, over a way that leads back to this one."""
    if shutil.which("rsync") is None:
        pytest.skip("files are sent by rsync, which is not installed")
    programs_folder, home = tmp_path / "bin", tmp_path / "there"
    for folder in (programs_folder, home, tmp_path / "machines"):
        folder.mkdir()
    (programs_folder / "ssh").write_text(SSH)
    (programs_folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs_folder}:{os.environ['PATH']}")
    machine = replace(MACHINE, home=str(home))
    file = record_file(tmp_path, "m")
    folders = {"logs": tmp_path / "logs", "secrets_dir": tmp_path / "secrets", "home": tmp_path}
    written = RentedRecord(file=file, cloud="runpod", machine=machine, **folders)
    written.write()
    return written


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "a.gguf").write_bytes(b"weights")
    (folder / "b c.json").write_bytes(b"{}")
    return folder


def arrived(record, path):
    """Return where a file lies on the machine."""
    return Path(f"{record.rented.home}/vlmhyperbench/files{path}")


@pytest.mark.anyio
async def test_files_arrive_once_with_their_bytes_told(record, model):
    told = []

    async def sent(done, total):
        told.append((done, total))

    weights = str(model / "a.gguf")
    await send_files(record.file, [weights], known={weights: HASH}, sent=sent)
    assert told == [(0, 7), (7, 7)]
    assert RentedRecord.read(record.file).sent == (weights,)
    assert arrived(record, weights).read_bytes() == b"weights"
    await send_files(record.file, [weights, str(model)], sent=sent)
    assert told[2:] == [(0, 9), (9, 9)], "only the folder was missing"
    await send_files(record.file, [weights, str(model)], sent=sent)
    assert len(told) == 4
    assert arrived(record, model / "b c.json").read_bytes() == b"{}"
    assert not list(record.file.parent.glob("*.sums"))


@pytest.mark.anyio
async def test_a_file_that_is_another_there_is_refused_and_not_noted(record, model, wording):
    weights = str(model / "a.gguf")
    with pytest.raises(Unavailable) as refused:
        await send_files(record.file, [weights], known={weights: "0" * 64})
    assert refused.value.code == "transfer_failed"
    assert f"{arrived(record, weights)}: FAILED" in refused.value.message
    wording(refused.value.message.splitlines()[0])
    wording(refused.value.cure)
    assert RentedRecord.read(record.file).sent == ()
