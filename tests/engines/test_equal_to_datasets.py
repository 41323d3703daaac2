"""Tables are read as `datasets` reads them: the same rows of what it saves, and the same files of each split."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from benchmarks.loadgen_conformance.clients import PEERS
from tests.support import tables
from tests.support.needs import skip_or_fail
from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_table_datasets.table import TableDataset

PYTHON = PEERS / "harness/bin/python"
SAVES = """
import hashlib, json, sys
from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, List, Value, load_from_disk
rows = json.load(sys.stdin)
for row in rows:
    row["image"] = {"bytes": open(row["image"], "rb").read(), "path": None}
features = Features({"id": Value("string"), "question": Value("string"), "image": Image(decode=False),
                     "answers": List(Value("string")), "page": Value("string"), "doc_class": Value("string"),
                     "label": ClassLabel(names=["letter", "form"])})
test = Dataset.from_list(rows, features=features)
DatasetDict({"test": test, "train": test.select([0])}).save_to_disk(sys.argv[1], num_shards={"test": 3, "train": 1})
test.to_parquet(sys.argv[2] + "/test-00000-of-00001.parquet")
names = test.features["label"].names
for row in load_from_disk(sys.argv[1])["test"]:
    image = hashlib.sha256(row.pop("image")["bytes"]).hexdigest()
    print(json.dumps({**row, "image": image, "label": names[row["label"]]}))
"""
LOADS = """
import json, sys
from datasets import load_dataset
for folder, config in json.load(sys.stdin):
    loaded = load_dataset(folder, config, cache_dir=sys.argv[1])
    print(json.dumps({split: rows["question"][:] for split, rows in loaded.items()}))
"""
COLUMNS = {**tables.COLUMNS, "metadata": {"doc_class": "doc_class", "label": {"column": "label", "names": True}}}
CARD = [
    {"config_name": "small", "data_files": [{"split": "test", "path": ["rows/a*.csv", "rows/c.csv"]}]},
    {"config_name": "large", "data_files": [{"split": "dev", "path": "**/b.csv"}, {"split": "test", "path": "more/*"}]},
    {"config_name": "inside", "data_dir": "split"},
    {"config_name": "both", "data_dir": "rows", "data_files": "b.csv"},
]
OF_CARD = ("rows/a1.csv", "rows/a2.csv", "rows/b.csv", "rows/c.csv", "more/d.csv", "split/train.csv", "split/test.csv")
LAYOUTS: Sequence[tuple[Sequence[str], str | None]] = (
    (("train.csv", "my-test.csv", "val_1.csv"), None),
    (
        ("data/test-00000-of-00002.csv", "data/test-00001-of-00002.csv", "data/mini-00000-of-00001.csv", "train.csv"),
        None,
    ),
    (("dev/a.csv", "training/b.csv", "evaluation/deep/c.csv"), None),
    (("test/train_1.csv", "test/val_2.csv", "train/test_3.csv"), None),
    (("one.csv", "two/three.csv"), None),
    (("latest.csv", "contest/attest.csv"), None),
    *((OF_CARD, str(config["config_name"])) for config in CARD),
)


def _datasets(code: str, *arguments: Path, given: object) -> list[dict[str, object]]:
    """Run code in an environment that has `datasets`, and return the objects that it prints."""
    if not PYTHON.is_file():
        skip_or_fail("datasets is not installed: the output of `make clients` states the reason")
    command = [str(PYTHON), "-c", code, *map(str, arguments)]
    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(arguments[0].parent / "home")}
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True, env=env)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_a_saved_folder_has_the_rows_that_datasets_reads(tmp_path: Path) -> None:
    tables.write_images(tmp_path / "files")
    rows = [
        {**row, "image": str(tmp_path / "files" / row["image"]), "label": number % 2}
        for number, row in enumerate(tables.rows())
    ]
    (tmp_path / "hub").mkdir()
    theirs = _datasets(SAVES, tmp_path / "saved", tmp_path / "hub", given=rows)
    for folder in ("saved", "hub"):
        ours = [
            {
                "id": sample.key,
                "question": sample.question,
                "image": sha256(sample.images[0].read()).hexdigest(),
                "answers": list(sample.references),
                "page": sample.metadata["document"],
                "doc_class": sample.metadata["doc_class"],
                "label": sample.metadata["label"],
            }
            for sample in tables.samples(tmp_path / folder, split="test", columns=COLUMNS)
        ]
        assert ours == theirs


def test_every_split_of_a_layout_has_the_files_that_datasets_chooses(tmp_path: Path) -> None:
    folders = [_layout(tmp_path / str(number), *layout) for number, layout in enumerate(LAYOUTS)]
    given = [(str(folder), config) for folder, (_, config) in zip(folders, LAYOUTS, strict=True)]
    theirs = _datasets(LOADS, tmp_path / "cache", given=given)
    ours = [
        {split: _questions(folder, split, config) for split in splits}
        for folder, (_, config), splits in zip(folders, LAYOUTS, theirs, strict=True)
    ]
    assert ours == theirs


def _layout(folder: Path, names: Sequence[str], config: str | None) -> Path:
    """Write a table of one row for each name, whose question is the name."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"question\n{name}\n")
    if config is not None:
        (folder / "README.md").write_text(f"---\n{json.dumps({'configs': CARD})}\n---\n# Data\n")
    return folder


def _questions(folder: Path, split: str, config: str | None) -> list[str]:
    params = {"columns": {"question": "question"}, **({} if config is None else {"config": config})}
    source = DatasetSource(path=folder, split=split, params=params)  # type: ignore[arg-type]
    return [sample.question for sample in TableDataset(source)]
