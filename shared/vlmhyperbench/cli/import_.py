"""`import`: evaluate the answers of another tool's file as if a run of ours had asked for them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from pydantic import JsonValue

from vlmhyperbench.cli.choices import check, read_extractor
from vlmhyperbench.cli.output import note
from vlmhyperbench.cli.paths import is_file
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.cli.watch import see_through
from vlmhyperbench.client import Client
from vlmhyperbench.errors import InvalidInput, NotFound
from vlmhyperbench.exchange.converting import convert
from vlmhyperbench.exchange.reading import AUTO
from vlmhyperbench.registry.importing import Choices
from vlmhyperbench.wire.answers import RunImport


def import_(
    file: Path,
    /,
    *,
    format: str = AUTO,  # noqa: A002 (the flag's name)
    filter: str | None = None,  # noqa: A002 (the flag's name)
    key: str | None = None,
    results: Path | None = None,
    requests: Path | None = None,
    model: str | None = None,
    task: str | None = None,
    dataset: str | None = None,
    limit: int | None = None,
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
        filter: Of lm-eval: the filter whose answers and scores are taken.
        key: Of lm-eval: the field of its documents that is the sample's key.
        results: Of lm-eval: its results_*.json, which names the model.
        requests: Of OpenAI's batches: the input, which has the questions.
        model: Who answered, where the file does not say.
        task: Registered task whose metrics, extractors and groups hold.
        dataset: Registered dataset that the questions are from, matched by the samples' keys; else the file's own.
        limit: Only the first samples of --dataset, as the run asked that answered them; the others count as missing.
        metric: Registered metric, NAME[@PROFILE][:VERSION]; may be given several times.
        extractor: How answers are read, NAME[:VERSION] or JSON with its params; the first one counts.
        on_invalid: What an answer counts as that cannot be read.
        name: Name of the new run.
        detach: Submit, print the id and return.
        shown: How the answer is shown.
    """
    if not is_file(file):
        raise NotFound(f"{file} is no file.", cure="Name what the other tool wrote.")
    if limit is not None and dataset is None:
        raise InvalidInput("--limit bounds --dataset.", cure="Say --dataset too, or leave it out.", code="usage")
    given: dict[str, JsonValue] = {
        "model": model,
        "task": task,
        "dataset": dataset if limit is None else {"name": dataset, "limit": limit},
        "metrics": list(metric) or None,
        "extractors": [read_extractor(text) for text in extractor] or None,
        "on_invalid": on_invalid,
    }
    choices = check(Choices, given)
    with tempfile.TemporaryDirectory(prefix="vlmhb-import-") as folder:
        neutral = Path(folder) / "answers.jsonl"
        reading = convert(file, neutral, format, filter_name=filter, key=key, results=results, requests=requests)
        notes = asyncio.run(reading)
        for text in notes:
            note(f"note: {text}", shown)
        with Client() as client:
            sent = client.upload_answers(neutral.read_bytes())
    with Client() as client:
        note(f"{file}: {sent.answers} answers of {sent.samples} samples, read as {sent.format}", shown)
        chosen = choices.model_dump(exclude_unset=True)
        asked = check(RunImport, {**chosen, "answers": sent.sha256, "name": name or file.name})
        created = client.runs.import_(asked)
        return see_through(client, created, detach=detach, shown=shown)
