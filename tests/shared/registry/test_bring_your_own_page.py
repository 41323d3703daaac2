"""The page for what is one's own says only what is so: its files are read."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from vlmhyperbench.cli.run import read_entry
from vlmhyperbench.registry.loading import Catalogue, load_catalogue
from vlmhyperbench.registry.resolution import resolve_experiment, resolve_run
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench_document_datasets.annotation_csv import AnnotationCsv
from vlmhyperbench_sdk.protocols import DatasetSource

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "bring-your-own.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(ROOT / "registries")


def test_the_run_with_every_field_has_every_field_and_can_be_submitted(catalogue: Catalogue, tmp_path: Path) -> None:
    file = tmp_path / "every-field.yaml"
    file.write_text(blocks("yaml")[0], encoding="utf-8")
    entry = read_entry(file)
    assert isinstance(entry, RunEntry)
    assert entry.model_fields_set == set(RunEntry.model_fields)
    spec = resolve_run(catalogue, entry)
    assert spec.dataset.limit == 20
    assert spec.target.engine_params["omit"] == ["seed"]
    assert spec.stop is None or spec.stop.baseline is not None, "a run by itself has no first run to be compared with"


def test_the_experiment_limits_every_task_s_own_data(catalogue: Catalogue, tmp_path: Path) -> None:
    file = tmp_path / "matrix.yaml"
    file.write_text(blocks("yaml")[1], encoding="utf-8")
    entry = read_entry(file)
    assert isinstance(entry, ExperimentEntry)
    runs = resolve_experiment(catalogue, entry)
    assert [spec.dataset.limit for _, spec in runs] == [20] * 4
    assert len({spec.dataset.name for _, spec in runs}) == 2


def test_the_csv_is_read(tmp_path: Path) -> None:
    [text] = blocks("csv")
    file = tmp_path / "questions.csv"
    file.write_text(text, encoding="utf-8")
    samples = list(AnnotationCsv(DatasetSource(path=file)))
    assert [sample.references[0] for sample in samples] == [row["answer"] for row in csv.DictReader(io.StringIO(text))]
    assert samples[0].metadata == {"kind": "receipt"}
