"""Every value of a run spec knows where it was written: a line, an overlay, a flag, the submission, or a default."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import Shelf, load
from vlmhyperbench.domain.spec_values import name_of, values_of
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.origins import (
    origins_of,
    origins_of_experiment,
    written_in_entry,
    written_in_submission,
)
from vlmhyperbench.registry.resolution import resolve_experiment, resolve_run
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench_sdk.types import JsonObject

MORE = {
    "models/m.yaml": "backends: [engine, other]\nengine_params:\n  n_ctx: 1\n  parallel: 2\n",
    "backends/engine.yaml": "engine_params:\n  n_ctx: 9\n  threads: 3\n",
    "tasks/t.yaml": "dataset: d\nprompt: p\nmetrics: [anls]\nreports: [html]\nscenarios: [offline]\n"
    "decoding:\n  max_tokens: 7\n",
}


def _origins(catalogue: Catalogue, given: dict[str, str] | None = None, **choices: object) -> dict[str, str]:
    fields: JsonObject = {"target": {"model": "m"}, "task": "t", **choices}
    entry = RunEntry.model_validate(fields)
    spec = resolve_run(catalogue, entry, plugins=Shelf())
    origins = origins_of(catalogue, spec, written_in_submission(entry, given or {}))
    assert set(origins) == {name_of(path) for path, _ in values_of(spec)}
    return origins


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return load(tmp_path, MORE)


def test_a_parameter_of_an_engine_is_of_the_first_that_writes_it(catalogue: Catalogue) -> None:
    target = {"model": "m", "engine_params": {"parallel": 5}}
    origins = _origins(catalogue, {"target.engine_params": "--engine-param"}, target=target)
    assert origins["target.engine_params.n_ctx"] == "models/m.yaml:3"
    assert origins["target.engine_params.threads"] == "backends/engine.yaml:3"
    assert origins["target.engine_params.parallel"] == "--engine-param"
    assert origins["target.backend"] == "models/m.yaml:1"


def test_a_value_of_a_run_goes_before_that_of_its_task(catalogue: Catalogue) -> None:
    own = _origins(catalogue, {"decoding.max_tokens": "--max-tokens"}, decoding={"max_tokens": 3}, limit=2)
    assert (own["decoding.max_tokens"], own["dataset.limit"]) == ("--max-tokens", "submission")
    of_task = _origins(catalogue)
    assert (of_task["decoding.max_tokens"], of_task["dataset.limit"]) == ("tasks/t.yaml:7", "default")
    assert (of_task["metrics.0.name"], of_task["decoding.top_k"]) == ("tasks/t.yaml:3", "default")


def test_a_value_of_an_overlay_is_located_in_the_overlay(tmp_path: Path) -> None:
    overlay = {"tasks/t.dev.yaml": "decoding:\n  max_tokens: 8\n"}
    catalogue = load(tmp_path, {**MORE, **overlay}, run_mode="dev")
    assert _origins(catalogue)["decoding.max_tokens"] == "tasks/t.dev.yaml:2"


def test_a_registered_run_is_located_in_its_file(tmp_path: Path) -> None:
    run = {"runs/r.yaml": "target: {model: m}\ntask: t\nlimit: 4\n"}
    catalogue = load(tmp_path, {**MORE, **run})
    spec = resolve_run(catalogue, catalogue.runs["r"], plugins=Shelf())
    origins = origins_of(catalogue, spec, written_in_entry(catalogue, "runs", "r"))
    assert (origins["dataset.limit"], origins["task"]) == ("runs/r.yaml:3", "runs/r.yaml:2")


def test_the_runs_of_a_matrix_are_located_in_it(tmp_path: Path) -> None:
    matrix = "matrix:\n  targets:\n  - model: m\n  tasks:\n  - t\ndefaults:\n  limit: 3\n"
    catalogue = load(tmp_path, {**MORE, "experiments/e.yaml": matrix})
    entry = catalogue.experiments["e"]
    specs = [spec for _, spec in resolve_experiment(catalogue, entry, plugins=Shelf())]
    [origins] = origins_of_experiment(catalogue, entry, specs, "e", {})
    assert (origins["target.model"], origins["task"]) == ("experiments/e.yaml:3", "experiments/e.yaml:5")
    assert origins["dataset.limit"] == "experiments/e.yaml:7"
    submitted = ExperimentEntry.model_validate(entry.model_dump(exclude_unset=True) | {"name": ""})
    [origins] = origins_of_experiment(catalogue, submitted, specs, None, {"defaults.limit": "mine.yaml:7"})
    assert (origins["dataset.limit"], origins["target.model"]) == ("mine.yaml:7", "submission")


def test_examples_and_collections_are_located_in_the_prompt_or_the_dataset_that_writes_them(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "a.csv").write_text("prompt;doc_class_question_type\nRead;a b\n")
    few_shot = "few_shot:\n  split: train\n  count: 2\n  stratify: [doc_class]\n"
    origins = _origins(load(tmp_path, {**MORE, "prompts/p.yaml": f"collection: prompts/a.csv\n{few_shot}"}))
    assert origins["prompt.collection.sha256"] == "prompts/p.yaml:1"
    assert origins["prompt.type_mapping.a b.user_prompt"] == "prompts/p.yaml:1"
    drawn = "prompt.few_shot.dataset"
    assert [origins[f"{drawn}.{name}"] for name in ("split", "sampling.size", "sampling.by", "sampling.seed")] == [
        *("prompts/p.yaml:3", "prompts/p.yaml:4", "prompts/p.yaml:5"),
        "default",
    ]
    assert (origins[f"{drawn}.name"], origins[f"{drawn}.type"]) == ("tasks/t.yaml:1", "datasets/d.yaml:1")
    assert origins[f"{drawn}.limit"] == "default"
