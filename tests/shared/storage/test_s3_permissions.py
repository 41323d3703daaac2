"""Buckets whose keys lack a permission, on moto: the S3 server of the other tests knows one key that may everything."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import httpx2
import pytest

from tests.support.processes import PATIENCE_S
from vlmhyperbench.addresses import S3Access
from vlmhyperbench.errors import Denied
from vlmhyperbench.storage import Storage, StorageLocation, open_storage

_SET_UP_CALLS = 4
"""Calls that moto accepts without permissions each time that it is told to: those of `keys_that_may`."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("moto") / "log"
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        url, give_up_at = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE_S
        try:
            while True:
                try:
                    httpx2.get(f"{url}/moto-api/", trust_env=False)
                except httpx2.TransportError:
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < give_up_at, log.read_text()
                    time.sleep(0.05)
                else:
                    break
            yield url
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def keys_that_may(server: str, *actions: str) -> S3Access:
    """Make a bucket, and an account that may do no more than this."""
    httpx2.post(f"{server}/moto-api/reset", trust_env=False).raise_for_status()
    count = str(_SET_UP_CALLS)
    httpx2.post(f"{server}/moto-api/reset-auth", content=count, trust_env=False).raise_for_status()
    root = {"endpoint_url": server, "region_name": "us-east-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
    iam = boto3.client("iam", **root)
    boto3.client("s3", **root).create_bucket(Bucket="store")
    iam.create_user(UserName="worker")
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName="worker", PolicyName="p", PolicyDocument=document)
    key = iam.create_access_key(UserName="worker")["AccessKey"]
    access = {"access_key_id": key["AccessKeyId"], "secret_access_key": key["SecretAccessKey"]}
    return S3Access.model_validate({"endpoint_url": server, "region": "us-east-1", **access})


def opened(access: S3Access, folder: Path) -> Storage:
    return open_storage(StorageLocation(url="s3://store/x", s3=access, cache_folder=folder))


def test_keys_that_may_what_is_needed_are_found_so(server: str, tmp_path: Path) -> None:
    opened(keys_that_may(server, "s3:GetObject", "s3:PutObject", "s3:ListBucket"), tmp_path).check()


@pytest.mark.parametrize(
    ("actions", "lacking"), [(["s3:GetObject", "s3:ListBucket"], "write"), (["s3:PutObject", "s3:ListBucket"], "read")]
)
def test_keys_that_lack_a_permission_are_refused_with_its_name(
    server: str, tmp_path: Path, actions: list[str], lacking: str
) -> None:
    access = keys_that_may(server, *actions)
    with pytest.raises(Denied) as refused:
        opened(access, tmp_path).check()
    assert (refused.value.code, f"may not {lacking}" in refused.value.message) == ("s3_denied", True)
    assert access.secret_access_key.get_secret_value() not in str(refused.value)


def test_keys_that_may_not_delete_are_told_which_workers_need_it(server: str, tmp_path: Path) -> None:
    storage = opened(keys_that_may(server, "s3:GetObject", "s3:PutObject", "s3:ListBucket"), tmp_path)
    with pytest.raises(Denied, match=r"may not delete runs/x.*for reporting workers s3:DeleteObject"):
        storage.delete("runs/x")
