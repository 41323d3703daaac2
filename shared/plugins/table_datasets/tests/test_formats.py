"""One dataset in every format gives the same samples."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.support import tables
from vlmhyperbench_sdk.discovery import load
from vlmhyperbench_sdk.errors import InvalidInput, NotFound
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.testing.datasets import check_dataset
from vlmhyperbench_table_datasets.table import TableDataset

BY_BARS = {**tables.COLUMNS, "references": {"column": "answers", "split": "|"}}


def test_it_is_found_by_its_registered_name_and_keeps_the_contract(tmp_path: Path) -> None:
    assert load("datasets", "table") is TableDataset
    for source in (
        DatasetSource(path=tables.write_jsonl(tmp_path / "jsonl"), params={"columns": tables.COLUMNS}),
        DatasetSource(path=tables.write_csv(tmp_path / "csv"), params={"columns": BY_BARS}),
        DatasetSource(path=tables.write_hub(tmp_path / "hub"), split="test", params={"columns": tables.COLUMNS}),
    ):
        assert check_dataset(TableDataset, source) == 12


def test_csv_jsonl_and_a_folder_of_the_hub_give_equal_samples(tmp_path: Path) -> None:
    first = tables.contents(tables.samples(tables.write_jsonl(tmp_path / "jsonl")))
    assert first[3] == (
        "q3",
        "What stands in line 3; and why?",
        [tables.png(3)],
        ("text 3", "Text 3"),
        {"doc_class": "form", "document": "page-1"},
    )
    csv = tables.write_csv(tmp_path / "csv", separator=";", encoding="utf-8-sig")
    assert tables.contents(tables.samples(csv, columns=BY_BARS)) == first
    hub = tables.write_hub(tmp_path / "hub")
    assert tables.contents(tables.samples(hub, split="test")) == first
    parts = tables.samples(hub, files="data/test-*.parquet")
    assert tables.contents(parts) == first


@pytest.mark.parametrize("form", ["parquet", "ipc", "ipc_stream", "ndjson", "csv"])
def test_a_column_with_a_default_may_be_missing_in_every_format(tmp_path: Path, form: str) -> None:
    suffix = {"ipc": "arrow", "ipc_stream": "arrow", "ndjson": "jsonl"}.get(form, form)
    frame, file = pl.DataFrame({"q": ["?", "!"]}), tmp_path / f"rows.{suffix}"
    getattr(frame, f"write_{form}")(file)
    columns = {"question": "q", "images": {"column": "image_2", "default": None}}
    assert [(sample.question, sample.images) for sample in tables.samples(file, columns=columns)] == [
        ("?", ()),
        ("!", ()),
    ]


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_saved_folder_is_read_batch_by_batch_without_datasets(tmp_path: Path, *, is_stream: bool) -> None:
    frame = pl.DataFrame([tables.as_hub_stores(row) for row in tables.rows()])
    frame = frame.with_columns(label=pl.Series([number % 2 for number in range(12)]))
    folder = tmp_path / "test"
    folder.mkdir()
    names = [f"data-0000{part}-of-00002.arrow" for part in (0, 1)]
    for name, part in zip(names, (frame[:5], frame[5:]), strict=True):
        part.write_ipc_stream(folder / name) if is_stream else part.write_ipc(folder / name)
    state = {"_data_files": [{"filename": name} for name in names], "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    features = {"label": {"names": ["letter", "form"], "_type": "ClassLabel"}}
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["test"]}')
    columns = {**tables.COLUMNS, "metadata": {"doc_class": {"column": "label", "names": True}}}
    read = tables.contents(tables.samples(tmp_path, split="test", columns=columns))
    assert read == tables.contents(tables.samples(tables.write_jsonl(tmp_path / "jsonl")))
    with pytest.raises(NotFound):
        tables.samples(tmp_path, split="dev", columns=columns)
    cut = (folder / names[1]).read_bytes()[:-400]
    (folder / names[1]).write_bytes(cut)
    with pytest.raises(InvalidInput) as refused:
        tables.samples(tmp_path, split="test", columns=columns)
    assert names[1] in refused.value.message


def test_without_a_mapping_columns_are_taken_by_their_names(tmp_path: Path) -> None:
    file = tables.write_jsonl(tmp_path)
    read = list(TableDataset(DatasetSource(path=file)))
    assert (read[1].key, read[1].references) == ("q1", ("text 1", "Text 1"))
    assert read[1].metadata == {"page": "page-0", "doc_class": "form"}


def test_the_card_of_a_repository_says_which_files_are_a_split(tmp_path: Path) -> None:
    tables.write_hub(tmp_path)
    card = {"configs": [{"config_name": "small", "data_files": [{"split": "dev", "path": "data/train-*"}]}]}
    (tmp_path / "README.md").write_text(f"---\n{json.dumps(card)}\n---\n# Data\n")
    assert [sample.key for sample in tables.samples(tmp_path, split="dev", config="small")] == ["q0"]
    with pytest.raises(NotFound):
        tables.samples(tmp_path, split="test", config="small")


def test_a_column_names_the_split_where_files_do_not(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    lines = [{"question": f"{n}?", "answer": n, "part": "dev" if n % 2 else "test"} for n in range(4)]
    file.write_text("\n".join(map(json.dumps, lines)))
    columns = {"question": "question", "references": "answer", "split": "part"}
    assert [sample.key for sample in tables.samples(file, split="dev", columns=columns)] == ["1", "3"]
    with pytest.raises(InvalidInput) as refused:
        tables.samples(file, split="train", columns=columns)
    assert "dev, test" in refused.value.cure
