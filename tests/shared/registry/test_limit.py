"""How many samples are asked: `limit` of a run or a matrix, and what is said of a data set in place of a task's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import Shelf, load, write
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.resolution import replaced_data, resolve_experiment, resolve_run
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry

OTHER = {"datasets/o.yaml": "type: drawn\nlimit: 9\n"}
RUN = {"target": {"model": "m"}, "task": "t"}


def test_a_limit_of_the_run_bounds_its_task_s_own_data_set(tmp_path: Path) -> None:
    catalogue = load(tmp_path)
    limited = resolve_run(catalogue, RunEntry.model_validate({**RUN, "limit": 2}), plugins=Shelf())
    same = resolve_run(
        catalogue, RunEntry.model_validate({**RUN, "dataset": {"name": "d", "limit": 2}}), plugins=Shelf()
    )
    assert (limited.dataset.name, limited.dataset.limit) == ("d", 2)
    assert limited.dataset == same.dataset


def test_the_limit_of_the_run_goes_over_that_of_the_entry_and_contradicts_no_other(tmp_path: Path) -> None:
    catalogue = load(tmp_path, OTHER)
    both = RunEntry.model_validate({**RUN, "dataset": "o", "limit": 20})
    assert resolve_run(catalogue, both, plugins=Shelf()).dataset.limit == 20
    twice = RunEntry.model_validate({**RUN, "dataset": {"name": "o", "limit": 3}, "limit": 20})
    with pytest.raises(RegistryErrors) as refused:
        resolve_run(catalogue, twice, plugins=Shelf())
    assert [error.field for error in refused.value.errors] == ["limit"]


def test_a_limit_in_the_defaults_of_a_matrix_replaces_no_data(tmp_path: Path) -> None:
    own = {"tasks/u.yaml": "dataset: o\nprompt: p\nmetrics: [cer]\nreports: [html]\n", **OTHER}
    catalogue = load(tmp_path, own)
    entry = ExperimentEntry.model_validate(
        {"matrix": {"targets": [{"model": "m"}], "tasks": ["t", "u"]}, "defaults": {"limit": 5}}
    )
    specs = [spec for _, spec in resolve_experiment(catalogue, entry, plugins=Shelf())]
    assert [(spec.dataset.name, spec.dataset.limit) for spec in specs] == [("d", 5), ("o", 5)]
    assert replaced_data(catalogue, entry) == []


def test_a_data_set_in_place_of_a_task_s_own_is_told_by_name(tmp_path: Path) -> None:
    catalogue = load(tmp_path, OTHER)
    entry = ExperimentEntry.model_validate(
        {"matrix": {"targets": [{"model": "m"}], "tasks": ["t"]}, "defaults": {"dataset": {"name": "o", "limit": 5}}}
    )
    [warning] = replaced_data(catalogue, entry)
    assert all(name in warning for name in ("'o'", "'d'", "'t'"))
    assert replaced_data(catalogue, RunEntry.model_validate({**RUN, "dataset": "o"})) == [warning]
    assert replaced_data(catalogue, RunEntry.model_validate({**RUN, "dataset": {"name": "d", "limit": 1}})) == []
    assert replaced_data(catalogue, RunEntry.model_validate({**RUN, "task": "none", "dataset": "o"})) == []


def test_registered_runs_and_experiments_that_replace_data_are_warned_of(tmp_path: Path) -> None:
    run = {"runs/swap.yaml": "target: {model: m}\ntask: t\ndataset: o\n", "experiments/e.yaml": "runs: [swap]\n"}
    catalogue = read_catalogue([write(tmp_path, {**OTHER, **run})], plugins=Shelf())
    assert [warning.partition(":")[0] for warning in catalogue.warnings] == ["runs/swap.yaml", "experiments/e.yaml"]
