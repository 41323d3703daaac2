"""A run's numbers for the Hub: one per benchmark in `.eval_results`, all of them in a model index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.shared.exchange.exported_run import RUN, exported, run, spec
from tests.support.wording import Wording
from vlmhyperbench.errors import Conflict
from vlmhyperbench.exchange.as_huggingface import Hub, write_huggingface
from vlmhyperbench.exchange.exported import ExportedRun
from vlmhyperbench.exchange.staging import staged
from vlmhyperbench.wire.runs import Headline, MetricScore

HUB = Hub(dataset="lmms-lab/DocVQA", task="docvqa_val", source="https://example.org/results")


def _write(folder: Path, header: ExportedRun | None = None, hub: Hub = HUB) -> tuple[Any, Any]:
    with staged(folder) as staging:
        write_huggingface(header or exported(), hub, out=folder, staging=staging)
    (entries,) = (folder / ".eval_results").iterdir()
    index = yaml.safe_load((folder / "model-index.yaml").read_text())
    return yaml.safe_load(entries.read_text()), index["model-index"]


def test_the_first_metric_is_the_benchmarks_number_with_dataset_task_and_source(
    tmp_path: Path, wording: Wording
) -> None:
    (entry,), _ = _write(tmp_path)
    notes = entry.pop("notes")
    assert entry == {
        "dataset": {"id": "lmms-lab/DocVQA", "task_id": "docvqa_val"},
        "value": 0.7,
        "date": "2026-01-02T03:05:05.250000+00:00",
        "source": {"url": "https://example.org/results", "name": exported().tool},
    }
    assert f"run {RUN}" in notes
    wording(notes, RUN=RUN, TOOL=exported().tool)


def test_a_number_says_in_its_notes_and_its_name_which_answers_are_missing(tmp_path: Path) -> None:
    (entry,), (index,) = _write(tmp_path)
    missing = exported().headline[0].gap
    assert missing in entry["notes"]
    anls, match = (result["metrics"][0] for result in index["results"])
    assert missing in anls["name"]
    assert (anls["args"]["without_value"], anls["args"]["lower"]) == (1, 0.35)
    assert match["name"] == "exact_match (2 of 4 answers scored)"


def test_the_notes_state_that_a_run_did_not_succeed(tmp_path: Path, wording: Wording) -> None:
    (entry,), _ = _write(tmp_path, exported(run(state=type(run().state)("PARTIAL"))))
    assert "ended partial" in entry["notes"]
    wording(entry["notes"], RUN=RUN, TOOL=exported().tool)


def test_every_metric_has_its_place_in_the_model_index_as_a_number(tmp_path: Path) -> None:
    _, (index,) = _write(tmp_path)
    assert index["name"] == "tiny"
    assert [(r["metrics"][0]["type"], r["metrics"][0]["value"]) for r in index["results"]] == [
        ("anls", 0.7),
        ("exact_match", 0.5),
    ]
    assert index["results"][0]["task"] == {"type": "image-text-to-text", "name": "document-qa"}
    assert index["results"][0]["dataset"] == {"type": "lmms-lab/DocVQA", "name": "documents"}


def test_without_flags_our_own_names_stand_and_no_source_is_made_up(tmp_path: Path) -> None:
    (entry,), (index,) = _write(tmp_path, hub=Hub())
    assert entry["dataset"] == {"id": "documents", "task_id": "document-qa"}
    assert "source" not in entry
    assert "source" not in index["results"][0]


@pytest.mark.parametrize("value", [1 / 3, 0.1 + 0.2, 1e-300, 1e22, 1.0])
def test_numbers_are_read_back_to_the_last_bit(tmp_path: Path, value: float) -> None:
    headline = Headline(scores=[MetricScore(metric="anls", value=value, n=4)])
    (entry,), _ = _write(tmp_path, exported(run(headline=headline)))
    assert entry["value"] == value
    assert isinstance(entry["value"], float)


@pytest.mark.parametrize("headline", [None, Headline(scores=[MetricScore(metric="anls", value=None, n=0)])])
def test_a_run_without_a_number_is_refused_and_nothing_is_written(tmp_path: Path, headline: Headline | None) -> None:
    with pytest.raises(Conflict, match="no score"):
        _write(tmp_path / "out", exported(run(headline=headline)))
    assert list(tmp_path.iterdir()) == []


def test_hostile_names_stay_text_and_inside_the_folder(tmp_path: Path) -> None:
    name = "../!!python/object: {x}\x00\ud800: [1]"
    (entry,), _ = _write(tmp_path / "out", exported(run(pinned=spec(task=name))), Hub())
    assert (
        entry["dataset"]["task_id"] == "../!!python/object: {x}\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}: [1]"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
