"""Rows of public benchmarks in the schemas of their data, written as a hub's folder, with answers and their scores."""

from __future__ import annotations

import base64
import csv
import io
import json
from dataclasses import dataclass, field
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
    """`name@profile` of a metric → its value over all rows, by the first extractor of the task."""
    prompt: str
    """The user prompt of the first row."""
    scores_by: dict[str, dict[str, float]] = field(default_factory=dict)
    """Each other extractor of the task → the same of it."""
    file: str = ""
    """Name of the file in the repository, where that is JSON lines or TSV; else the rows are a split in Parquet."""

    @property
    def images(self) -> list[bytes]:
        """The image of each row, by which it can be told from the rows of all fixtures."""
        return [_drawn(f"{self.name} {number}") for number in range(len(self.rows))]


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
        write(folder / read.file, read)
        return folder
    data = folder / (config or "data")
    data.mkdir(parents=True)
    rows = [
        {name: {"bytes": image, "path": f"{number}.png"} if value == IMAGE else value for name, value in row.items()}
        for number, (row, image) in enumerate(zip(read.rows, read.images, strict=True))
    ]
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(data / f"{split}-00000-of-00001.parquet")
    return folder


def _write_jsonl(file: Path, read: Fixture) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in read.rows), encoding="utf-8")


def _write_tsv(file: Path, read: Fixture) -> None:
    """Write images in base64."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, list(read.rows[0]), delimiter="\t")
        writer.writeheader()
        for row, image in zip(read.rows, read.images, strict=True):
            text = base64.b64encode(image).decode()
            writer.writerow({name: text if value == IMAGE else value for name, value in row.items()})


def _drawn(text: str) -> bytes:
    image = Pillow.new("RGB", (128, 48), "white")
    ImageDraw.Draw(image).text((8, 16), text, fill="black")
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
