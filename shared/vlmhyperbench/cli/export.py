"""`export`: write a finished run in the format of another tool, or as a table."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from uuid import UUID

from cyclopts import Parameter

from vlmhyperbench.cli import exits
from vlmhyperbench.cli.following import find
from vlmhyperbench.cli.groups import OUTPUT, PUBLICATION
from vlmhyperbench.cli.output import emit, note, say
from vlmhyperbench.cli.output_flags import TEXT, OutputFlags
from vlmhyperbench.cli.paths import is_dir
from vlmhyperbench.client import Client
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.exported import ExportedRun, ExportedSample
from vlmhyperbench.exchange.formats import ENDINGS, Format, name_of, write_samples
from vlmhyperbench.exchange.pictures import Pictures
from vlmhyperbench.exchange.staging import staged
from vlmhyperbench.files import STDOUT
from vlmhyperbench.wire.results import Result
from vlmhyperbench.wire.runs import RunDetail

PAGE_ROWS = 500


def export(
    run_id: str,
    /,
    *,
    format_: Annotated[Format, Parameter(name="--format", group=OUTPUT)],
    out: Annotated[Path | None, Parameter(group=OUTPUT, allow_leading_hyphen=True)] = None,
    hub_dataset: Annotated[str | None, Parameter(group=PUBLICATION)] = None,
    hub_task: Annotated[str | None, Parameter(group=PUBLICATION)] = None,
    source_url: Annotated[str | None, Parameter(group=PUBLICATION)] = None,
    output: OutputFlags = TEXT,
) -> int:
    """Write a finished run in the format of another tool, or as a table.

    Args:
        run_id: Id of a finished run, or its first digits.
        format_: parquet, jsonl: everything, in one file. csv: one row per answer, metric and extractor. lm-eval:
            samples and results as lm-evaluation-harness writes them. inspect: a log for inspect_ai. hf: the scores, for
            a model repository of the Hugging Face Hub.
        out: File to write, or folder for lm-eval and hf. If a file's path is a folder, the file is written into it. An
            existing file is replaced. - writes a file to stdout. By default a file or folder with the id of the run, in
            the current folder.
        hub_dataset: For hf: dataset of the benchmark on the Hub, OWNER/NAME.
        hub_task: For hf: task of that benchmark.
        source_url: For hf: URL at which the results are published.
        output: How the output is printed.
    """
    given = {"--hub-dataset": hub_dataset, "--hub-task": hub_task, "--source-url": source_url}
    if out == STDOUT and (output.json or format_ not in ENDINGS):
        reason = "--json prints to stdout too" if output.json else f"--format {format_} writes a folder"
        raise InvalidInput(
            f"--out - is not possible: {reason}.", cure="Name a file or folder with --out.", code="usage"
        )
    if format_ != "hf" and (idle := [flag for flag, value in given.items() if value is not None]):
        message = f"{idle[0]} has no effect on --format {format_}."
        raise InvalidInput(message, cure=f"Leave out {idle[0]}, or give --format hf.", code="usage")
    with Client() as client, tempfile.TemporaryDirectory(prefix="vlmhb-export-") as folder:
        run = _find(client, run_id)
        path = _path(run, format_, Path(folder) if out == STDOUT else out)
        with staged(path) as staging:
            counted = _Counted(client, run, output)
            pictures = Pictures(lambda sha256: client.image(run.id, sha256))
            if format_ == "hf":
                from vlmhyperbench.exchange.as_huggingface import Hub, write_huggingface

                hub = Hub(dataset=hub_dataset, task=hub_task, source=source_url)
                write_huggingface(counted.run, hub, out=path, staging=staging)
            else:
                write_samples(format_, counted.run, counted.samples(), path, staging, pictures)
        if out == STDOUT:
            with path.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    warnings = _warnings(format_, counted.run, hub_dataset)
    if pictures.left_out:
        warnings.append(f"{pictures.left_out} images could not be read; the log contains only their names.")
    files = [str(path) for path in staging.files]
    if output.json:
        answers = None if format_ == "hf" else counted.answers
        data = {"run": str(run.id), "format": format_, "files": files, "answers": answers}
        emit("export", data, warnings=warnings)
    else:
        for warning in warnings:
            note(f"note: {warning}")
        for name in files if out != STDOUT else []:
            say(f"export: {name}")
    return exits.OK


class _Counted:
    """A run that is exported: its header, and its samples, which are counted."""

    def __init__(self, client: Client, run: RunDetail, output: OutputFlags) -> None:
        from vlmhyperbench.exchange.exporting import exported_run

        self.run = exported_run(run)
        self.answers = 0
        self._client, self._detail, self._output = client, run, output

    def samples(self) -> Iterator[ExportedSample]:
        """Read the samples, page by page."""
        from vlmhyperbench.exchange.exporting import exported_samples

        for sample in exported_samples(self._detail, _pages(self._client, self._detail.id)):
            self.answers += 1
            if self.answers % 10_000 == 0:
                note(f"  {self.answers}/{self._detail.total or '?'} answers", self._output)
            yield sample


def _find(client: Client, wanted: str) -> RunDetail:
    subject = find(client, wanted)
    if isinstance(subject, RunDetail):
        return subject
    runs = ", ".join(str(run.id) for run in subject.runs)
    raise InvalidInput(f"{subject.name} is an experiment, not a run.", cure=f"Name one of its runs: {runs}.")


def _pages(client: Client, run_id: UUID) -> Iterator[list[Result]]:
    cursor: str | None = None
    while True:
        page = client.results(run_id, prompts=True, limit=PAGE_ROWS, cursor=cursor)
        if page.items:
            yield page.items
        if page.next is None:
            return
        cursor = page.next


def _path(run: RunDetail, format_: Format, out: Path | None) -> Path:
    name = name_of(run, format_)
    if out is None:
        return Path(name)
    return out / name if format_ in ENDINGS and is_dir(out) else out


def _warnings(format_: Format, run: ExportedRun, hub_dataset: str | None) -> list[str]:
    warnings = []
    if format_ == "hf" and hub_dataset is None:
        warnings.append(f"{run.dataset!r} may have another name on the Hub: give that name with --hub-dataset.")
    if format_ in {"hf", "lm-eval", "inspect"}:
        warnings += [f"{figure.key}: {figure.gap}." for figure in run.headline if figure.gap]
        if not run.headline:
            warnings.append("The run has no report, so there are no scores over all answers.")
    return warnings
