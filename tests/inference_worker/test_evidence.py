"""Samples and the engine's log become artifacts of the run, also those of a claim whose worker died."""

from __future__ import annotations

import io
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from uuid import UUID

import polars
import pytest
from structlog.contextvars import bound_contextvars

from tests.inference_worker.test_drive import claimed, runtime
from tests.inference_worker.test_watch import SAMPLE
from vlmhyperbench.db import artifacts
from vlmhyperbench.logs import configure_logging, get_logger, hide, unhide
from vlmhyperbench.logs.bounded import BoundedLog, log_length
from vlmhyperbench.runtime import Runtime
from vlmhyperbench_inference_worker.evidence import ClaimFolder, EvidenceFolder, gateway_log_of
from vlmhyperbench_inference_worker.samples import open_samples, write_sample
from vlmhyperbench_inference_worker.serving import Serving

__all__ = ["runtime"]

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path: Path) -> EvidenceFolder:
    return EvidenceFolder(tmp_path / "evidence")


@dataclass
class Loaded:
    """The fields of a serving that evidence reads."""

    engine_log: Path
    ready_bytes: int


def sampled(claim: ClaimFolder, count: int = 2) -> None:
    with open_samples(claim.samples) as file:
        for _ in range(count):
            write_sample(file, SAMPLE)


def logged(claim: ClaimFolder, text: str) -> None:
    with BoundedLog(claim.engine_log) as log:
        log.write(text)


async def files_of(runtime: Runtime, run_id: UUID) -> dict[str, bytes]:
    async with runtime.database.transaction() as session:
        found = await artifacts.of_run(session, run_id)
    opened = {file.name: await runtime.storage.open(file.storage_key, file.sha256) for file in found}
    return {name: path.read_bytes() for name, path in opened.items()}


async def test_the_evidence_of_a_claim_is_stored_when_it_ends(runtime: Runtime, folder: EvidenceFolder) -> None:
    job = await claimed(runtime, 1)
    claim = folder.open(job)
    sampled(claim)
    logged(claim, "ready\nserved\n")
    await claim.close(job, is_needed=True)
    files = await files_of(runtime, job.run_id)
    assert set(files) == {f"resources-{job.claim_id}.parquet", f"engine-{job.claim_id}.log"}
    assert files[f"engine-{job.claim_id}.log"] == b"ready\nserved\n"
    assert polars.read_parquet(io.BytesIO(files[f"resources-{job.claim_id}.parquet"])).height == 2
    await folder.recover(runtime)
    assert await files_of(runtime, job.run_id) == files


async def test_the_lines_of_worker_and_gateway_are_stored_with_their_claim(
    runtime: Runtime, folder: EvidenceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of another job, earlier lines of the gateway and secrets are not in them."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    configure_logging("inference", form="json")
    first, second = await claimed(runtime, 1), await claimed(runtime, 1)
    loading = folder.open(first)
    gateway_log = gateway_log_of(loading.engine_log)
    gateway_log.parent.mkdir(parents=True)
    gateway_log.write_text("started for another run\n")
    engine = Loaded(engine_log=loading.engine_log, ready_bytes=0)
    claim = folder.open(second)
    claim.note_engine(cast("Serving", engine))
    with gateway_log.open("a") as file:
        file.write("asked\n")
    hide(["a-secret-value"])
    for job, event in ((first, "its.own"), (second, "the.claim")):
        with bound_contextvars(job_id=str(job.job.id)):
            get_logger("test").info(event, key="of a-secret-value")
    get_logger("test").info("no.job")
    unhide(["a-secret-value"])
    await claim.close(second, is_needed=True)
    files = await files_of(runtime, second.run_id)
    assert files[f"gateway-{second.claim_id}.log"] == b"asked\n"
    (line,) = files[f"worker-{second.claim_id}.log"].decode().splitlines()
    assert (json.loads(line)["event"], "a-secret-value" in line) == ("the.claim", False)
    await loading.close(first, is_needed=True)
    assert "its.own" in (await files_of(runtime, first.run_id))[f"worker-{first.claim_id}.log"].decode()


async def test_a_claim_that_asked_nothing_leaves_nothing(runtime: Runtime, folder: EvidenceFolder) -> None:
    job = await claimed(runtime, 1)
    claim = folder.open(job)
    sampled(claim)
    await claim.close(job, is_needed=False)
    await folder.recover(runtime)
    assert await files_of(runtime, job.run_id) == {}


@pytest.mark.parametrize("is_fenced", [False, True], ids=["its worker died", "its claim was lost"])
async def test_the_evidence_of_a_claim_that_could_not_store_it_is_stored_later(
    runtime: Runtime, folder: EvidenceFolder, tmp_path: Path, is_fenced: bool
) -> None:
    job = await claimed(runtime, 1)
    claim = folder.open(job)
    sampled(claim, 3)
    logged(claim, "killed in the middle of")
    if is_fenced:
        job.fenced.set()
        await claim.close(job, is_needed=True)
    assert await files_of(runtime, job.run_id) == {}
    await EvidenceFolder(tmp_path / "evidence").recover(runtime)
    files = await files_of(runtime, job.run_id)
    assert files[f"engine-{job.claim_id}.log"] == b"killed in the middle of"
    assert polars.read_parquet(io.BytesIO(files[f"resources-{job.claim_id}.parquet"])).height == 3
    assert not list((tmp_path / "evidence").glob("*/*"))


async def test_a_claim_that_uses_a_loaded_engine_has_no_output_of_other_claims(
    runtime: Runtime, folder: EvidenceFolder, tmp_path: Path
) -> None:
    first, second = await claimed(runtime, 1), await claimed(runtime, 1)
    loading = folder.open(first)
    with BoundedLog(loading.engine_log) as log:
        log.write("ready\n")
        engine = Loaded(engine_log=loading.engine_log, ready_bytes=log_length(loading.engine_log))
        log.write("a prompt of another run\n")
        await loading.close(first, is_needed=True)
        using = folder.open(second)
        using.note_engine(cast("Serving", engine))
        log.write("mine\n")
    await folder.recover(runtime, in_use=[loading.engine_log])
    assert await files_of(runtime, second.run_id) == {}  # the second claim still runs
    later = EvidenceFolder(tmp_path / "evidence")
    await later.recover(runtime, in_use=[loading.engine_log])
    content = (await files_of(runtime, second.run_id))[f"engine-{second.claim_id}.log"].decode()
    assert content.startswith("ready\n")
    assert content.endswith("mine\n")
    assert "another" not in content
    assert loading.engine_log.is_file()
    await later.recover(runtime)
    assert not loading.engine_log.exists()


async def test_a_folder_that_nobody_can_read_is_removed(
    runtime: Runtime, folder: EvidenceFolder, tmp_path: Path
) -> None:
    broken = tmp_path / "evidence" / "claims" / "broken"
    broken.mkdir(parents=True)
    (broken / "claim.json").write_text("{")
    await folder.recover(runtime)
    assert not broken.exists()
