"""One dataset of twelve questions about images, written in every format that `table` reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from PIL import Image as Pillow

from vlmhyperbench_sdk.protocols import DatasetSource
from vlmhyperbench_sdk.types import Sample
from vlmhyperbench_table_datasets.table import TableDataset

COLUMNS: dict[str, Any] = {
    "key": "id",
    "question": "question",
    "images": "image",
    "references": "answers",
    "document": "page",
    "metadata": ["doc_class"],
}


def png(number: int) -> bytes:
    file = io.BytesIO()
    Pillow.new("RGB", (20 + number, 10), (number, 2 * number, 3 * number)).save(file, "PNG")
    return file.getvalue()


def rows(count: int = 12) -> list[dict[str, Any]]:
    return [
        {
            "id": f"q{number}",
            "question": f"What stands in line {number}; and why?",
            "image": f"pages/{number}.png",
            "answers": [f"text {number}", f"Text {number}"],
            "page": f"page-{number // 2}",
            "doc_class": ("letter", "form")[number % 2],
        }
        for number in range(count)
    ]


def write_images(folder: Path, count: int = 12) -> None:
    (folder / "pages").mkdir(parents=True)
    for number in range(count):
        (folder / "pages" / f"{number}.png").write_bytes(png(number))


def write_jsonl(folder: Path) -> Path:
    write_images(folder)
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    return file


def write_csv(folder: Path, *, separator: str = ",", encoding: str = "utf-8") -> Path:
    write_images(folder)
    file = folder / "questions.csv"
    with file.open("w", encoding=encoding, newline="") as lines:
        writer = csv.DictWriter(lines, list(rows()[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows({**row, "answers": "|".join(row["answers"])} for row in rows())
    return file


def as_hub_stores(row: Mapping[str, Any]) -> dict[str, Any]:
    number = int(row["id"][1:])
    return {**row, "image": {"bytes": png(number), "path": f"{number}.png"}}


def write_hub(folder: Path) -> Path:
    (folder / "data").mkdir(parents=True)
    table = [as_hub_stores(row) for row in rows()]
    parts = {"test-00000-of-00002": table[:7], "test-00001-of-00002": table[7:], "train-00000-of-00001": table[:1]}
    for name, part in parts.items():
        pl.DataFrame(part).write_parquet(folder / "data" / f"{name}.parquet")
    return folder


def samples(path: Path, split: str | None = None, **params: Any) -> list[Sample]:
    return list(TableDataset(DatasetSource(path=path, split=split, params={"columns": COLUMNS, **params})))


def contents(read: list[Sample]) -> list[tuple[Any, ...]]:
    """Return what two ways to the same samples have to agree in: the bytes of images, not where they are."""
    return [
        (sample.key, sample.question, [image.read() for image in sample.images], sample.references, sample.metadata)
        for sample in read
    ]
