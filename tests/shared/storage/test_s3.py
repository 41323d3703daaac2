"""The storage in a bucket of a real S3 server: the same door, whatever the server does to a request."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bucket import KEY, LoopbackBucket, serve_bucket
from tests.support.wording import Wording
from vlmhyperbench.addresses import S3Access
from vlmhyperbench.errors import Conflict, Damaged, VlmHyperBenchError
from vlmhyperbench.local.certificates import Certificates
from vlmhyperbench.storage import Storage, StorageLocation, open_storage
from vlmhyperbench.storage.s3 import PART_BYTES, S3Store

pytestmark = pytest.mark.anyio

LARGE = os.urandom(2 * PART_BYTES + 12_345)


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackBucket]:
    with serve_bucket(tmp_path_factory.mktemp("s3"), is_watched=False) as served:
        served.put("store", {})
        yield served


@pytest.fixture
def storage(bucket: LoopbackBucket, tmp_path: Path) -> Storage:
    """A storage with an empty cache, below a prefix of the test's own."""
    return at(bucket, f"s3://store/{tmp_path.name}", tmp_path)


def at(bucket: LoopbackBucket, url: str, folder: Path, **changed: str) -> Storage:
    return open_storage(StorageLocation(url=url, s3=bucket.access(**changed), cache_folder=folder / "cache"))


def refusal_of(storage: Storage) -> VlmHyperBenchError:
    with pytest.raises(VlmHyperBenchError) as refused:
        storage.check()
    assert KEY not in str(refused.value)
    return refused.value


@pytest.mark.parametrize("content", [b"", b"content", LARGE], ids=["empty", "small", "large"])
async def test_what_was_stored_is_opened_by_key_and_hash(storage: Storage, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    stored = storage.put("runs/a/chunk", tmp_path / "file")
    assert (stored.sha256, stored.size_bytes) == (hashlib.sha256(content).hexdigest(), len(content))
    assert (await storage.open(stored.key, stored.sha256)).read_bytes() == content
    assert await storage.exists("runs/a/chunk")
    assert not await storage.exists("runs/a")


async def test_the_same_content_is_stored_twice_and_another_is_refused(storage: Storage) -> None:
    stored = storage.put("file", LARGE)
    assert storage.put("file", LARGE) == stored
    with pytest.raises(Conflict):
        storage.put("file", LARGE[::-1])
    assert (await storage.open("file", stored.sha256)).read_bytes() == LARGE


async def test_a_file_that_was_read_is_not_asked_for_again(bucket: LoopbackBucket, storage: Storage) -> None:
    stored = storage.put("file", LARGE)
    path = await storage.open("file", stored.sha256)
    sent = bucket.sent
    assert await storage.open("file", stored.sha256) == path
    assert bucket.sent == sent


async def test_a_missing_or_damaged_object_is_refused_with_both_hashes(
    bucket: LoopbackBucket, storage: Storage, tmp_path: Path
) -> None:
    stored = storage.put("file", b"a whole file")
    (bucket.root / "store" / tmp_path.name / "file").write_bytes(b"a whole fil_")
    with pytest.raises(Damaged) as refused:
        await storage.open("file", stored.sha256)
    assert (refused.value.expected, refused.value.found) == (
        stored.sha256,
        hashlib.sha256(b"a whole fil_").hexdigest(),
    )
    with pytest.raises(Damaged) as refused:
        await storage.open("absent", stored.sha256)
    assert refused.value.found is None


async def test_a_download_that_is_cut_arrives_whole(bucket: LoopbackBucket, storage: Storage) -> None:
    stored = storage.put("file", LARGE)
    bucket.cut_after = bucket.sent + PART_BYTES // 2
    assert (await storage.open("file", stored.sha256)).read_bytes() == LARGE
    assert bucket.cut_after is None


async def test_an_upload_that_is_cut_arrives_whole(bucket: LoopbackBucket, storage: Storage) -> None:
    bucket.cut_upload_after = bucket.received + PART_BYTES // 2
    stored = storage.put("file", LARGE)
    assert bucket.cut_upload_after is None
    assert (await storage.open("file", stored.sha256)).read_bytes() == LARGE


async def test_a_server_with_tls_is_reached_by_the_authority_of_the_settings_and_by_no_other(tmp_path: Path) -> None:
    certificates, others = Certificates(tmp_path / "tls"), Certificates(tmp_path / "others")
    for made in (certificates, others):
        made.prepare({"127.0.0.1"})
    with serve_bucket(tmp_path / "s3", certificates=certificates) as bucket:
        bucket.put("store", {})
        storage = at(bucket, "s3://store/x", tmp_path, ca_file=str(certificates.ca_file))
        storage.check()
        stored = storage.put("file", LARGE)
        assert (await storage.open("file", stored.sha256)).read_bytes() == LARGE
        for untrusting in ({}, {"ca_file": str(others.ca_file)}):
            refused = refusal_of(at(bucket, "s3://store/x", tmp_path, **untrusting))
            assert refused.code == "s3_endpoint"
            assert "VLMHB_STORAGE_S3__CA_FILE" in str(refused)


async def test_requests_that_are_refused_half_of_the_time_are_sent_again(
    bucket: LoopbackBucket, storage: Storage
) -> None:
    bucket.refuses_every = 2
    try:
        for number in range(6):
            stored = storage.put(f"file-{number}", b"%d" % number)
            assert (await storage.open(stored.key, stored.sha256)).read_bytes() == b"%d" % number
    finally:
        bucket.refuses_every = None
    assert bucket.refused > 6


async def test_no_number_of_refused_requests_ends_the_tries_of_later_ones(
    bucket: LoopbackBucket, storage: Storage
) -> None:
    bucket.refuses_every = 2
    try:
        stored = [storage.put(f"file-{number}", b"%d" % number) for number in range(60)]
    finally:
        bucket.refuses_every = None
    assert len({file.sha256 for file in stored}) == 60


async def test_what_a_child_staged_is_stored_when_it_has_ended(storage: Storage, tmp_path: Path) -> None:
    async with storage.staged(tmp_path / "work") as url:
        staged = open_storage(url)
        stored = [staged.put(f"images/{number}", b"%d" % number) for number in range(20)]
        assert not await storage.exists("images/0")
    for file in stored:
        assert await storage.open(file.key, file.sha256)
    assert list((tmp_path / "work").iterdir()) == []


def test_a_bucket_that_may_be_used_is_found_so(bucket: LoopbackBucket, storage: Storage) -> None:
    storage.check()
    storage.check()


@pytest.mark.parametrize(
    ("url", "changed", "code"),
    [
        ("s3://absent/x", {}, "s3_no_bucket"),
        ("s3://store/x", {"secret_access_key": "wrong" * 8}, "s3_denied"),
        ("s3://store/x", {"endpoint_url": "http://127.0.0.1:9"}, "s3_unreachable"),
        ("s3://store/x", {"endpoint_url": "https://127.0.0.1:9"}, "s3_unreachable"),
    ],
    ids=["no bucket", "wrong key", "nobody there", "no TLS there"],
)
def test_a_wrong_setting_is_named(
    bucket: LoopbackBucket, tmp_path: Path, url: str, changed: dict[str, str], code: str, wording: Wording
) -> None:
    error = refusal_of(at(bucket, url, tmp_path, **changed))
    assert error.code == code
    wording(error)


@pytest.mark.parametrize("url", ["s3://", "s3://B", "s3://bucket/../x", "s3://bucket//x", "s3://bucket/x?y"])
def test_an_address_without_a_bucket_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(VlmHyperBenchError) as refused:
        open_storage(StorageLocation(url=url, cache_folder=tmp_path))
    assert refused.value.code == "s3_url"


def test_an_endpoint_that_is_no_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VlmHyperBenchError) as refused:
        S3Store("s3://bucket", S3Access(endpoint_url="nowhere"))
    assert refused.value.code == "s3_endpoint"
