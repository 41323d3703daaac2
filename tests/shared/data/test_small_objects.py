"""Small objects of S3 are read with one light request each; what does not come at once, and rightly, boto3 is asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bucket import LoopbackBucket, serve_bucket
from vlmhyperbench.data.buckets import Bucket
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.data.small_objects import MAX_BYTES, SmallObjects
from vlmhyperbench.storage.s3_client import connect

FILES = {f"{number}.bin": bytes([number]) * (1000 + number) for number in range(12)}


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[LoopbackBucket]:
    with serve_bucket(tmp_path / "s3") as served:
        served.put("store/data", FILES)
        yield served


def fetch(bucket: LoopbackBucket, folder: Path) -> dict[str, bytes]:
    source = Bucket(bucket.options())
    repository = source.look_up("s3://store/data", "")
    arrival = Arrival()
    ModelCache(folder, max_bytes=2**30).fetch(source, repository, list(FILES), arrival)
    assert arrival.done == arrival.total == sum(map(len, FILES.values()))
    (home,) = [path for path in folder.glob("*/*") if path.is_dir()]
    return {path.name: path.read_bytes() for path in home.iterdir()}


def listed(bucket: LoopbackBucket, name: str) -> tuple[SmallObjects, str, int]:
    client = connect(bucket.options())
    head = client.head_object(Bucket="store", Key=f"data/{name}")
    return SmallObjects(client), str(head["ETag"]), int(head["ContentLength"])


def test_every_object_arrives_also_where_half_of_the_requests_are_refused(
    bucket: LoopbackBucket, tmp_path: Path
) -> None:
    assert fetch(bucket, tmp_path / "plain") == FILES
    bucket.refuses_every = 2
    assert fetch(bucket, tmp_path / "refused") == FILES
    assert bucket.refused > 5


def test_what_is_not_the_listed_object_or_not_whole_is_left_to_boto3(bucket: LoopbackBucket) -> None:
    objects, etag, size = listed(bucket, "3.bin")
    assert objects.read("store", "data/3.bin", etag=etag, size_bytes=size) == FILES["3.bin"]
    assert objects.read("store", "data/3.bin", etag=etag.strip('"'), size_bytes=size) == FILES["3.bin"]
    assert objects.read("store", "data/3.bin", etag='"another"', size_bytes=size) is None
    assert objects.read("store", "data/3.bin", etag=etag, size_bytes=size + 1) is None
    assert objects.read("store", "data/absent", etag=etag, size_bytes=size) is None
    assert objects.read("store", "data/3.bin", etag=etag, size_bytes=MAX_BYTES + 1) is None
    bucket.cut_after = bucket.sent + 100
    assert objects.read("store", "data/3.bin", etag=etag, size_bytes=size) is None
    assert bucket.cut_after is None


@pytest.mark.parametrize("name", ["a b.bin", "ü/~(1)+&=%.bin", "a%20b.bin", "deep/er/x"])
def test_an_object_of_any_name_is_read_or_left_to_boto3(bucket: LoopbackBucket, name: str) -> None:
    path = bucket.root / "store/data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(name.encode())
    objects, etag, size = listed(bucket, name)
    assert objects.read("store", f"data/{name}", etag=etag, size_bytes=size) in {name.encode(), None}


def test_where_the_library_is_not_installed_boto3_is_asked(
    bucket: LoopbackBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    objects, etag, size = listed(bucket, "3.bin")
    assert objects.read("store", "data/3.bin", etag=etag, size_bytes=size) is None


def test_a_proxy_is_left_to_boto3(bucket: LoopbackBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    objects, etag, size = listed(bucket, "3.bin")
    assert objects.read("store", "data/3.bin", etag=etag, size_bytes=size) is None
