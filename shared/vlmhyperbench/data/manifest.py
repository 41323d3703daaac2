"""The sample manifest: a Parquet file with one row per sample, in order, stored by content.

Runs of one experiment share it; facts, measures and reports refer to its rows by index and to its samples by key.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl
from pydantic import JsonValue

from vlmhyperbench.data.images import ImageInfo
from vlmhyperbench.domain.digests import canonical_json, metadata_json
from vlmhyperbench.domain.selection import PreprocessStep

SCHEMA: Final[dict[str, pl.DataType]] = {
    "index": pl.Int64(),
    "key": pl.String(),
    "question": pl.String(),
    "references": pl.List(pl.String()),
    "images": pl.List(
        pl.Struct(
            {
                "sha256": pl.String(),
                "media_type": pl.String(),
                "width": pl.Int32(),
                "height": pl.Int32(),
                "size_bytes": pl.Int64(),
            }
        )
    ),
    "error": pl.String(),
    "metadata": pl.String(),
}
GROUP_PREFIX: Final = "group."
"""Prefix of the columns of scalar metadata, by which reports group."""
PREPROCESS: Final = "preprocess"
SOURCES: Final = "image_sources"
"""Columns of a manifest whose images were preprocessed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSample:
    """One row."""

    index: int
    key: str
    question: str
    references: tuple[str, ...] = ()
    images: tuple[ImageInfo, ...] = ()
    error: str | None = None
    """Reason why the sample cannot be sent; it becomes an error row, and the run continues."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


def manifest_key(manifest_id: str) -> str:
    """Return the storage key of a manifest; its id is the SHA-256 of the file."""
    return f"manifests/{manifest_id}.parquet"


def write(samples: Sequence[ManifestSample], *, preprocess: Sequence[PreprocessStep] = ()) -> tuple[str, bytes]:
    """Return a manifest's id and its bytes; equal samples and steps give equal bytes.

    With steps of preprocessing it has their JSON in the column `preprocess`, and in `image_sources` the hash of each
    image of the dataset that they changed.
    """
    groups = group_columns(samples)
    columns: dict[str, object] = {
        "index": [sample.index for sample in samples],
        "key": [sample.key for sample in samples],
        "question": [sample.question for sample in samples],
        "references": [list(sample.references) for sample in samples],
        "images": [[image.as_json() for image in sample.images] for sample in samples],
        "error": [sample.error for sample in samples],
        "metadata": [metadata_json(sample.metadata).decode() for sample in samples],
    }
    for name in groups:
        columns[GROUP_PREFIX + name] = [_as_group(sample.metadata.get(name)) for sample in samples]
    schema = {**SCHEMA, **{GROUP_PREFIX + name: pl.String() for name in groups}}
    if preprocess:
        steps = canonical_json([step.model_dump(mode="json") for step in preprocess]).decode()
        columns[PREPROCESS] = [steps] * len(samples)
        columns[SOURCES] = [[image.source_sha256 for image in sample.images] for sample in samples]
        schema |= {PREPROCESS: pl.String(), SOURCES: pl.List(pl.String())}
    frame = pl.DataFrame(columns, schema=schema)
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd", statistics=False)
    data = file.getvalue()
    return hashlib.sha256(data).hexdigest(), data


def read(source: bytes | Path) -> pl.DataFrame:
    """Read a manifest as a frame of `SCHEMA` and its group columns."""
    return pl.read_parquet(io.BytesIO(source) if isinstance(source, bytes) else source, glob=False)


def samples_of(frame: pl.DataFrame) -> Iterator[ManifestSample]:
    """Yield the rows of a manifest."""
    for row in frame.iter_rows(named=True):
        yield ManifestSample(
            index=row["index"],
            key=row["key"],
            question=row["question"],
            references=tuple(row["references"]),
            images=tuple(ImageInfo(**image) for image in row["images"]),
            error=row["error"],
            metadata=json.loads(row["metadata"]),
        )


def group_columns(samples: Sequence[ManifestSample]) -> list[str]:
    """Return the names of metadata that are scalars in every sample, sorted, without the prefix."""
    scalar: dict[str, bool] = {}
    for sample in samples:
        for name, value in sample.metadata.items():
            scalar[name] = scalar.get(name, True) and not isinstance(value, (list, tuple, Mapping))
    return sorted(name for name, is_scalar in scalar.items() if is_scalar)


def _as_group(value: JsonValue) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return canonical_json(value).decode()
