"""Turn a sealed segment into a chunk in storage and the narrow rows that are appended with it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vlmhyperbench.db.views import NewChunk, NewFact
from vlmhyperbench.domain.causes import FailedRequest, failure_of, read_failure
from vlmhyperbench.domain.failures import LOST_CONNECTION, NOT_ASKED
from vlmhyperbench.facts.sealing import blank_row, seal
from vlmhyperbench.load.process import LoadProcess
from vlmhyperbench.logs import SecretMasker
from vlmhyperbench.storage import Storage
from vlmhyperbench.worker.claims import ClaimedJob
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.serving import Serving
from vlmhyperbench_inference_worker.watch import Watch
from vlmhyperbench_inference_worker.work import Work
from vlmhyperbench_sdk.out_of_memory import says_out_of_memory

if TYPE_CHECKING:
    from uuid import UUID

MIN_HIDDEN_CHARACTERS = 12
"""A shorter secret may be part of an answer: masking it would change what is scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A chunk in storage, its rows, and what the driver of the load needs to know of them."""

    chunk: NewChunk
    rows: Sequence[NewFact]
    unanswered: int
    """Rows whose connection failed or broke before the answer ended."""
    short_of_memory: int
    """Rows whose answer says that the engine ran out of memory."""
    refusal: FailedRequest | None
    """The refusal that all of them got, if no later request can pass either (a refused key)."""
    first_sent_ns: int | None
    last_end_ns: int | None


class Sink:
    """Numbers the chunks of a claim, phase by phase, and writes them. Calls block, so run them in a thread."""

    def __init__(
        self,
        storage: Storage,
        *,
        run_id: UUID,
        claim_id: UUID,
        folder: Path,
        secrets: Iterable[str] = (),
        watch: Watch | None = None,
    ) -> None:
        """Create a sink that masks `secrets` where an endpoint repeats them in an answer or an error.

        `watch` samples the accelerators of the engine; None where the engine is not on this machine.
        """
        self._watch = watch
        secrets = list(secrets)
        self._errors = SecretMasker(secrets)
        self._answers = SecretMasker(value for value in secrets if len(value) >= MIN_HIDDEN_CHARACTERS)
        self._storage = storage
        self._run_id = run_id
        self._claim_id = claim_id
        self._folder = folder
        self._next: dict[int, int] = {}

    @classmethod
    def of_claim(cls, job: ClaimedJob, serving: Serving, process: LoadProcess, watch: Watch) -> Self:
        """Create the sink of a claim whose load generator asks a target."""
        return cls(
            job.runtime.storage,
            run_id=job.run_id,
            claim_id=job.claim_id,
            folder=process.record_folder.parent,
            secrets=serving.secret_values,
            watch=watch if watch.engine_pid is not None else None,
        )

    def seal(
        self, segment: Path, planned: Mapping[int, PlannedRequest], *, phase: int, sha256: str, keep_unanswered: bool
    ) -> Sealed | None:
        """Store a segment as a chunk; return None if no row is left.

        Args:
            segment: the load generator's file.
            planned: ordinal → request, of this phase.
            phase: the number of the phase.
            sha256: the announced hash of the file.
            keep_unanswered: False drops the rows of failed connections, and of answers that memory ran out for,
                because the engine is lost and the next attempt sends them again.

        Raises:
            ValueError: the file does not have the announced hash.
            Unavailable: storage is full or away.
        """
        import polars

        data = segment.read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError(f"The segment {segment.name} is not the file that the load generator announced.")
        records = polars.read_parquet(data).to_dicts()
        for record in records:
            for name, mask in (
                ("text", self._answers.mask),
                ("reasoning", self._answers.mask),
                ("finish_reason", self._answers.mask_cut),
                ("error", self._errors.mask_cut),
            ):
                if record[name] is not None:
                    record[name] = mask(record[name])
        rows = [_complete(record, planned[record["ordinal"]]) | self._memory(record) for record in records]
        if not keep_unanswered:
            rows = [row for row in rows if row["error_code"] not in LOST_CONNECTION and not _is_short(row)]
        return self._store(rows, phase=phase) if rows else None

    def unsent(self, planned: Sequence[tuple[PlannedRequest, str]], *, phase: int) -> Sealed:
        """Store the rows of samples about which nothing is sent, each with its error: `code: reason`.

        Raises:
            Unavailable: storage is full or away.
        """
        rows = []
        for request, error in planned:
            blank = blank_row(
                phase=phase,
                ordinal=request.ordinal,
                sample=request.sample,
                repeat=request.repeat,
                status="error",
                error=error,
                request_sha256=request.request_sha256,
            )
            rows.append(_complete(blank, request))
        return self._store(rows, phase=phase)

    def _memory(self, record: Mapping[str, Any]) -> dict[str, int | None]:
        """Return the columns on the accelerators' memory during a request that was sent."""
        end_ns = record["stream_end_ns"] or record["last_event_ns"]
        if self._watch is None or record["sent_ns"] is None or end_ns is None:
            return {}
        memory = self._watch.memory_between(record["sent_ns"], end_ns)
        return {"vram_before_bytes": memory.before_bytes, "vram_peak_bytes": memory.peak_bytes}

    def _store(self, rows: list[dict[str, Any]], *, phase: int) -> Sealed:
        no = self._next.get(phase, 0)
        self._next[phase] = no + 1
        chunk, facts = seal(
            self._storage, rows, run_id=self._run_id, claim_id=self._claim_id, phase=phase, no=no, folder=self._folder
        )
        sent = [row["sent_ns"] for row in rows if row["sent_ns"] is not None]
        # A request that failed after a while used the engine until then.
        ended = [row[name] for row in rows for name in ("stream_end_ns", "last_event_ns") if row[name] is not None]
        return Sealed(
            chunk=chunk,
            rows=facts,
            unanswered=sum(row["error_code"] in LOST_CONNECTION for row in rows),
            short_of_memory=sum(map(_is_short, rows)),
            refusal=_refusal([row for row in rows if row["status"] != "skipped"]),
            first_sent_ns=min(sent, default=None),
            last_end_ns=max(ended, default=None),
        )


async def write_unsent(
    job: ClaimedJob, work: Work, sink: Sink, *, phase: int, until: Collection[int] | None = None
) -> None:
    """Write the rows of samples that cannot be read, or about which there is nothing to ask.

    Args:
        job: the claim.
        work: what is missing of it, in the order in which it is asked.
        sink: where the rows go.
        phase: the number of their phase.
        until: only the samples before the last of these ordinals have rows; None: all.

    Raises:
        Unavailable: storage is full or away.
        Fenced: the claim is lost.
    """
    ordinals = work.missing
    if until is not None:
        ordinals = ordinals[: max((index for index, ordinal in enumerate(ordinals, 1) if ordinal in until), default=0)]
    reasons = {ordinal: work.sample_of(ordinal).error for ordinal in ordinals}
    errors = {
        ordinal: f"{work.code_of(ordinal)}: {reason}" for ordinal, reason in reasons.items() if reason is not None
    }
    if errors:
        planned = [(work.requests[ordinal], error) for ordinal, error in errors.items()]
        sealed = await asyncio.to_thread(sink.unsent, planned, phase=phase)
        await job.append(sealed.chunk, sealed.rows)


def _refusal(rows: Sequence[Mapping[str, Any]]) -> FailedRequest | None:
    failures = [_failed(row) for row in rows]
    is_all = all(failed is not None and failed.rule.is_final for failed in failures)
    return failures[0] if failures and is_all else None


def _is_short(row: Mapping[str, Any]) -> bool:
    return bool(row["status"] == "error") and says_out_of_memory(str(row["error"] or ""))


def _failed(record: Mapping[str, Any]) -> FailedRequest | None:
    return read_failure(status=record["status"], http_status=record["http_status"], error=record["error"])


def _complete(record: dict[str, Any], planned: PlannedRequest) -> dict[str, Any]:
    """Add the request to a record, and whether a failure is the model's."""
    failed = _failed(record)
    return record | {
        "request_sha256": planned.request_sha256,
        "system_prompt": planned.prompt.system,
        "user_prompt": planned.prompt.user,
        "images": [image.sha256 for image in planned.images],
        "examples": json.dumps([example.as_json for example in planned.examples]) if planned.examples else None,
        "error": failed.error if failed else record["error"],
        "failure": failure_of(failed) if failed and failed.code != NOT_ASKED else None,
        "error_code": failed.code if failed else None,
    }
