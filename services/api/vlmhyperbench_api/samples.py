"""Read the parts of results that are stored in files: sample manifests, payloads of chunks, per-sample scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from vlmhyperbench.data import manifest
from vlmhyperbench.db.results import ResultRow
from vlmhyperbench.db.views import MeasureManifestView
from vlmhyperbench.wire.results import MeasureValue, SentPrompt
from vlmhyperbench_sdk.types import JsonObject

_PAYLOAD = ("text", "reasoning", "error", "vram_before_bytes", "vram_peak_bytes")
_PROMPT = ("system_prompt", "user_prompt", "examples")
_MEASURE = ("phase", "ordinal", "extractor", "value", "outcome", "reason", "field")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    """One row of the sample manifest."""

    key: str
    question: str
    references: list[str]
    images: list[str]
    group: dict[str, str | None]


def samples_where(samples: Path, filters: Mapping[str, str]) -> list[int]:
    """Return the indices of samples whose group columns have these values; a missing column matches no sample."""
    frame = _manifest(samples)
    for name, value in filters.items():
        column = manifest.GROUP_PREFIX + name
        if column not in frame.columns:
            return []
        frame = frame.filter(pl.col(column) == value)
    indices: list[int] = frame["index"].to_list()
    return indices


def samples_at(samples: Path, indices: Sequence[int]) -> dict[int, SampleRow]:
    """Read the rows of a sample manifest with these indices."""
    frame = _manifest(samples).filter(pl.col("index").is_in(list(set(indices))))
    groups = [column for column in frame.columns if column.startswith(manifest.GROUP_PREFIX)]
    return {
        row["index"]: SampleRow(
            key=row["key"],
            question=row["question"],
            references=list(row["references"] or ()),
            images=[image["sha256"] for image in row["images"] or ()],
            group={name.removeprefix(manifest.GROUP_PREFIX): row[name] for name in groups},
        )
        for row in frame.iter_rows(named=True)
    }


def media_type_of(samples: Path, sha256: str) -> str | None:
    """Return the media type of an image, or None if no sample has it."""
    images = _manifest(samples).select(pl.col("images").explode()).unnest("images")
    image = images.filter(pl.col("sha256") == sha256)
    return str(image["media_type"][0]) if image.height else None


def payloads(chunks: Mapping[str, Path], rows: Sequence[ResultRow], *, prompts: bool) -> list[dict[str, Any]]:
    """Read text, reasoning, error and memory of each row, with `prompts` also `prompt`: what was sent.

    A row whose chunk is not in `chunks` gets None for each.
    """
    columns = (*_PAYLOAD, *(_PROMPT if prompts else ()))
    frames = {key: _payload_of(path, columns) for key, path in chunks.items()}
    contents = []
    for row in rows:
        frame = frames.get(row.storage_key or "")
        has_row = frame is not None and row.fact.row < frame.height
        payload = frame.row(row.fact.row, named=True) if frame is not None and has_row else dict.fromkeys(columns)
        contents.append({**payload, "prompt": _prompt(payload)})
    return contents


def _prompt(payload: Mapping[str, Any]) -> SentPrompt | None:
    if payload.get("user_prompt") is None:
        return None
    examples = json.loads(payload["examples"]) if payload["examples"] else []
    return SentPrompt(system_prompt=payload["system_prompt"], user_prompt=payload["user_prompt"], examples=examples)


def _payload_of(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Read the columns of a chunk; one of an earlier version lacks those that later versions added."""
    frame = pl.scan_parquet(path, glob=False)
    known = frame.collect_schema().names()
    return frame.select(pl.col(name) if name in known else pl.lit(None).alias(name) for name in columns).collect()


def measures(
    files: Sequence[tuple[MeasureManifestView, Path]], rows: Sequence[ResultRow]
) -> dict[tuple[int, int], list[MeasureValue]]:
    """Read the scores of these rows by every metric, keyed by (phase, ordinal)."""
    scores: dict[tuple[int, int], list[MeasureValue]] = {}
    wanted = pl.DataFrame(
        {"phase": [row.phase for row in rows], "ordinal": [row.ordinal for row in rows]},
        schema={"phase": pl.Int32, "ordinal": pl.Int64},
    )
    for file, path in files:
        frame = pl.read_parquet(path, columns=list(_MEASURE), glob=False)  # the columns of statistics are not needed
        identity = file.metrics[0] if file.metrics else {}
        for row in frame.join(wanted, on=["phase", "ordinal"], how="semi").iter_rows(named=True):
            scores.setdefault((row["phase"], row["ordinal"]), []).append(_measure(row, identity, file.evaluation_id))
    return scores


def _measure(row: dict[str, Any], identity: JsonObject, evaluation_id: str | None) -> MeasureValue:
    return MeasureValue(
        metric=str(identity.get("name", "")),
        profile=str(identity.get("profile", "")),
        extractor=str(row["extractor"]),
        evaluation_id=evaluation_id,
        value=row["value"],
        outcome=row["outcome"],
        reason=row["reason"],
        field=row["field"],
    )


@lru_cache(maxsize=4)
def _manifest(path: Path) -> pl.DataFrame:
    """Read a manifest; the cache never becomes stale, because manifests are stored by content hash."""
    return manifest.read(path)
