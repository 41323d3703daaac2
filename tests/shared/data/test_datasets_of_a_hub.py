"""Datasets of the hub: only their tables are fetched, at a revision, verified; and what is said where that fails."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from tests.support import tables
from tests.support.hub import LoopbackHub, serve_hub
from vlmhyperbench.data.datasets import on_this_machine
from vlmhyperbench.data.repositories import Arrival
from vlmhyperbench.data.samples import Selection
from vlmhyperbench.domain.specs import DatasetSpec
from vlmhyperbench.errors import Conflict, Denied, InvalidInput, NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench.settings import Settings

REPO = "datasets/lab/pages"


def parquet(count: int) -> bytes:
    file = io.BytesIO()
    pl.DataFrame([tables.as_hub_stores(row) for row in tables.rows(count)]).write_parquet(file)
    return file.getvalue()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    with serve_hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        served.hold(
            REPO,
            {
                "README.md": b"# Pages",
                "data/test-00000-of-00001.parquet": parquet(12),
                "data/train-00000-of-00001.parquet": parquet(2),
                "raw/pages.zip": b"x" * 9000,
            },
        )
        yield served


@contextmanager
def local(tmp_path: Path, path: str = "hf://datasets/lab/pages", **fields: object) -> Iterator[DatasetSpec]:
    given = {"name": "pages", "version": "1.0.0", "type": "table", "path": path, "split": "test", **fields}
    spec = DatasetSpec.model_validate({**given, "params": {"columns": tables.COLUMNS}})
    with on_this_machine(spec, Settings(home=tmp_path), Arrival()) as there:
        yield there


def test_its_tables_are_fetched_at_a_revision_and_read_like_any_other(hub: LoopbackHub, tmp_path: Path) -> None:
    with local(tmp_path, revision="v1.0") as spec:
        read = tables.contents(list(Selection(spec)))
    assert read == tables.contents(tables.samples(tables.write_jsonl(tmp_path / "jsonl")))
    assert not any("pages.zip" in path for _, path, _ in hub.requests)
    count = len(hub.requests)
    with local(tmp_path, path="hf://datasets/lab/pages/data") as spec:
        assert len(list(Selection(spec))) == 12
    assert len(hub.requests) == count + 1  # the listing


@pytest.mark.parametrize(
    ("path", "fields", "refusal", "code"),
    [
        ("hf://datasets/lab/nothing", {}, Denied, "hub_denied"),
        ("hf://datasets/lab/pages", {"revision": "v9"}, NotFound, "hub_no_revision"),
        ("hf://datasets/lab/pages/raw", {}, NotFound, "hub_no_file"),
        ("hf://datasets/../secrets", {}, InvalidInput, "invalid_input"),
    ],
)
def test_what_does_not_exist_is_named(
    hub: LoopbackHub,
    tmp_path: Path,
    path: str,
    fields: dict[str, object],
    refusal: type[VlmHyperBenchError],
    code: str,
) -> None:
    with pytest.raises(refusal) as refused, local(tmp_path, path=path, **fields):
        pass
    assert refused.value.code == code


def test_a_hub_that_refuses_and_one_that_fails_are_different(hub: LoopbackHub, tmp_path: Path) -> None:
    hub.hold("datasets/lab/gated", {"test.parquet": parquet(1)}, is_gated=True)
    with pytest.raises(Denied) as refused, local(tmp_path, path="hf://datasets/lab/gated"):
        pass
    assert refused.value.code == "hub_denied"
    hub.status = 503
    with pytest.raises(Unavailable), local(tmp_path):
        pass


def test_half_a_download_continues_and_another_file_than_the_listed_one_is_refused(
    hub: LoopbackHub, tmp_path: Path
) -> None:
    whole = parquet(400)
    hub.hold(REPO, {"test.parquet": whole})
    hub.cut_after["test.parquet"] = 5000
    with local(tmp_path) as spec:
        assert len(list(Selection(spec))) == 400
    hub.hold("datasets/lab/other", {"test.parquet": whole})
    hub.replaced["test.parquet"] = whole[:-1] + b"x"
    with pytest.raises(Conflict) as refused, local(tmp_path, path="hf://datasets/lab/other"):
        pass
    assert refused.value.code == "wrong_hash"
