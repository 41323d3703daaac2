"""`import`: evaluate the answers of another tool's file as if a run of ours had asked for them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli.choices import check, read_extractor
from vlmhyperbench.cli.output import note
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.cli.watch import see_through
from vlmhyperbench.client import Client
from vlmhyperbench.exchange.answers import write_answers
from vlmhyperbench.exchange.reading import read
from vlmhyperbench.wire.answers import RunImport


def import_(
    file: Path,
    /,
    *,
    format: str = "auto",  # noqa: A002 (the flag's name)
    model: str | None = None,
    task: str | None = None,
    dataset: str | None = None,
    metric: Annotated[Sequence[str], Parameter(negative=())] = (),
    extractor: Annotated[Sequence[str], Parameter(negative=())] = (),
    on_invalid: Literal["zero", "exclude"] | None = None,
    name: str | None = None,
    detach: Annotated[bool, Parameter(negative=())] = False,
    shown: Shown = HUMAN,
) -> int:
    """Evaluate the answers of another tool's file: a new run that asks no model.

    Args:
        file: What the other tool wrote.
        format: What it is; found out where it is not said.
        model: Who answered, where the file does not say.
        task: Registered task whose metrics, extractors and groups hold.
        dataset: Registered dataset that the questions are from, matched by the samples' keys; else the file's own.
        metric: Registered metric, NAME[@PROFILE][:VERSION]; may be given several times.
        extractor: How answers are read, NAME[:VERSION] or JSON with its params; the first one counts.
        on_invalid: What an answer counts as that cannot be read.
        name: Name of the new run.
        detach: Submit, print the id and return.
        shown: How the answer is shown.
    """
    given: dict[str, JsonValue] = {
        "answers": "0" * 64,
        "model": model,
        "task": task,
        "dataset": dataset,
        "metrics": list(metric) or None,
        "extractors": [read_extractor(text) for text in extractor] or None,
        "on_invalid": on_invalid,
        "name": name or file.name,
    }
    choices = check(RunImport, given)
    with tempfile.TemporaryDirectory(prefix="vlmhb-import-") as folder:
        neutral = Path(folder) / "answers.jsonl"
        write_answers(neutral, read(file, format=format))
        content = neutral.read_bytes()
    with Client() as client:
        sent = client.upload_answers(content)
        note(f"{file}: {sent.answers} answers of {sent.samples} samples, read as {sent.format}", shown)
        created = client.runs.import_(choices.model_copy(update={"answers": sent.sha256}))
        return see_through(client, created, detach=detach, shown=shown)
