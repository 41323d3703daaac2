"""What `datasets` saves is read as `datasets` itself reads it; needs an environment that has it."""

from __future__ import annotations

import json
import os
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support import tables

PYTHON = os.environ.get("VLMHB_TEST_DATASETS_PYTHON", "")
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
COLUMNS = {**tables.COLUMNS, "metadata": {"doc_class": "doc_class", "label": {"column": "label", "names": True}}}


@pytest.mark.skipif(not PYTHON, reason="VLMHB_TEST_DATASETS_PYTHON names no environment that has datasets")
def test_a_saved_folder_has_the_rows_that_datasets_reads(tmp_path: Path) -> None:
    tables.write_images(tmp_path / "files")
    rows = [
        {**row, "image": str(tmp_path / "files" / row["image"]), "label": number % 2}
        for number, row in enumerate(tables.rows())
    ]
    (tmp_path / "hub").mkdir()
    command = [PYTHON, "-c", SAVES, str(tmp_path / "saved"), str(tmp_path / "hub")]
    done = subprocess.run(command, input=json.dumps(rows), capture_output=True, text=True, check=True)
    theirs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
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
