"""IMPORT: read a run's answers from a file instead of asking a model; a missing answer becomes an error row."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vlmhyperbench.bounded import ChildBounds, run_bounded
from vlmhyperbench.data import manifest
from vlmhyperbench.db import claims, manifests, runs
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.outcomes import Complete, Outcome, Preempted
from vlmhyperbench.domain.specs import DatasetSpec, ImportTarget, RunSpec
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound, PluginFailure
from vlmhyperbench.exchange.answers import ImportedAnswer, answers_key, read_answers
from vlmhyperbench.exchange.foreign import count_in, list_in
from vlmhyperbench.exchange.lines import lines_of
from vlmhyperbench.facts.sealing import blank_row, seal
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_sdk.jsontext import parse_object
from vlmhyperbench_sdk.types import JsonObject

CHUNK_ROWS = 1000
CHUNK_BYTES = 16 * 1024**2
BOUNDS = ChildBounds(memory_bytes=3 * 1024**3, cpu_s=3600, wall_s=7200)
"""Limits of the child that reads a file and matches it with the samples."""
NOT_IN_FILE = "not_in_file"
FAILED_IN_FILE = "failed_in_file"
_SHOWN_KEYS = 5
_OTHER_DATASET = "Name the dataset, split and revision of the file's answers."


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """The file of answers, the run's samples, and the ordinals that have no row yet."""

    file: Path
    phase: int
    samples: Mapping[str, int]
    """Key → index."""
    references: Sequence[AbstractSet[str]]
    """References of each sample, in lower case and without surrounding white space."""
    missing: frozenset[int]
    answers: str
    """Hash of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Differences between a file and its dataset that are allowed."""

    left_out: int
    """Number of answers without a sample, since a limit or a filter excludes it."""
    differing: int
    """Number of answers whose references in the file are all different from those of the sample."""


async def handle_import(job: ClaimedJob) -> Outcome:
    """Do one IMPORT job; a file that does not match its dataset fails the run before any row is written."""
    asked = await _asked(job)
    no = done = 0
    with tempfile.TemporaryDirectory(prefix="vlmhb-import-") as folder:
        checked = await run_bounded(take, asked, folder, what="the file of answers", bounds=BOUNDS)
        if not isinstance(checked, dict):
            message = "The process that read the file of answers returned no result."
            raise PluginFailure(message, cure="Import the file again.")
        total = len(list_in(asked["missing"]))
        for part in range(count_in(checked["parts"]) or 0):
            batch = await asyncio.to_thread(_batch, _part(folder, part))
            if job.draining.is_set() or job.cancelled.is_set():
                return Preempted()
            sealing = partial(
                seal,
                job.runtime.storage,
                batch,
                run_id=job.run_id,
                claim_id=job.claim_id,
                phase=asked["phase"],
                no=no,
                folder=Path(folder),
                origin="imported",
            )
            chunk, facts = await asyncio.to_thread(sealing)
            await job.append(chunk, facts)
            no, done = no + 1, done + len(batch)
            await job.progress(done=done, total=total)
    return Complete(
        data={
            "requests": 0,
            "phase": asked["phase"],
            "answers_of_no_sample": checked["left_out"],
            "answers_of_other_references": checked["differing"],
        }
    )


async def _asked(job: ClaimedJob) -> dict[str, Any]:
    """Return the input of the child as JSON: the file, the sample manifest and the missing ordinals."""
    async with job.runtime.database.transaction() as session:
        run = await runs.get(session, job.run_id)
        manifest_row = await manifests.get(session, run.manifest_id or "") if run else None
        missing = await claims.missing_ordinals(session, job.job)
    if run is None or manifest_row is None or job.job.phase is None:
        raise NotFound(f"The run {job.run_id} or its sample manifest does not exist.")
    spec = RunSpec.model_validate(run.spec)
    if not isinstance(spec.target, ImportTarget):
        raise Conflict("The run's target is not a file of answers.")
    storage = job.runtime.storage
    return {
        "file": str(await storage.open(answers_key(job.job.project_id, spec.target.answers), spec.target.answers)),
        "manifest": str(await storage.open(manifest_row.storage_key, manifest_row.id)),
        "dataset": spec.dataset.model_dump(mode="json"),
        "phase": job.job.phase,
        "missing": sorted(missing),
        "answers": spec.target.answers,
    }


def take(asked: dict[str, Any], folder: str) -> JsonObject:
    """Check a file and write its missing rows to files of limited size; runs in a bounded child."""
    frame = manifest.read(Path(asked["manifest"]))
    plan = ImportPlan(
        file=Path(asked["file"]),
        phase=asked["phase"],
        samples=dict(zip(frame["key"].to_list(), frame["index"].to_list(), strict=True)),
        references=[set(map(_plain, known or ())) for known in frame["references"].to_list()],
        missing=frozenset(asked["missing"]),
        answers=asked["answers"],
    )
    checked = check_keys(plan, DatasetSpec.model_validate(asked["dataset"]))
    no = -1
    for no, lines in enumerate(_parts(rows_of(plan))):
        _part(folder, no).write_text("".join(lines), encoding="utf-8")
    return {"left_out": checked.left_out, "differing": checked.differing, "parts": no + 1}


def _part(folder: str, no: int) -> Path:
    return Path(folder) / f"{no}.jsonl"


def _parts(rows: Iterator[dict[str, Any]]) -> Iterator[list[str]]:
    """Yield rows as lines, grouped by the limits of a chunk."""
    lines: list[str] = []
    size = 0
    for row in rows:
        lines.append(json.dumps(row) + "\n")
        size += len(lines[-1])
        if len(lines) == CHUNK_ROWS or size > CHUNK_BYTES:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


def _batch(path: Path) -> list[dict[str, Any]]:
    return [parse_object(line, what=f"{path.name}:{no}", any_text=True) for no, line in lines_of(path)]


def check_keys(plan: ImportPlan, dataset: DatasetSpec) -> Checked:
    """Check that the answers belong to samples of the dataset.

    Raises:
        InvalidInput: no answer belongs to a sample; some do not although no limit or filter excludes samples; or all
            references in the file differ from those of the samples with the same keys.
    """
    unknown: list[str] = []
    answers = compared = differing = 0
    for answer in read_answers(plan.file).answers:
        answers += 1
        sample = plan.samples.get(answer.key)
        if sample is None:
            unknown.append(answer.key)
        elif answer.references and plan.references[sample]:
            compared += 1
            differing += plan.references[sample].isdisjoint(map(_plain, answer.references))
    is_cut = bool(dataset.limit or dataset.doc_classes or dataset.question_types)
    if unknown and (len(unknown) == answers or not is_cut):
        named = ", ".join(repr(key[:60]) for key in unknown[:_SHOWN_KEYS])
        known = ", ".join(repr(key[:60]) for key in list(plan.samples)[:_SHOWN_KEYS])
        raise InvalidInput(
            f"{len(unknown)} of {answers} answers belong to no sample of {dataset.name!r}: it has no key {named}; "
            f"it has keys such as {known}.",
            cure=_OTHER_DATASET,
        )
    if differing > 1 and differing == compared:
        raise InvalidInput(
            f"The {differing} answers of the file that have a reference have other references than the samples of "
            f"{dataset.name!r} with the same keys.",
            cure=_OTHER_DATASET,
        )
    return Checked(left_out=len(unknown), differing=differing)


def _plain(text: str) -> str:
    return text.strip().casefold()


def rows_of(plan: ImportPlan) -> Iterator[dict[str, Any]]:
    """Yield a chunk row for every missing ordinal: first in the order of the file, then those that the file lacks."""
    missing = set(plan.missing)
    samples = len(plan.samples)
    for answer in read_answers(plan.file).answers:
        sample = plan.samples.get(answer.key)
        ordinal = None if sample is None else answer.repeat * samples + sample
        if ordinal in missing:
            missing.remove(ordinal)
            yield _row(plan, ordinal, answer)
    keys = {index: key for key, index in plan.samples.items()}
    for ordinal in sorted(missing):
        row = _blank(plan, ordinal, keys[ordinal % samples], error="The file has no answer for this sample.")
        yield row | {"failure": "infrastructure", "error_code": NOT_IN_FILE}


def _row(plan: ImportPlan, ordinal: int, answer: ImportedAnswer) -> dict[str, Any]:
    if answer.text is None:
        row = _blank(plan, ordinal, answer.key, error=answer.error or "The file has no text for this answer.")
        row |= {"failure": answer.failure or "infrastructure", "error_code": FAILED_IN_FILE}
    else:
        row = _blank(plan, ordinal, answer.key, error=None) | {"text": answer.text}
    counted = answer.completion_tokens is not None
    return row | {
        "user_prompt": answer.question,
        "reasoning": answer.reasoning,
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "token_source": "usage" if counted else None,
        "reported": json.dumps(dict(answer.reported), sort_keys=True) if answer.reported else None,
    }


def _blank(plan: ImportPlan, ordinal: int, key: str, *, error: str | None) -> dict[str, Any]:
    samples = len(plan.samples)
    repeat = ordinal // samples
    request_sha256 = digest_of({"answers": plan.answers, "key": key, "repeat": repeat})
    return blank_row(
        phase=plan.phase,
        ordinal=ordinal,
        sample=ordinal % samples,
        repeat=repeat,
        status="ok" if error is None else "error",
        error=error,
        request_sha256=request_sha256,
    )
