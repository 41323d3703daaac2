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
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.paths import is_file
from vlmhyperbench.cli.watch import follow_submitted
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
    format_: Annotated[str, Parameter(name="--format", group=SOURCE)] = AUTO,
    filter_: Annotated[str | None, Parameter(name="--filter", group=SOURCE)] = None,
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
    output: OutputFlags = TEXT,
) -> int:
    """Score answers from a file of another tool, in a new run. No model is asked.

    Args:
        file: File that the other tool wrote.
        format_: Format of the file; by default it is detected.
        filter_: For lm-eval: filter whose answers and scores are read.
        key: For lm-eval: field of its documents that is the key of the sample.
        results: For lm-eval: its file results_*.json, which names the model.
        requests: For OpenAI batches: the input file, which contains the questions.
        model: Name of the model, if the file does not contain it.
        task: Registered task whose metrics, extractors and groups are used.
        dataset: Registered dataset of the questions, matched by the keys of the samples; by default the questions of
            the file.
        limit: Number of samples from the start of --dataset that the model was asked; those without an answer count as
            missing.
        metric: Registered metric, NAME[@PROFILE][:VERSION]; may be given several times.
        extractor: Registered extractor, NAME[:VERSION], or JSON with its name and params; may be given several times.
            The first one determines the main score.
        on_invalid: Score of an answer that cannot be parsed: zero, or exclude it.
        name: Name of the new run; by default the name of the file.
        detach: Print the id and return at once, without waiting for the end.
        output: How the output is printed.
    """
    if not is_file(file):
        raise NotFound(f"There is no file {file}.", cure="Name the file that the other tool wrote.")
    if limit is not None and dataset is None:
        raise InvalidInput("--limit needs --dataset.", cure="Give --dataset too, or leave out --limit.", code="usage")
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
        reading = convert(file, neutral, format_, filter_name=filter_, key=key, results=results, requests=requests)
        notes = asyncio.run(reading)
        for text in notes:
            note(f"note: {text}", output)
        with Client() as client:
            sent = client.upload_answers(neutral.read_bytes())
    with Client() as client:
        note(f"{file}: {sent.answers} answers of {sent.samples} samples, read as {sent.format}", output)
        chosen = choices.model_dump(exclude_unset=True)
        request = check(RunImport, {**chosen, "answers": sent.sha256, "name": name or file.name})
        created = client.runs.import_(request)
        return follow_submitted(client, created, detach=detach, output=output)
