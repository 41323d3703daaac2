"""A project folder of one's own: a small dataset of drawn pages, a task, a run that works, and what git leaves out."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from vlmhyperbench.errors import Conflict
from vlmhyperbench.files import write_whole
from vlmhyperbench.registry.adding import SCENARIOS
from vlmhyperbench.registry.roots import FOLDER
from vlmhyperbench.registry.schema_lines import schema_line
from vlmhyperbench.registry.shelf import write_entry
from vlmhyperbench_sdk.types import Sample

RUN: Final = "vlmhb.yaml"
"""The file of the project's run."""
NAME: Final = "my-documents"
"""Name of its dataset and task."""
DATA: Final = "data"
MADE: Final = (RUN, ".gitignore", DATA, FOLDER)
"""What a project has: none of it may be there before."""
_IGNORED: Final = (
    *("run", "postgres", "valkey", "storage", "environments", "models", "storage-cache", "tls", "certificates"),
    *("secrets", "reports", "locks", "work", "logs", "evidence", "unpacked", "images", "held", "moves"),
)
"""Folders that a stack makes, whose home the project is."""


def make_project(folder: Path, samples: Sequence[Sample]) -> list[Path]:
    """Write the files of a project whose dataset has these samples; return the files that a person edits.

    Raises:
        Conflict: something of a project is there already; nothing is written then.
    """
    present = [name for name in MADE if (folder / name).exists() or (folder / name).is_symlink()]
    if present:
        message = f"{folder} has {', '.join(present)} already, and nothing is overwritten."
        raise Conflict(message, cure="Name another folder: vlmhyperbench init FOLDER.", code="project_exists")
    (folder / DATA / "images").mkdir(parents=True)
    questions = folder / DATA / "questions.csv"
    write_whole(questions, _written(folder / DATA, samples).encode())
    registries = folder / FOLDER
    dataset, task = registries / "datasets" / f"{NAME}.yaml", registries / "tasks" / f"{NAME}.yaml"
    description = f"{len(samples)} questions about drawn pages; put your own beside them."
    write_entry(dataset, {"description": description, "type": "annotation_csv", "path": f"../{DATA}/{questions.name}"})
    write_entry(
        task,
        {
            "description": "Answers questions about pages.",
            "dataset": NAME,
            "prompt": "document-qa",
            "metrics": ["exact_match", "anls"],
            "scenarios": list(SCENARIOS),
            "decoding": {"temperature": 0, "max_tokens": 64},
        },
    )
    run = yaml.safe_dump({"name": NAME, "target": {"model": "tiny-doc-vlm"}, "task": NAME}, sort_keys=False)
    line = schema_line("runs").replace("../", f"{FOLDER}/")
    write_whole(folder / RUN, f"{line}\n{run}".encode())
    write_whole(folder / ".gitignore", "".join(f"/{name}/\n" for name in _IGNORED).encode())
    return [folder / RUN, questions, dataset, task]


def _written(folder: Path, samples: Sequence[Sample]) -> str:
    """Write the images of samples, and return the table of their questions."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["question", "answer", "image"])
    for no, sample in enumerate(samples):
        name = f"images/{no:02}.png"
        write_whole(folder / name, sample.images[0].read())
        writer.writerow([sample.question, sample.references[0], name])
    return table.getvalue()
