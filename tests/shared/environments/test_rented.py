"""Rented machines, as far as none is needed: where paths lie there, how files arrive, which programs must be here."""

import hashlib
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.bucket import SECRET, serve_bucket
from tests.support.hub import TOKEN, serve_hub
from vlmhyperbench.data.buckets import Bucket
from vlmhyperbench.data.repositories import Hub
from vlmhyperbench.data.sending import urls_by_path
from vlmhyperbench.domain.cached_files import CachedFile
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.environments.rented_downloads import FETCH
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
RSYNC = """\
#!/bin/sh
# The real one, which notes what it is asked to send.
echo "$@" >> "$(dirname "$0")/sent"
exec {rsync} "$@"
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
    rsync = shutil.which("rsync")
    if rsync is None:
        pytest.skip("files are sent by rsync, which is not installed")
    programs_folder, home = tmp_path / "bin", tmp_path / "there"
    for folder in (programs_folder, home, tmp_path / "machines"):
        folder.mkdir()
    for name, text in (("ssh", SSH), ("rsync", RSYNC.format(rsync=rsync))):
        (programs_folder / name).write_text(text)
        (programs_folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs_folder}:{os.environ['PATH']}")
    machine = replace(MACHINE, home=str(home))
    python, fetch = Path(machine.python), Path(machine.sent(str(FETCH)))
    for file, target in ((python, sys.executable), (fetch, FETCH)):  # as packages and programs are installed there
        file.parent.mkdir(parents=True)
        file.symlink_to(target)
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


LARGE = os.urandom(3 * 2**20)


@pytest.fixture
def bucket(tmp_path):
    with serve_bucket(tmp_path / "s3") as served:
        served.put("models/reader", {"model.safetensors": LARGE, "config.json": b"{}"})
        yield served


@pytest.fixture
def pinned(tmp_path):
    """The files of a model here, and how they are pinned in a source: `pinned(repo)` returns files and paths."""
    contents = {"model.safetensors": LARGE, "config.json": b"{}"}
    folder = tmp_path / "cached"
    folder.mkdir()
    paths = {name: str(folder / name) for name in contents}

    def files_in(repo):
        for name, content in contents.items():
            Path(paths[name]).write_bytes(content)
        return [
            ModelFile(
                role=name,
                location=CachedFile(repo, "0" * 40, name).location,
                sha256=hashlib.sha256(content).hexdigest(),
            )
            for name, content in contents.items()
        ], paths

    return files_in


async def brought(record, files, paths, source):
    """Bring the files to the machine, and return those that were sent from here, and the log."""
    told = []

    async def sent(done, total):
        told.append((done, total))

    urls = urls_by_path(files, paths, lambda _: source)
    known = {paths[file.role]: file.sha256 for file in files}
    await send_files(record.file, known=known, urls=urls, sent=sent)
    assert set(RentedRecord.read(record.file).sent) == set(paths.values())
    assert told[-1] == (len(LARGE) + 2,) * 2
    for file in files:
        there = arrived(record, paths[file.role])
        assert hashlib.sha256(there.read_bytes()).hexdigest() == file.sha256
        assert not there.with_name(f"{there.name}.part").exists()
    asked = Path(shutil.which("rsync")).with_name("sent")
    asked = asked.read_text() if asked.exists() else ""
    log = "".join(file.read_text() for file in record.logs.glob("*.log"))
    assert not [url for url in urls.values() if url in log or url in asked]
    assert "Signature" not in log
    return {name for name, path in paths.items() if path in asked}, log


@pytest.mark.anyio
async def test_a_model_in_s3_is_downloaded_by_the_machine_without_a_secret(record, bucket, pinned):
    files, paths = pinned("s3://models/reader")
    source = Bucket(bucket.options())
    urls = urls_by_path(files, paths, lambda _: source)
    assert urls.keys() == set(paths.values())
    assert not [url for url in urls.values() if SECRET in url]
    bucket.cut_after = bucket.sent + 2**20  # the download goes on where the connection was cut
    assert (await brought(record, files, paths, source))[0] == set()
    assert bucket.cut_after is None
    assert len(LARGE) <= bucket.sent < len(LARGE) + 2**20


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "content", "why"),
    [
        ({}, bytes(len(LARGE)), "its hash"),
        ({}, LARGE[:-1], "HTTP 416"),
        ({"aws_secret_access_key": "wrong"}, LARGE, "HTTP 403"),
        ({"endpoint_url": "http://127.0.0.1:9"}, LARGE, "URLError"),
    ],
)
async def test_what_the_machine_cannot_download_is_sent(record, bucket, pinned, options, content, why):
    files, paths = pinned("s3://models/reader")
    bucket.put("models/reader", {"model.safetensors": content})
    sent, log = await brought(record, files, paths, Bucket(bucket.options(**options)))
    assert "model.safetensors" in sent
    assert f"model.safetensors cannot be downloaded there and is sent: {why}\n" in log


@pytest.mark.anyio
async def test_a_model_of_a_hub_is_downloaded_by_the_machine_without_a_token(record, pinned):
    with serve_hub() as hub:
        held = hub.hold("org/reader", {"model.safetensors": LARGE, "config.json": b"{}"}, is_gated=True)
        files, paths = pinned("org/reader")
        files = [file.model_copy(update={"location": file.location.replace("0" * 40, held.commit)}) for file in files]
        source = Hub(endpoint=hub.url, token=TOKEN)
        sent, _ = await brought(record, files, paths, source)
    assert sent == {"config.json"}, "the hub sends a small file itself, and only to who has a token"
    assert hub.downloads("cdn/org/reader/model.safetensors") == [""]


def test_where_nothing_may_be_fetched_no_url_is_made(bucket, pinned):
    files, paths = pinned("s3://models/reader")
    assert urls_by_path(files, paths, lambda _: Bucket(bucket.options(), is_offline=True)) == {}
    assert urls_by_path(*pinned("org/reader"), lambda _: Hub(endpoint="http://127.0.0.1:9", token=None)) == {}
