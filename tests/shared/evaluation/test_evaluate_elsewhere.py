"""`evaluate` on datasets of a hub and in S3: the same scores as from a file, and what to do where that cannot work."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.support import tables
from tests.support.bucket import LoopbackBucket, serve_bucket
from tests.support.hub import LoopbackHub, serve_hub
from vlmhyperbench.errors import Denied, NotFound, Unavailable, VlmHyperBenchError
from vlmhyperbench.evaluation import Evaluation, evaluate

REPO = "datasets/lab/pages"
ENTRY = """type: table
split: test
path: {path}
params:
  columns: {{key: id, question: question, images: image, references: answers}}
"""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    file = io.BytesIO()
    pl.DataFrame([tables.as_hub_stores(row) for row in tables.rows(12)]).write_parquet(file)
    with serve_hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        served.hold(REPO, {"data/test-00000-of-00001.parquet": file.getvalue()})
        yield served


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[LoopbackBucket]:
    with serve_bucket(tmp_path / "s3") as served:
        folder = tmp_path / "jsonl"
        tables.write_jsonl(folder)
        served.put("data/pages", {"test.jsonl": (folder / "questions.jsonl").read_bytes()})
        served.put("data/pages/pages", {file.name: file.read_bytes() for file in (folder / "pages").iterdir()})
        yield served


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("VLMHB_HOME", str(home))
    for kind in ("datasets", "tasks"):
        (home / "registries" / kind).mkdir(parents=True)
    task = "dataset: pages\nprompt: document-qa\nmetrics: [exact_match]\n"
    (home / "registries" / "tasks" / "pages.yaml").write_text(task)
    return home


def register(home: Path, path: str) -> None:
    (home / "registries" / "datasets" / "pages.yaml").write_text(ENTRY.format(path=path))


def asked(limit: int | None = None) -> Evaluation:
    def answer(prompt: str, images: list[bytes]) -> str:
        number = next(number for number in range(12) if f"line {number};" in prompt)
        assert images == [tables.png(number)]
        return f"text {number}"

    return evaluate("pages", answer, limit=limit)


def test_a_dataset_of_a_hub_is_fetched_once_and_asked(home: Path, hub: LoopbackHub) -> None:
    register(home, "hf://datasets/lab/pages")
    [score] = asked().metrics()
    assert (score.value, score.n) == (1.0, 12)
    asked(limit=3)
    assert len(hub.downloads("data/test-00000-of-00001.parquet")) == 1


def test_a_dataset_in_s3_is_fetched_and_asked(home: Path, bucket: LoopbackBucket) -> None:
    bucket.store_secrets(home / "secrets")
    register(home, "s3://data/pages")
    [score] = asked().metrics()
    assert (score.value, score.n) == (1.0, 12)


@pytest.mark.parametrize(
    ("path", "library", "refusal", "code"),
    [
        ("hf://datasets/lab/none", "", Denied, "hub_denied"),
        ("hf://datasets/lab/pages", "huggingface_hub", Unavailable, "not_installed"),
        ("s3://data/none", "", NotFound, "s3_no_prefix"),
        ("s3://data/pages", "boto3", Unavailable, "not_installed"),
    ],
)
def test_what_cannot_be_fetched_names_its_cure(
    home: Path,
    hub: LoopbackHub,
    bucket: LoopbackBucket,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    library: str,
    refusal: type[VlmHyperBenchError],
    code: str,
) -> None:
    if library:
        monkeypatch.setitem(sys.modules, library, None)
    bucket.store_secrets(home / "secrets")
    register(home, path)
    with pytest.raises(refusal) as refused:
        asked()
    assert refused.value.code == code
    assert refused.value.cure
    if library:
        assert refused.value.cure == f"pip install 'vlmhyperbench[{'hub' if 'hub' in library else 's3'}]'"


def test_offline_nothing_is_asked_and_the_error_names_the_setting(
    home: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLMHB_OFFLINE", "true")
    register(home, "hf://datasets/lab/pages")
    with pytest.raises(Unavailable) as refused:
        asked()
    assert "VLMHB_OFFLINE" in f"{refused.value.message} {refused.value.cure}"
    assert hub.requests == []


def test_a_table_of_pandas_has_the_cells_of_the_table_of_polars(home: Path, hub: LoopbackHub) -> None:
    register(home, "hf://datasets/lab/pages")
    evaluation = asked(limit=3)
    table = evaluation.to_pandas()
    assert list(table.columns) == evaluation.to_polars().columns
    assert table["key"].tolist() == evaluation.to_polars()["key"].to_list()
    assert len(table) == 3


def test_without_pandas_the_error_names_the_extra(
    home: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(home, "hf://datasets/lab/pages")
    evaluation = asked(limit=1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(Unavailable) as refused:
        evaluation.to_pandas()
    assert (refused.value.code, refused.value.cure) == ("not_installed", "pip install 'vlmhyperbench[pandas]'")
