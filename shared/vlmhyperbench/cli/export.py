"""`export`: write a finished run in the format of another tool, or as a table."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal
from uuid import UUID

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.groups import OUTPUT, PUBLICATION
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.paths import is_dir
from vlmhyperbench.cli.shown import HUMAN, Shown
from vlmhyperbench.client import Client
from vlmhyperbench.domain.short_ids import short
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.exported import ExportedRun, ExportedSample
from vlmhyperbench.exchange.pictures import Pictures
from vlmhyperbench.exchange.staging import Staging, staged
from vlmhyperbench.files import STDOUT
from vlmhyperbench.wire.results import Result
from vlmhyperbench.wire.runs import RunDetail

Format = Literal["parquet", "jsonl", "lm-eval", "inspect", "hf", "csv"]

PAGE_ROWS = 500
_ENDINGS: dict[Format, str] = {"parquet": ".parquet", "jsonl": ".jsonl", "inspect": ".eval", "csv": ".csv"}
"""Of formats that are one file; the others are a folder."""


def export(
    run_id: str,
    /,
    *,
    format: Annotated[Format, Parameter(group=OUTPUT)],  # noqa: A002 -- the flag's name
    out: Annotated[Path | None, Parameter(group=OUTPUT, allow_leading_hyphen=True)] = None,
    hub_dataset: Annotated[str | None, Parameter(group=PUBLICATION)] = None,
    hub_task: Annotated[str | None, Parameter(group=PUBLICATION)] = None,
    source_url: Annotated[str | None, Parameter(group=PUBLICATION)] = None,
    shown: Shown = HUMAN,
) -> int:
    """Write a run that has ended in the format of another tool, or as a table.

    Args:
        run_id: Id of the run.
        format: parquet and jsonl have everything; csv has one row per answer, metric and extractor; lm-eval writes
            samples and results as lm-evaluation-harness does; inspect writes a log that inspect_ai opens; hf writes
            the scores for a model repository of the Hugging Face Hub.
        out: The file, or the folder for lm-eval and hf; a file is put into a folder that exists. A file of the same
            name is replaced, and nothing else is. - is stdout, for formats that are one file.
        hub_dataset: For hf, the benchmark's dataset on the Hub, OWNER/NAME.
        hub_task: For hf, the task in that benchmark.
        source_url: For hf, where the results can be looked up.
        shown: How the answer is shown.
    """
    given = {"--hub-dataset": hub_dataset, "--hub-task": hub_task, "--source-url": source_url}
    if out == STDOUT and (shown.json or format not in _ENDINGS):
        what = "--json has stdout for itself" if shown.json else f"{format} is a folder"
        raise InvalidInput(f"--out - is stdout, and {what}.", cure="Name a place with --out.", code="usage")
    if format != "hf" and (idle := [flag for flag, value in given.items() if value is not None]):
        raise InvalidInput(f"{idle[0]} says nothing to --format {format}.", cure="Leave it out.", code="usage")
    with Client() as client, tempfile.TemporaryDirectory(prefix="vlmhb-export-") as folder:
        run = _find(client, run_id)
        place = _place(run, format, Path(folder) if out == STDOUT else out)
        with staged(place) as staging:
            counted = _Counted(client, run, shown)
            pictures = Pictures(lambda sha256: client.image(run.id, sha256))
            if format == "hf":
                from vlmhyperbench.exchange.as_huggingface import Hub, write_huggingface

                hub = Hub(dataset=hub_dataset, task=hub_task, source=source_url)
                write_huggingface(counted.run, hub, out=place, staging=staging)
            else:
                _write(format, counted.run, counted.samples(), place, staging, pictures)
        if out == STDOUT:
            with place.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    warnings = _warnings(format, counted.run, hub_dataset)
    if pictures.left_out:
        warnings.append(f"Images that are only named, not included: {pictures.left_out}.")
    files = [str(path) for path in staging.files]
    if shown.json:
        answers = None if format == "hf" else counted.answers
        data = {"run": str(run.id), "format": format, "files": files, "answers": answers}
        emit("export", data, warnings=warnings)
    else:
        for warning in warnings:
            note(f"note: {warning}")
        for name in files if out != STDOUT else []:
            say(f"export: {name}")
    return exits.OK


class _Counted:
    """A run on its way out: its header, and its answers, counted as they pass."""

    def __init__(self, client: Client, run: RunDetail, shown: Shown) -> None:
        from vlmhyperbench.exchange.exporting import exported_run

        self.run = exported_run(run)
        self.answers = 0
        self._client, self._detail, self._shown = client, run, shown

    def samples(self) -> Iterator[ExportedSample]:
        """Read the answers, page by page."""
        from vlmhyperbench.exchange.exporting import exported_samples

        for sample in exported_samples(self._detail, _pages(self._client, self._detail.id)):
            self.answers += 1
            if self.answers % 10_000 == 0:
                note(f"  {self.answers}/{self._detail.total or '?'} answers", self._shown)
            yield sample


def _write(
    format: Format,  # noqa: A002
    run: ExportedRun,
    samples: Iterable[ExportedSample],
    place: Path,
    staging: Staging,
    pictures: Pictures,
) -> None:
    from vlmhyperbench.exchange.as_inspect import write_inspect
    from vlmhyperbench.exchange.as_jsonl import write_jsonl
    from vlmhyperbench.exchange.as_lm_eval import write_lm_eval
    from vlmhyperbench.exchange.as_tables import write_csv, write_parquet

    writers: dict[str, Callable[..., None]] = {
        "parquet": write_parquet,
        "jsonl": write_jsonl,
        "csv": write_csv,
        "lm-eval": write_lm_eval,
        "inspect": partial(write_inspect, pictures=pictures),
    }
    writers[format](run, samples, out=place, staging=staging)


def _find(client: Client, wanted: str) -> RunDetail:
    subject = find(client, wanted)
    if isinstance(subject, RunDetail):
        return subject
    runs = ", ".join(str(run.id) for run in subject.runs)
    raise InvalidInput(
        f"{subject.name} is an experiment; an export is of one run.", cure=f"Name one of its runs: {runs}."
    )


def _pages(client: Client, run_id: UUID) -> Iterator[list[Result]]:
    cursor: str | None = None
    while True:
        page = client.results(run_id, limit=PAGE_ROWS, cursor=cursor)
        if page.items:
            yield page.items
        if page.next is None:
            return
        cursor = page.next


def _place(run: RunDetail, format: Format, out: Path | None) -> Path:  # noqa: A002
    ending = _ENDINGS.get(format)
    if ending is None:
        return out or Path(f"export-{short(run.id)}")
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', run.name).strip('.-')[:80] or 'run'}-{short(run.id)}{ending}"
    if out is None:
        return Path(name)
    return out / name if is_dir(out) else out


def _warnings(format: Format, run: ExportedRun, hub_dataset: str | None) -> list[str]:  # noqa: A002
    found = []
    if format == "hf" and hub_dataset is None:
        found.append(f"{run.dataset!r} is our name of the data set: say which it is on the Hub with --hub-dataset.")
    if format in {"hf", "lm-eval", "inspect"}:
        found += [f"{figure.key}: {figure.gap}." for figure in run.headline if figure.gap]
        if not run.headline:
            found.append("The run has no report, so there are no scores over all answers.")
    return found
