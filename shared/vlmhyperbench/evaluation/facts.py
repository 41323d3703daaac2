"""The answers of a function as the rows of a run: the same columns as `facts.read` gives, without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from vlmhyperbench.data.manifest import ManifestSample, with_hashes
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.failures import UNREADABLE_SAMPLE
from vlmhyperbench.evaluation.calling import Reply
from vlmhyperbench.facts.schema import polars_schema
from vlmhyperbench_sdk.types import Prompt

if TYPE_CHECKING:
    import polars

PHASE: Final = 0
COLUMNS: Final[Mapping[str, str]] = {
    "phase": "i4",
    "ordinal": "i8",
    "phase_kind": "str",
    "is_reused": "bool",
    "source_phase": "i4",
    "run_id": "str",
    "sample": "i8",
    "repeat": "i4",
    "turn": "i4",
    "member": "i4",
    "stream": "i4",
    "status": "str",
    "origin": "str",
    "failure": "str?",
    "error_code": "str?",
    "http_status": "i4?",
    "finish_reason": "str?",
    "tries": "i4",
    "prompt_tokens": "i4?",
    "completion_tokens": "i4?",
    "token_source": "str?",
    "scheduled_ns": "i8?",
    "sent_ns": "i8?",
    "queue_ns": "i8?",
    "ttft_user_ns": "i8?",
    "ttft_service_ns": "i8?",
    "tpot_ns": "f8?",
    "latency_ns": "i8?",
    "stream_end_ns": "i8?",
    "request_sha256": "str",
    "claim_id": "str",
    "chunk": "i4",
    "row": "i4",
    "text": "str?",
    "error": "str?",
    "system_prompt": "str?",
    "user_prompt": "str?",
    "cached_tokens": "i4?",
    "vram_before_bytes": "i8?",
    "vram_peak_bytes": "i8?",
}
"""Columns and types in the notation of `facts.schema`. No time is filled in: those of a function are no measurement."""


def facts_of(
    run_id: str,
    samples: Sequence[ManifestSample],
    asked: Mapping[int, tuple[Prompt, Reply]],
    manifest: polars.DataFrame,
    *,
    examples_id: str | None = None,
) -> polars.DataFrame:
    """Return one row for each sample, with the columns of its sample.

    Args:
        run_id: Id of the evaluation.
        samples: Every sample, in order.
        asked: Index of a sample → what was asked, and the reply; the others could not be read.
        manifest: The sample manifest.
        examples_id: Hash of the examples that every call was given; None without examples.
    """
    import polars

    rows = [_row(run_id, sample, asked.get(sample.index), examples_id) for sample in samples]
    facts = polars.DataFrame(rows, schema=polars_schema(dict(COLUMNS)))
    own = manifest.rename({"index": "sample"}).drop("error", strict=False)
    return with_hashes(facts.join(own, on="sample", how="left", maintain_order="left"))


def answers_sha256(samples: Sequence[ManifestSample], asked: Mapping[int, tuple[Prompt, Reply]]) -> str:
    """Return the hash of all answers, with the keys of their samples."""
    replies = {sample.key: asked[sample.index][1] for sample in samples if sample.index in asked}
    return digest_of({key: [reply.text, reply.code] for key, reply in replies.items()})


def _row(
    run_id: str, sample: ManifestSample, asked: tuple[Prompt, Reply] | None, examples_id: str | None
) -> dict[str, JsonValue]:
    blank: dict[str, JsonValue] = dict.fromkeys(COLUMNS)
    same: dict[str, JsonValue] = dict.fromkeys(("source_phase", "repeat", "turn", "member", "stream", "chunk"), 0)
    row = (
        blank
        | same
        | {
            "run_id": run_id,
            "claim_id": run_id,
            "phase": PHASE,
            "phase_kind": "accuracy",
            "is_reused": False,
            "ordinal": sample.index,
            "sample": sample.index,
            "row": sample.index,
            "origin": "imported",
            "tries": 0 if asked is None else 1,
        }
    )
    if asked is None:
        error = f"{UNREADABLE_SAMPLE}: {sample.error}"
        failed = {"status": "error", "failure": "infrastructure", "error_code": UNREADABLE_SAMPLE, "error": error}
        return row | failed | {"request_sha256": digest_of([sample.key])}
    prompt, reply = asked
    images: list[JsonValue] = [image.sha256 for image in sample.images]
    shown: dict[str, JsonValue] = {} if examples_id is None else {"examples": examples_id}
    row |= {
        "system_prompt": prompt.system,
        "user_prompt": prompt.user,
        "request_sha256": digest_of({"system": prompt.system, "user": prompt.user, "images": images, **shown}),
    }
    if reply.code is None:
        return row | {"status": "ok", "text": reply.text}
    return row | {"status": "error", "failure": "model", "error_code": reply.code, "error": reply.error}
