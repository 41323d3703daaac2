"""Rented machines, as far as none is needed: where paths lie there, and which programs this machine needs."""

import os

import pytest

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
