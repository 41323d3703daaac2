"""The sample manifest: what goes in comes out, and equal samples have equal ids."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pydantic import JsonValue

from vlmhyperbench.data import manifest
from vlmhyperbench.data.images import ImageInfo
from vlmhyperbench.data.manifest import ManifestSample

IMAGE = ImageInfo(sha256="a" * 64, media_type="image/png", width=3, height=2, size_bytes=70)


def _sample(index: int = 0, **metadata: JsonValue) -> ManifestSample:
    return ManifestSample(
        index=index, key=f"k{index}", question="Why?", references=("a", "b"), images=(IMAGE,), metadata=metadata
    )


def test_samples_come_out_as_they_went_in(tmp_path: Path) -> None:
    samples = [
        _sample(0, doc_class="receipt", page=1, box=[1, 2]),
        ManifestSample(index=1, key="k1", question="", error="The image is broken."),
    ]
    manifest_id, data = manifest.write(samples)
    assert list(manifest.samples_of(manifest.read(data))) == samples
    (tmp_path / "m.parquet").write_bytes(data)
    assert manifest.read(tmp_path / "m.parquet").equals(manifest.read(data))
    assert manifest.manifest_key(manifest_id) == f"manifests/{manifest_id}.parquet"


def test_a_schema_keeps_the_order_of_its_members_and_other_metadata_is_sorted() -> None:
    schema: JsonValue = {"type": "object", "properties": {"total": {}, "date": {}}, "required": ["total"]}
    _, data = manifest.write([_sample(0, truth={"b": 1, "a": 2}, json_schema=schema)])
    (sample,) = manifest.samples_of(manifest.read(data))
    assert sample.metadata == {"json_schema": schema, "truth": {"a": 2, "b": 1}}
    kept = sample.metadata["json_schema"]
    assert isinstance(kept, dict)
    assert [*kept, *kept["properties"]] == ["type", "properties", "required", "total", "date"]
    again, _ = manifest.write([_sample(0, json_schema=schema, truth={"a": 2, "b": 1})])
    assert again == manifest.write([_sample(0, truth={"b": 1, "a": 2}, json_schema=schema)])[0]


def test_every_scalar_of_metadata_is_a_group_column() -> None:
    samples = [
        _sample(0, doc_class="receipt", page=1, is_scan=True, box=[1, 2], nested={"a": 1}, mixed="x"),
        _sample(1, doc_class=None, mixed=[1]),
    ]
    frame = manifest.read(manifest.write(samples)[1])
    assert manifest.group_columns(samples) == ["doc_class", "is_scan", "page"]
    assert frame.columns[len(manifest.SCHEMA) :] == ["group.doc_class", "group.is_scan", "group.page"]
    assert frame["group.doc_class"].to_list() == ["receipt", None]
    assert frame["group.page"].to_list() == ["1", None]
    assert frame["group.is_scan"].to_list() == ["true", None]


def test_equal_samples_have_equal_ids_and_others_have_others() -> None:
    assert manifest.write([_sample(doc_class="a", field="b")]) == manifest.write([_sample(field="b", doc_class="a")])
    assert manifest.write([_sample(0)])[0] != manifest.write([_sample(1)])[0]


def test_the_columns_keep_their_types_even_where_nothing_is_in_them() -> None:
    frame = manifest.read(manifest.write([ManifestSample(index=0, key="k", question="q")])[1])
    assert dict(frame.schema) == manifest.SCHEMA
    assert manifest.read(manifest.write([])[1]).height == 0


def test_a_number_that_json_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        manifest.write([_sample(score=float("nan"))])


def test_the_schema_is_what_readers_rely_on() -> None:
    assert manifest.SCHEMA["images"] == pl.List(
        pl.Struct(
            {
                "sha256": pl.String,
                "media_type": pl.String,
                "width": pl.Int32,
                "height": pl.Int32,
                "size_bytes": pl.Int64,
            }
        )
    )
