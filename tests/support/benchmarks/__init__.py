"""Rows of public benchmarks in the schemas of their data, written as a hub's folder, with answers and their scores."""

from __future__ import annotations

import base64
import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from PIL import Image as Pillow
from PIL import ImageDraw

FOLDER = Path(__file__).parent
IMAGE = "IMAGE"
"""Stands for an image in a row."""


@dataclass(frozen=True, kw_only=True)
class Fixture:
    """A few rows, one answer to each, and what these answers score."""

    name: str
    rows: list[dict[str, Any]]
    answers: list[str]
    scores: dict[str, float]
    """`name@profile` of a metric → its value over all rows."""
    prompt: str
    """The user prompt of the first row."""
    file: str = ""
    """Name of the file in the repository, where that is JSON lines or TSV; else the rows are a split in Parquet."""


def fixture(name: str) -> Fixture:
    """Read the fixture of a task."""
    return Fixture(name=name, **yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


def names() -> list[str]:
    """Return the tasks that have a fixture."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def write_hub(read: Fixture, folder: Path, *, split: str, config: str | None = None) -> Path:
    """Write the rows as a folder of the hub has them: Parquet, images as bytes with a name, or the file it has."""
    if read.file:
        folder.mkdir(parents=True)
        write = _write_tsv if read.file.endswith(".tsv") else _write_jsonl
        write(folder / read.file, read.rows)
        return folder
    data = folder / (config or "data")
    data.mkdir(parents=True)
    rows = [{name: _cell(value, number) for name, value in row.items()} for number, row in enumerate(read.rows)]
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(data / f"{split}-00000-of-00001.parquet")
    return folder


def _write_jsonl(file: Path, rows: list[dict[str, Any]]) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def _write_tsv(file: Path, rows: list[dict[str, Any]]) -> None:
    """Write images in base64."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, list(rows[0]), delimiter="\t")
        writer.writeheader()
        for number, row in enumerate(rows):
            image = base64.b64encode(_drawn(number)).decode()
            writer.writerow({name: image if value == IMAGE else value for name, value in row.items()})


def _cell(value: Any, number: int) -> Any:
    return {"bytes": _drawn(number), "path": f"{number}.png"} if value == IMAGE else value


def _drawn(number: int) -> bytes:
    image = Pillow.new("RGB", (96, 48), "white")
    ImageDraw.Draw(image).text((8, 16), f"page {number}", fill="black")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
