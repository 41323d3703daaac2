"""Datasets in S3: synced with their folders before they are read, verified, resumed, and never outside of the cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.bucket import LoopbackBucket, serve_bucket
from vlmhyperbench.data.buckets import RANGE_BYTES, Bucket
from vlmhyperbench.data.datasets import on_this_machine
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import Denied, NotFound
from vlmhyperbench.settings import Settings

LARGE = os.urandom(RANGE_BYTES + 4321)
FILES = {
    "annotation.csv": b"image_path;question;answer\nimages/1.png;q;a\n",
    "images/1.png": b"1",
    "deep/er/2.bin": LARGE,
}


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackBucket]:
    with serve_bucket(tmp_path_factory.mktemp("s3")) as served:
        for name, content in FILES.items():
            folder, _, file = f"data/set/{name}".rpartition("/")
            served.put(folder, {file: content})
        yield served


@pytest.fixture
def settings(bucket: LoopbackBucket, tmp_path: Path) -> Settings:
    bucket.store_secrets(tmp_path / "secrets")
    return Settings(home=tmp_path)


@contextmanager
def local(url: str, settings: Settings, arrival: Arrival) -> Iterator[Path]:
    spec = DatasetSpec(name="d", version="1.0.0", type="table", path=url)
    with on_this_machine(spec, settings, arrival) as there:
        yield Path(there.path or "")


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def test_a_prefix_becomes_a_folder_and_is_fetched_once(bucket: LoopbackBucket, settings: Settings) -> None:
    arrival = Arrival()
    with local("s3://data/set", settings, arrival) as folder:
        assert contents(folder) == FILES
    assert arrival.done == arrival.total == sum(map(len, FILES.values()))
    sent = bucket.sent
    with local("s3://data/set/", settings, Arrival()) as again:
        assert again == folder
    assert bucket.sent - sent < len(LARGE) // 10  # the listing


def test_the_address_of_an_object_names_it_beside_its_neighbours(settings: Settings) -> None:
    with local("s3://data/set/annotation.csv", settings, Arrival()) as file:
        assert file.read_bytes() == FILES["annotation.csv"]
        assert (file.parent / "images" / "1.png").read_bytes() == b"1"


def test_a_damaged_file_and_a_cut_connection_are_fetched_again(bucket: LoopbackBucket, settings: Settings) -> None:
    with local("s3://data/set", settings, Arrival()) as folder:
        (folder / "images" / "1.png").write_bytes(b"9")
        (folder / "deep" / "er" / "2.bin").unlink()
    bucket.cut_after = bucket.sent + RANGE_BYTES // 2
    with local("s3://data/set", settings, Arrival()) as folder:
        assert contents(folder) == FILES
    assert bucket.cut_after is None


def test_an_object_that_has_changed_is_another_version(bucket: LoopbackBucket, settings: Settings) -> None:
    bucket.put("data/changing", {"a.csv": b"1"})
    with local("s3://data/changing", settings, Arrival()) as first:
        bucket.put("data/changing", {"a.csv": b"22"})
        with local("s3://data/changing", settings, Arrival()) as second:
            assert ((first / "a.csv").read_bytes(), (second / "a.csv").read_bytes()) == (b"1", b"22")


@pytest.mark.parametrize("url", ["s3://data/absent", "s3://absent/set", "s3://data/set/absent.csv"])
def test_what_is_not_there_is_named(settings: Settings, url: str) -> None:
    with pytest.raises(NotFound), local(url, settings, Arrival()):
        pass


def test_wrong_keys_are_refused(bucket: LoopbackBucket, settings: Settings, tmp_path: Path) -> None:
    bucket.store_secrets(tmp_path / "secrets", AWS_SECRET_ACCESS_KEY="wrong" * 8)
    with pytest.raises(Denied), local("s3://data/set", settings, Arrival()):
        pass


@pytest.mark.parametrize("name", ["", "../x", "a/../../x", "a//b", "a/", "./x", "/etc/passwd"])
def test_a_key_that_leads_out_of_the_folder_is_no_file(name: str) -> None:
    assert not Bucket({}, is_deep=True)._is_file(name)
    assert Bucket({}, is_deep=True)._is_file("a/b.png")
    assert not Bucket({})._is_file("a/b.png")
