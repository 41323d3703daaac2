"""A stack whose S3 refuses half of all requests and cuts answers loses and doubles nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.audit import audit
from tests.support.bucket import KEY, SECRET, LoopbackBucket, serve_bucket
from tests.support.processes import PATIENCE_S
from tests.support.stack import Stack, running_stack
from vlmhyperbench.registry.schemas import RunEntry

SAMPLES = 60


def storage_in(bucket: LoopbackBucket) -> dict[str, str]:
    return {
        "VLMHB_STORAGE_URL": "s3://store/stack",
        "VLMHB_STORAGE_S3__ENDPOINT_URL": bucket.url,
        "VLMHB_STORAGE_S3__REGION": "us-east-1",
        "VLMHB_STORAGE_S3__ACCESS_KEY_ID": KEY,
        "VLMHB_STORAGE_S3__SECRET_ACCESS_KEY": SECRET,
    }


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackBucket]:
    with serve_bucket(tmp_path_factory.mktemp("s3"), is_watched=False) as served:
        served.put("store", {})
        yield served


@pytest.fixture(scope="module")
def stack(registries: Path, bucket: LoopbackBucket) -> Iterator[Stack]:
    bucket.refuses_every = 2  # from the start, so that no connection outlives its request
    with running_stack(registries, **storage_in(bucket)) as found:
        yield found


def test_a_run_on_a_storage_that_fails_half_of_the_time_loses_and_doubles_nothing(
    stack: Stack, bucket: LoopbackBucket
) -> None:
    dataset = {"name": "synthetic-questions", "limit": SAMPLES}
    entry = {"target": {"model": "simulated-instant"}, "task": "synthetic-questions", "dataset": dataset}
    run = stack.client.runs.create(RunEntry.model_validate(entry))
    ended = stack.wait(run.id, timeout_s=2 * PATIENCE_S)
    assert ended.state == "SUCCEEDED", stack.logs()
    assert stack.rows(run.id) == SAMPLES
    assert bucket.refused > 10
    audit(stack)
    files = {item.name: item for item in stack.client.artifacts(run_id=run.id).items}
    report = files["report.json"]
    bucket.cut_after = bucket.sent + 100
    content = stack.client.artifact_content(report.id)
    assert bucket.cut_after is None
    assert hashlib.sha256(content).hexdigest() == report.sha256
    assert json.loads(content)
