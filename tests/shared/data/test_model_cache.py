"""Models of a hub in the cache: fetched, verified, resumed, bounded, and never evicted while they are used."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.hub import TOKEN, LoopbackHub, serve_hub
from tests.support.wording import Wording
from vlmhyperbench.data.fetched import Fetched
from vlmhyperbench.data.fetching import fetch_missing
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.repositories import Arrival, Hub
from vlmhyperbench.data.weights import locate, verify
from vlmhyperbench.domain.cached_files import CachedFile
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.errors import Conflict, Denied, NotFound, Unavailable, VlmHyperBenchError

REPO = "org/model"
WEIGHTS = bytes(range(256)) * 4096
FILES = {"config.json": b'{"model_type": "idefics3"}', "model.safetensors": WEIGHTS, "README.md": b"# A model"}
NEEDED = ("config.json", "model.safetensors")


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with serve_hub() as served:
        served.hold(REPO, FILES)
        yield served


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "models", max_bytes=3 * len(WEIGHTS))


def fetch(hub: LoopbackHub, cache: ModelCache, repo: str = REPO, token: str | None = None) -> Fetched:
    client = Hub(endpoint=hub.url, token=token)
    return cache.fetch(client, client.look_up(repo, "main"), NEEDED, Arrival())


def files_of(fetched: Fetched) -> list[CachedFile]:
    return [CachedFile(fetched.repo, fetched.commit, name) for name in fetched.sha256]


def test_files_are_fetched_verified_and_recorded_with_commit_hashes_and_licence(
    hub: LoopbackHub, cache: ModelCache
) -> None:
    fetched = fetch(hub, cache)
    assert (fetched.commit, fetched.license) == (hub.repositories[REPO].commit, "apache-2.0")
    assert fetched.sha256 == {name: hashlib.sha256(FILES[name]).hexdigest() for name in NEEDED}
    for file in files_of(fetched):
        assert cache.path_of(file).read_bytes() == FILES[file.name]
    assert hub.downloads("README.md") == []
    assert cache.get(REPO, "main") == cache.get(REPO, fetched.commit) == fetched


def test_a_second_fetch_downloads_nothing(hub: LoopbackHub, cache: ModelCache) -> None:
    fetch(hub, cache)
    asked = len(hub.downloads("model.safetensors"))
    fetch(hub, cache)
    assert len(hub.downloads("model.safetensors")) == asked


def test_two_fetches_at_the_same_time_download_once(hub: LoopbackHub, cache: ModelCache) -> None:
    with ThreadPoolExecutor() as pool:
        first, second = (pool.submit(fetch, hub, cache) for _ in range(2))
        assert first.result().sha256 == second.result().sha256
    assert len([path for method, path, _ in hub.requests if method == "GET" and path.startswith("/cdn/")]) == 1


def test_a_cut_connection_is_resumed_where_it_was_cut_and_no_signed_url_is_printed(
    hub: LoopbackHub, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    large = WEIGHTS * 24
    hub.hold(REPO, {**FILES, "model.safetensors": large})
    hub.cut_after["model.safetensors"] = 15 * len(WEIGHTS)
    fetched = fetch(hub, ModelCache(tmp_path / "models", max_bytes=3 * len(large)))
    assert fetched.sha256["model.safetensors"] == hashlib.sha256(large).hexdigest()
    [first, resumed] = hub.downloads("model.safetensors")
    assert first == ""
    assert 0 < int(resumed.removeprefix("bytes=").rstrip("-")) <= 15 * len(WEIGHTS)
    assert "Signature" not in capfd.readouterr().err + caplog.text


@pytest.mark.parametrize(
    ("content", "code"), [(WEIGHTS[:-1] + b"\x00", "wrong_hash"), (WEIGHTS[:-7], "hub_unreachable")]
)
def test_a_file_that_is_not_the_listed_one_is_refused_and_not_kept(
    hub: LoopbackHub, cache: ModelCache, content: bytes, code: str
) -> None:
    hub.replaced["model.safetensors"] = content
    with pytest.raises(VlmHyperBenchError) as refused:
        fetch(hub, cache)
    assert refused.value.code == code
    assert cache.models() == []
    hub.replaced.clear()
    assert fetch(hub, cache).sha256["model.safetensors"] == hashlib.sha256(WEIGHTS).hexdigest()


def test_a_file_that_was_damaged_on_disk_is_fetched_again(hub: LoopbackHub, cache: ModelCache) -> None:
    fetched = fetch(hub, cache)
    file = CachedFile(REPO, fetched.commit, "model.safetensors")
    pinned = ModelFile(role=file.name, location=file.location, sha256=fetched.sha256[file.name])
    cache.path_of(file).write_bytes(WEIGHTS[:100])
    with pytest.raises(Conflict):
        verify(pinned, cache)
    fetch(hub, cache)
    assert verify(pinned, cache).read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("options", "token", "code"),
    [
        ({"is_gated": True}, None, "hub_denied"),
        ({"is_gated": True}, "hf_wrong", "hub_denied"),
        ({"is_private": True}, None, "hub_denied"),
        ({"is_private": True}, TOKEN, None),
        ({"is_gated": True}, TOKEN, None),
    ],
)
def test_a_gated_or_private_repository_names_the_token_and_where_it_is_set(
    hub: LoopbackHub,
    cache: ModelCache,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    wording: Wording,
    options: dict[str, bool],
    token: str | None,
    code: str | None,
) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    hub.hold("org/gated", FILES, **options)
    if code is None:
        assert fetch(hub, cache, "org/gated", token).sha256
        return
    with pytest.raises(Denied) as refused:
        fetch(hub, cache, "org/gated", token)
    assert refused.value.code == code
    assert token is None or token not in str(refused.value)
    wording(refused.value, HUB=hub.url)


def test_what_does_not_exist_is_not_found(hub: LoopbackHub, cache: ModelCache, wording: Wording) -> None:
    client = Hub(endpoint=hub.url, token=TOKEN)
    for repo, revision, code in (("org/no", "main", "hub_no_repository"), (REPO, "v9", "hub_no_revision")):
        with pytest.raises(NotFound) as missing:
            client.look_up(repo, revision)
        assert missing.value.code == code
        wording(missing.value)
    with pytest.raises(NotFound) as missing:
        cache.fetch(client, client.look_up(REPO, "main"), ["q4.gguf"], Arrival())
    assert missing.value.code == "hub_no_file"
    wording(missing.value)


def test_a_hub_that_fails_or_is_away_is_unavailable(hub: LoopbackHub, wording: Wording) -> None:
    hub.status = 503
    with pytest.raises(Unavailable) as failed:
        Hub(endpoint=hub.url).look_up(REPO, "main")
    wording(failed.value)
    with pytest.raises(Unavailable) as away:
        Hub(endpoint="http://127.0.0.1:9").look_up(REPO, "main")
    assert failed.value.code == away.value.code == "hub_unreachable"
    wording(away.value)


def test_offline_nothing_is_asked_and_what_is_fetched_is_used(
    hub: LoopbackHub, cache: ModelCache, wording: Wording
) -> None:
    fetched = fetch(hub, cache)
    asked, offline = len(hub.requests), Hub(endpoint=hub.url, is_offline=True)
    pinned = [
        ModelFile(role=file.name, location=file.location, sha256=fetched.sha256[file.name])
        for file in files_of(fetched)
    ]
    fetch_missing(pinned, cache, lambda _: offline)
    cache.remove(fetched)
    with pytest.raises(Unavailable) as refused:
        fetch_missing(pinned, cache, lambda _: offline)
    assert refused.value.code == "hub_offline"
    assert len(hub.requests) == asked
    wording(refused.value)


def test_a_file_that_is_not_fetched_is_named_with_the_command(cache: ModelCache, wording: Wording) -> None:
    with pytest.raises(NotFound) as missing:
        locate(f"hub:{REPO}@{'0' * 40}/config.json", cache)
    assert missing.value.code == "not_fetched"
    wording(missing.value)


def test_the_least_recently_used_model_is_evicted_but_none_that_is_in_use(
    hub: LoopbackHub, cache: ModelCache, wording: Wording, tmp_path: Path
) -> None:
    for no in range(2):
        hub.hold(f"org/m{no}", {**FILES, "config.json": b'{"no": %d}' % no})
    oldest, newer = fetch(hub, cache, "org/m0"), fetch(hub, cache, "org/m1")
    with cache.in_use(files_of(oldest)):  # it counts as used now, so the other one has to go
        fetch(hub, cache)
        assert [fetched.repo for fetched in cache.models()] == [REPO, "org/m0"]
        with cache.in_use(files_of(fetch(hub, cache))), pytest.raises(Conflict) as full:
            fetch(hub, cache, "org/m1")
    assert full.value.code == "no_room"
    wording(full.value)
    assert newer.repo == "org/m1"


def test_another_process_keeps_its_files_from_being_removed(
    hub: LoopbackHub, cache: ModelCache, tmp_path: Path
) -> None:
    fetched = fetch(hub, cache)
    program = (
        "import sys; from pathlib import Path; from vlmhyperbench.data.model_cache import ModelCache\n"
        "from vlmhyperbench.domain.cached_files import CachedFile\n"
        "with ModelCache(Path(sys.argv[1]), max_bytes=0).in_use([CachedFile(*sys.argv[2:], 'config.json')]):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "models"), REPO, fetched.commit]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Conflict) as refused:
            cache.remove(fetched)
        assert refused.value.code == "model_in_use"
        holder.communicate()
    cache.remove(fetched)
    assert cache.models() == []


def test_a_model_larger_than_the_bound_is_refused_before_anything_is_fetched(hub: LoopbackHub, tmp_path: Path) -> None:
    small = ModelCache(tmp_path / "small", max_bytes=1000)
    with pytest.raises(Conflict) as full:
        fetch(hub, small)
    assert full.value.code == "no_room"
    assert [path for _, path, _ in hub.requests if "/resolve/" in path or "/cdn/" in path] == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own of 64 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_without_room_is_refused_before_anything_is_fetched(hub: LoopbackHub, small_disk: Path) -> None:
    with pytest.raises(Conflict, match="are kept free") as full:
        fetch(hub, ModelCache(small_disk, max_bytes=2**40))
    assert full.value.code == "no_room"
    assert hub.downloads("model.safetensors") == []


def test_a_disk_that_fills_up_meanwhile_ends_the_fetch_and_what_has_arrived_is_not_taken_for_the_file(
    hub: LoopbackHub, small_disk: Path, wording: Wording
) -> None:
    large = WEIGHTS * 30
    hub.hold(REPO, {**FILES, "model.safetensors": large})
    cache = ModelCache(small_disk, max_bytes=2**40, spare_bytes=0)
    client, filler = Hub(endpoint=hub.url), small_disk / "filler"

    class Filling(Arrival):
        def expect(self, count: int) -> None:
            super().expect(count)
            filler.write_bytes(bytes(50 * 2**20))  # another process fills the disk after its room was checked

    with pytest.raises(Unavailable) as full:
        cache.fetch(client, client.look_up(REPO, "main"), NEEDED, Filling())
    assert full.value.code == "storage_full"
    wording(full.value, FOLDER=str(small_disk))
    assert cache.models() == []
    filler.unlink()
    assert fetch(hub, cache).sha256["model.safetensors"] == hashlib.sha256(large).hexdigest()
