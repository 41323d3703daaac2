"""Exports through a real stack: every format of a finished run, and an export whose process is killed."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import polars
import psycopg
import pytest
import yaml
from sqlalchemy.engine import make_url

from tests.support.processes import PATIENCE_S, wait_until_ended
from tests.support.stack import Stack, until
from vlmhyperbench.errors import Unavailable
from vlmhyperbench.exchange.reading import read
from vlmhyperbench.wire.exports import Export, ExportFormat
from vlmhyperbench.wire.runs import RunDetail

SAMPLES = 6
LIMIT = {"target": {"model": "simulated-instant"}, "task": "document-qa"}


@pytest.fixture(scope="module")
def run(stack: Stack) -> RunDetail:
    dataset = {"name": "synthetic-documents", "limit": SAMPLES}
    found: RunDetail = stack.wait(stack.client.runs.create(run={**LIMIT, "dataset": dataset}).id)
    assert (found.state, found.done) == ("SUCCEEDED", SAMPLES)
    return found


def _ended(stack: Stack, export_id: UUID) -> Export:
    def ended() -> Export | None:
        try:
            export = stack.client.exports.get(export_id)
        except Unavailable:  # its process begins again
            return None
        return export if export.state not in ("QUEUED", "RUNNING") else None

    found: Export = until(ended, f"end of export {export_id}", PATIENCE_S)
    return found


def _exported(stack: Stack, run: RunDetail, format_: ExportFormat) -> bytes:
    export = _ended(stack, stack.client.exports.ask(format_, runs=[run.id]).id)
    assert (export.state, export.error, export.done, export.total) == ("DONE", None, SAMPLES, SAMPLES)
    content = stack.client.exports.content(export.id)
    assert len(content) == export.size_bytes
    return content


def test_parquet_has_a_row_for_each_answer(stack: Stack, run: RunDetail) -> None:
    frame = polars.read_parquet(io.BytesIO(_exported(stack, run, "parquet")))
    assert frame.height == SAMPLES
    assert set(frame["status"]) == {"ok"}


def test_csv_is_a_table_that_its_reader_takes(stack: Stack, run: RunDetail, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(_exported(stack, run, "csv"))
    assert len(list(read(path).answers)) == SAMPLES


def test_inspect_is_a_log_that_its_reader_takes(stack: Stack, run: RunDetail, tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    path.write_bytes(_exported(stack, run, "inspect"))
    with zipfile.ZipFile(path) as log:
        header = json.loads(log.read("header.json"))
    assert (header["status"], header["eval"]["task"]) == ("success", "document-qa")
    assert len(list(read(path).answers)) == SAMPLES


def test_lm_eval_is_a_folder_that_its_reader_takes(stack: Stack, run: RunDetail, tmp_path: Path) -> None:
    zipfile.ZipFile(io.BytesIO(_exported(stack, run, "lm-eval"))).extractall(tmp_path)
    [samples] = tmp_path.rglob("samples_*.jsonl")
    [results] = tmp_path.rglob("results_*.json")
    answers = list(read(samples).answers)
    assert len(answers) == SAMPLES
    assert json.loads(results.read_text())["n-samples"]["document-qa"]["original"] == SAMPLES


def test_hf_is_the_results_for_a_model_card(stack: Stack, run: RunDetail, tmp_path: Path) -> None:
    zipfile.ZipFile(io.BytesIO(_exported(stack, run, "hf"))).extractall(tmp_path)
    [results] = tmp_path.rglob(".eval_results/*.yaml")
    [entry] = yaml.safe_load(results.read_text())
    assert entry["dataset"]["task_id"] == "document-qa"
    assert 0 <= entry["value"] <= 1
    [index] = tmp_path.rglob("model-index.yaml")
    assert yaml.safe_load(index.read_text())["model-index"][0]["results"]


def test_an_export_of_a_run_with_examples_has_what_was_sent(
    stack: Stack, command: Callable[..., Any], tmp_path: Path
) -> None:
    dataset = {"name": "digits", "sampling": {"size": SAMPLES, "seed": 3}, "preprocess": [{"step": "greyscale"}]}
    entry = {**LIMIT, "task": "digits", "prompt": "digits-examples", "dataset": dataset, "reports": ["json"]}
    shown = stack.wait(stack.client.runs.create(run=entry).id)
    assert (shown.state, shown.done) == ("SUCCEEDED", SAMPLES)
    _, *lines = map(json.loads, _exported(stack, shown, "jsonl").splitlines())
    command("export", str(shown.id), "--format", "jsonl", "--out", str(tmp_path / "run.jsonl"))
    assert [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()][1:] == lines
    examples = lines[0]["examples"]
    assert [line["examples"] for line in lines] == [examples] * SAMPLES
    detail = stack.client.runs.sample(shown.id, "1.0")
    assert lines[0]["user_prompt"] == detail.user_prompt
    assert examples == [example.model_dump() for example in detail.examples]
    assert len(examples) == 2
    assert all(result.prompt is None for result in stack.client.results(run_id=shown.id).items)
    files = {file.name: file.id for file in stack.client.artifacts(run_id=shown.id).items}
    report = json.loads(stack.client.artifact_content(files["report.json"]))
    [provenance] = [section for section in report["sections"] if section["name"] == "provenance"]
    items = dict(provenance["blocks"][0]["items"])
    assert (items["samples taken"], items["images"]) == (f"{SAMPLES} drawn with seed 3", "made grey")


def test_an_export_whose_process_is_killed_is_written_by_the_next(stack: Stack, run: RunDetail) -> None:
    with _locked(stack, "fact"):  # its writer waits for the answers, for sure
        export = stack.client.exports.ask("jsonl", runs=[run.id])
        until(lambda: _of(stack, export.id, "state") == "RUNNING", "the export is claimed", PATIENCE_S)
        dead = _of(stack, export.id, "claim_id")
        wait_until_ended(stack.kill("api"))
    stack.query("UPDATE export SET lease_until = now() - interval '1 s' WHERE claim_id = %s RETURNING id", dead)
    made = _ended(stack, export.id)
    assert (made.state, made.error, made.done) == ("DONE", None, SAMPLES)
    assert _of(stack, export.id, "claim_id") != dead
    assert len(stack.client.exports.content(export.id).splitlines()) >= SAMPLES


@contextmanager
def _locked(stack: Stack, table: str) -> Iterator[None]:
    url = make_url(stack.setting("database_url")).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def _of(stack: Stack, export_id: UUID, column: str) -> object:
    return stack.query(f"SELECT {column} FROM export WHERE id = %s", export_id)[0][0]
