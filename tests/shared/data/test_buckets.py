"""Models in S3, on a real server: listed, fetched in ranges, resumed, pinned by hash, and refused in plain words."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bucket import SECRET, LoopbackBucket, serve_bucket
from tests.support.wording import Wording
from vlmhyperbench.data import buckets
from vlmhyperbench.data.buckets import RANGE_BYTES, SUMS, Bucket
from vlmhyperbench.data.fetched import Fetched
from vlmhyperbench.data.fetching import fetch_missing
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.data.weights import verify
from vlmhyperbench.domain.cached_files import CachedFile, parse_cached_location
from vlmhyperbench.domain.recipes import ModelFile
from vlmhyperbench.errors import Conflict, VlmHyperBenchError

LARGE = os.urandom(2 * RANGE_BYTES + 12_345)
FILES = {"config.json": b"{}", "model.safetensors": LARGE, "empty.txt": b""}
PREFIX = "models/reader/v1"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackBucket]:
    with serve_bucket(tmp_path_factory.mktemp("s3")) as served:
        served.put(PREFIX, FILES)
        served.put(f"{PREFIX}/onnx", {"model.onnx": b"another format"})
        yield served


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "models", max_bytes=3 * len(LARGE))


def fetch(bucket: LoopbackBucket, cache: ModelCache, prefix: str = PREFIX, arrival: Arrival | None = None) -> Fetched:
    client = Bucket(bucket.options())
    listed = client.look_up(f"s3://{prefix}", "latest")
    return cache.fetch(client, listed, listed.names, arrival or Arrival())


def pins(fetched: Fetched, **changed: str) -> list[ModelFile]:
    hashes = fetched.sha256 | changed
    return [
        ModelFile(role=name, location=CachedFile(fetched.repo, fetched.commit, name).location, sha256=sha256)
        for name, sha256 in hashes.items()
    ]


def code_of(call: object, *arguments: object) -> str:
    assert callable(call)
    with pytest.raises(VlmHyperBenchError) as refused:
        call(*arguments)
    return refused.value.code


def test_the_objects_of_a_prefix_are_fetched_and_pinned_by_hash(bucket: LoopbackBucket, cache: ModelCache) -> None:
    arrival = Arrival()
    fetched = fetch(bucket, cache, arrival=arrival)
    assert fetched.sha256 == {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    assert arrival.done == arrival.total == sum(map(len, FILES.values()))
    for file in pins(fetched):
        assert verify(file, cache).read_bytes() == FILES[file.role]
        assert parse_cached_location(file.location) == CachedFile(f"s3://{PREFIX}", fetched.commit, file.role)
    asked = bucket.sent
    fetch_missing(pins(fetched), cache, lambda _: Bucket(bucket.options()))
    assert bucket.sent == asked  # what is here costs no request


def test_the_licence_is_what_a_model_card_or_a_licence_below_the_prefix_states(
    bucket: LoopbackBucket, cache: ModelCache
) -> None:
    assert fetch(bucket, cache).license is None
    card = b"---\nlicense: apache-2.0\n---\n# A model"
    bucket.put("models/with-card", {**FILES, "README.md": card, "LICENSE": b"MIT License"})
    bucket.put("models/with-licence", {**FILES, "LICENSE": b"EXAMPLE COMMUNITY LICENSE"})
    assert fetch(bucket, cache, "models/with-card").license == "apache-2.0"
    assert fetch(bucket, cache, "models/with-licence").license == "EXAMPLE COMMUNITY LICENSE"


def test_a_changed_object_is_another_version(bucket: LoopbackBucket, cache: ModelCache) -> None:
    bucket.put("models/changing", {"config.json": b"one"})
    first = fetch(bucket, cache, "models/changing")
    bucket.put("models/changing", {"config.json": b"other"})
    second = fetch(bucket, cache, "models/changing")
    assert first.commit != second.commit
    cache.remove(first)
    assert code_of(fetch_missing, pins(first), cache, lambda _: Bucket(bucket.options())) == "wrong_hash"
    bucket.put("models/changing", {"config.json": b"one"})
    fetch_missing(pins(first), cache, lambda _: Bucket(bucket.options()))
    assert verify(pins(first)[0], cache).read_bytes() == b"one"


def test_a_cut_connection_goes_on_where_it_was_cut(bucket: LoopbackBucket, cache: ModelCache) -> None:
    before = bucket.sent
    bucket.cut_after = before + RANGE_BYTES // 2
    fetched = fetch(bucket, cache)
    assert bucket.cut_after is None
    assert fetched.sha256["model.safetensors"] == hashlib.sha256(LARGE).hexdigest()
    assert bucket.sent - before < len(LARGE) + RANGE_BYTES // 2


def test_an_interrupted_fetch_keeps_the_ranges_that_have_arrived(
    bucket: LoopbackBucket, cache: ModelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So many ranges that most have arrived whole before the interruption, in whichever order their bytes come.
    monkeypatch.setattr(buckets, "RANGE_BYTES", 2**20)

    class Interrupted(Arrival):
        def add(self, count: int) -> None:
            super().add(count)
            if self.done > 3 * len(LARGE) // 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(bucket, cache, arrival=Interrupted())
    assert cache.models() == []
    before, again = bucket.sent, Arrival()
    assert fetch(bucket, cache, arrival=again).sha256["model.safetensors"] == hashlib.sha256(LARGE).hexdigest()
    assert bucket.sent - before < len(LARGE) // 2
    assert again.done == again.total


def test_stated_hashes_are_compared(bucket: LoopbackBucket, cache: ModelCache, wording: Wording) -> None:
    good = hashlib.sha256(b"{}").hexdigest()
    bucket.put("models/summed", {"config.json": b"{}", SUMS: f"{good}  config.json\n".encode()})
    assert fetch(bucket, cache, "models/summed").sha256["config.json"] == good
    bucket.put("models/damaged", {"config.json": b"[]", SUMS: f"{good}  config.json\n".encode()})
    with pytest.raises(Conflict) as refused:
        fetch(bucket, cache, "models/damaged")
    assert refused.value.code == "wrong_hash"
    wording(refused.value)


def test_a_damaged_copy_is_noticed_although_no_hash_is_stated(bucket: LoopbackBucket, cache: ModelCache) -> None:
    fetched = fetch(bucket, cache)
    [weights] = [file for file in pins(fetched) if file.role == "model.safetensors"]
    path = verify(weights, cache)
    path.write_bytes(LARGE[:-1] + b"\x00" if LARGE[-1] else LARGE[:-1] + b"\x01")
    assert code_of(verify, weights, cache) == "wrong_hash"
    fetch(bucket, cache)
    assert verify(weights, cache).read_bytes() == LARGE


@pytest.mark.parametrize(
    ("prefix", "options", "code"),
    [
        ("s3://models/nothing", {}, "s3_no_prefix"),
        ("s3://nothing/reader", {}, "s3_no_prefix"),
        (f"s3://{PREFIX}", {"aws_secret_access_key": "wrong"}, "s3_denied"),
        (f"s3://{PREFIX}", {"aws_access_key_id": "NOBODYNOBODY1234"}, "s3_denied"),
        (f"s3://{PREFIX}", {"endpoint_url": "http://127.0.0.1:9"}, "s3_unreachable"),
        (f"s3://{PREFIX}", {"endpoint_url": "no url"}, "s3_denied"),
    ],
)
def test_what_cannot_be_asked_is_said_without_a_key_or_an_endpoint(
    bucket: LoopbackBucket, prefix: str, options: dict[str, str], code: str, wording: Wording
) -> None:
    with pytest.raises(VlmHyperBenchError) as refused:
        Bucket(bucket.options(**options)).look_up(prefix, "latest")
    assert refused.value.code == code
    # boto3's own message, which names the endpoint, is in no traceback.
    assert refused.value.__context__ is None or refused.value.__suppress_context__
    for value in bucket.options(**options).values():
        assert value == "us-east-1" or value not in str(refused.value)
    wording(refused.value)


def test_without_keys_and_offline_nothing_is_fetched(
    bucket: LoopbackBucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for options, is_offline, code in (
        ({"endpoint_url": bucket.url}, False, "s3_denied"),
        (bucket.options(), True, "hub_offline"),
    ):
        with pytest.raises(VlmHyperBenchError) as refused:
            Bucket(options, is_offline=is_offline).look_up(f"s3://{PREFIX}", "latest")
        assert refused.value.code == code
        wording(refused.value)


def test_the_keys_are_secrets_of_the_machine(bucket: LoopbackBucket, tmp_path: Path) -> None:
    bucket.store_secrets(tmp_path / "secrets")
    client = Bucket.of(tmp_path / "secrets")
    assert SECRET not in repr(client)
    assert client.look_up(f"s3://{PREFIX}", "latest").names == sorted(FILES)
    (tmp_path / "secrets" / "AWS_SECRET_ACCESS_KEY").chmod(0o644)
    assert code_of(Bucket.of, tmp_path / "secrets") == "invalid_input"
