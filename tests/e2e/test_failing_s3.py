"""A stack whose S3 refuses half of all requests and cuts answers loses and doubles nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.audit import audit
from tests.support.bucket import KEY, SECRET, LoopbackBucket, serve_bucket
from tests.support.processes import PATIENCE_S
from tests.support.stack import ROOT, Stack, running_stack, until
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
    root = tmp_path_factory.mktemp("s3")
    shutil.copytree(ROOT / "registries/datasets/annotated-pages", root / "data/pages")
    (root / "store").mkdir()
    with serve_bucket(root, is_watched=False) as served:
        yield served


@pytest.fixture(scope="module")
def registries(registries: Path) -> Path:
    (registries / "datasets/pages-in-s3.yaml").write_text(
        "description: Twelve questions about pages in a bucket.\n"
        "type: annotation_csv\npath: s3://data/pages\nsplit: test\n"
    )
    return registries


@pytest.fixture(scope="module")
def stack(registries: Path, bucket: LoopbackBucket) -> Iterator[Stack]:
    bucket.refuses_every = 2  # from the start, so that no connection outlives its request
    with running_stack(registries, **storage_in(bucket)) as found:
        yield found


def submit(stack: Stack, task: str, **dataset: Any) -> UUID:
    entry = {"target": {"model": "simulated-instant"}, "task": task, "dataset": dataset}
    return stack.client.runs.create(RunEntry.model_validate(entry)).id


def test_a_dataset_in_the_bucket_is_synced_before_its_run(stack: Stack, bucket: LoopbackBucket) -> None:
    bucket.store_secrets(stack.home.root / "secrets")
    run_id = submit(stack, "document-qa", name="pages-in-s3")
    ended = stack.wait(run_id, timeout_s=2 * PATIENCE_S)
    assert ended.state == "SUCCEEDED", stack.logs()
    assert stack.rows(run_id) == 12
    page = next((bucket.root / "data/pages/pages").iterdir()).read_bytes()
    synced = [path for path in (stack.home.root / "models").rglob("*.png") if path.read_bytes() == page]
    assert synced
    audit(stack)


def test_no_row_refers_to_a_chunk_that_the_storage_has_not_taken(stack: Stack, bucket: LoopbackBucket) -> None:
    bucket.refuses_uploads_of = b"/chunks/"
    try:
        run_id = submit(stack, "synthetic-questions", name="synthetic-questions", limit=SAMPLES, seed=3)
        until(lambda: bucket.refused_uploads >= 3, "uploads that are refused", PATIENCE_S, last=stack.logs)
        written = "SELECT (SELECT count(*) FROM fact WHERE run_id = %s), (SELECT count(*) FROM chunk WHERE run_id = %s)"
        assert stack.query(written, run_id, run_id) == [(0, 0)]
    finally:
        bucket.refuses_uploads_of = None
    assert stack.wait(run_id, timeout_s=2 * PATIENCE_S).state == "SUCCEEDED", stack.logs()
    assert stack.rows(run_id) == SAMPLES
    keys = stack.query("SELECT storage_key FROM chunk WHERE run_id = %s", run_id)
    assert keys
    assert all((bucket.root / "store/stack" / key).is_file() for (key,) in keys)
    audit(stack)


def test_a_run_on_a_storage_that_fails_half_of_the_time_loses_and_doubles_nothing(
    stack: Stack, bucket: LoopbackBucket
) -> None:
    run_id = submit(stack, "synthetic-questions", name="synthetic-questions", limit=SAMPLES)
    ended = stack.wait(run_id, timeout_s=2 * PATIENCE_S)
    assert ended.state == "SUCCEEDED", stack.logs()
    assert stack.rows(run_id) == SAMPLES
    assert bucket.refused > 10
    audit(stack)
    files = {item.name: item for item in stack.client.artifacts(run_id=run_id).items}
    report = files["report.json"]
    bucket.cut_after = bucket.sent + 100
    content = stack.client.artifact_content(report.id)
    assert bucket.cut_after is None
    assert hashlib.sha256(content).hexdigest() == report.sha256
    assert json.loads(content)
