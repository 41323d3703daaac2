"""Small objects of S3 are read with one light request each; what does not come at once, and rightly, boto3 is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

import pytest

from tests.support.bucket import LoopbackBucket, serve_bucket
from vlmhyperbench.data.buckets import Bucket
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.data.small_objects import MAX_BYTES, SignedPattern, SmallObjects
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


def _signed_in_one_second(client: Any, key: str) -> tuple[SplitResult, SplitResult]:
    while True:  # the date is signed, too
        pattern = SignedPattern.of(_signed(client, "first"), "first", client)
        ours, theirs = pattern.url_of(key), _signed(client, key)
        assert ours is not None
        if pattern.date in theirs.query:
            return ours, theirs


def _signed(client: Any, key: str) -> SplitResult:
    return urlsplit(str(client.generate_presigned_url("get_object", Params={"Bucket": "store", "Key": key})))


@pytest.mark.parametrize("key", ["data/a b.bin", "data/ü/~(1)+&=%.bin", "data//x", "data/3.bin"])
@pytest.mark.parametrize("options", [{}, {"endpoint_url": "http://127.0.0.1:9000"}, {"aws_session_token": "a/b+c="}])
def test_a_url_is_signed_as_boto3_signs_it(key: str, options: dict[str, str]) -> None:
    keys = {"region_name": "us-east-1", "aws_access_key_id": "id", "aws_secret_access_key": "key"}
    client = connect({**keys, **options})
    ours, theirs = _signed_in_one_second(client, key)
    assert ours.path == theirs.path
    assert parse_qs(ours.query) == parse_qs(theirs.query)


def test_a_url_that_is_signed_in_another_way_is_left_to_boto3() -> None:
    client = connect({"region_name": "us-east-1", "aws_access_key_id": "id", "aws_secret_access_key": "key"})
    url = _signed(client, "first")
    assert SignedPattern.of(url._replace(query=url.query + "0"), "first", client).url_of("second") is None
    assert SignedPattern.of(url, "other", client).url_of("second") is None


def test_a_proxy_is_left_to_boto3(bucket: LoopbackBucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    objects, etag, size = listed(bucket, "3.bin")
    assert objects.read("store", "data/3.bin", etag=etag, size_bytes=size) is None
