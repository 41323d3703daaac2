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
from vlmhyperbench.cli.groups import SCORING, SOURCE, SUBMISSION, TASK
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
    format: Annotated[str, Parameter(group=SOURCE)] = AUTO,  # noqa: A002 (the flag's name)
    filter: Annotated[str | None, Parameter(group=SOURCE)] = None,  # noqa: A002 (the flag's name)
    key: Annotated[str | None, Parameter(group=SOURCE)] = None,
    results: Annotated[Path | None, Parameter(group=SOURCE)] = None,
    requests: Annotated[Path | None, Parameter(group=SOURCE)] = None,
    model: Annotated[str | None, Parameter(group=SOURCE)] = None,
    task: Annotated[str | None, Parameter(group=TASK)] = None,
    dataset: Annotated[str | None, Parameter(group=TASK)] = None,
    limit: Annotated[int | None, Parameter(group=TASK)] = None,
    metric: Annotated[Sequence[str], Parameter(group=SCORING)] = (),
    extractor: Annotated[Sequence[str], Parameter(group=SCORING)] = (),
    on_invalid: Annotated[Literal["zero", "exclude"] | None, Parameter(group=SCORING)] = None,
    name: Annotated[str | None, Parameter(group=SUBMISSION)] = None,
    detach: Annotated[bool, Parameter(group=SUBMISSION)] = False,
    shown: Shown = HUMAN,
) -> int:
    """Score the answers in another tool's file: a new run that asks no model.

    Args:
        file: File or folder that the other tool wrote.
        format: Format of the file; detected by default.
        filter: For lm-eval, the filter whose answers and scores are taken.
        key: For lm-eval, the field of its documents that is the sample's key.
        results: For lm-eval, its results_*.json, which names the model.
        requests: For OpenAI batches, the input file, which has the questions.
        model: Name of the model, where the file has none.
        task: Registered task whose metrics, extractors and groups are used.
        dataset: Registered dataset of the questions, matched by the samples' keys; by default the file's own.
        limit: Number of samples of --dataset that were asked, from its start; those without an answer count as missing.
        metric: Registered metric, NAME[@PROFILE][:VERSION]; may be given several times.
        extractor: How answers are read, NAME[:VERSION] or JSON with its params; the first one counts.
        on_invalid: Score of an answer that cannot be parsed.
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
