"""One dataset of twelve images as CSV, as JSONL and as a folder of the hub: the same samples, scored the same."""

import json

import pytest
import yaml

from tests.support import benchmarks, tables
from tests.support.replaying import replaying
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry

FORMATS = ("csv", "jsonl", "hub")


@pytest.fixture(scope="module")
def registries(registries, tmp_path_factory):
    """Add the three datasets, and rows in place of the data of public benchmarks."""
    folder = tmp_path_factory.mktemp("tables")
    by_bars = {**tables.COLUMNS, "references": {"column": "answers", "split": "|"}}
    entries = {
        "csv": {"path": str(tables.write_csv(folder / "csv", separator=";", encoding="utf-8-sig"))},
        "jsonl": {"path": str(tables.write_jsonl(folder / "jsonl"))},
        "hub": {"path": str(tables.write_hub(folder / "hub")), "split": "test"},
    }
    for name, entry in entries.items():
        params = {"columns": by_bars if name == "csv" else tables.COLUMNS}
        entry = {"type": "table", **entry, "params": params, "preprocess": [{"step": "rotate", "degrees": 90}]}
        (registries / "datasets" / f"twelve-{name}.yaml").write_text(json.dumps(entry))
    for name in benchmarks.names():
        entry = registries / "datasets" / f"{name}.yaml"
        known = yaml.safe_load(entry.read_text())
        known.pop("revision", None)
        known["path"] = str(
            benchmarks.write_hub(
                benchmarks.fixture(name), folder / name, split=known["split"], config=known["params"].get("config")
            )
        )
        entry.write_text(yaml.safe_dump(known, sort_keys=False))
    return registries


@pytest.fixture(scope="module")
def fixtures():
    """Rows of every public benchmark, whose datasets read them in this module."""
    return {name: benchmarks.fixture(name) for name in benchmarks.names()}


@pytest.fixture(scope="module")
def replay(fixtures):
    """An endpoint that answers the rows."""
    with replaying([*fixtures.values()]) as url:
        yield url


def test_three_ways_to_one_dataset_give_equal_samples_and_scores(stack):
    results = {}
    for form in FORMATS:
        entry = {"target": {"model": "simulated-instant"}, "task": "synthetic-questions"}
        run = stack.wait(stack.client.runs.create(RunEntry.model_validate({**entry, "dataset": f"twelve-{form}"})).id)
        assert (run.state, run.total, run.failed) == ("SUCCEEDED", 12, 0)
        results[form] = sorted(
            (result.key, result.question, tuple(result.references), result.text, result.error)
            for result in stack.client.results(run_id=run.id, limit=50).items
        )
        (digest,) = stack.query("SELECT spec -> 'dataset' ->> 'preprocess' FROM run WHERE id = %s", run.id)[0]
        assert json.loads(digest) == [{"step": "rotate", "degrees": 90}]
    assert results["csv"] == results["jsonl"] == results["hub"]
    assert results["csv"][0][0] == "q0"
    ids = stack.query("SELECT count(DISTINCT id), count(*) FROM sample_manifest WHERE samples = 12")
    assert ids[0][0] == 1  # the same manifest, by content


def test_every_public_benchmark_gets_the_scores_of_its_fixture(stack, fixtures, replay):
    """One experiment with a run for each: real prompts and images, answers of the fixture, scores counted by hand."""
    target = {"endpoint": replay, "model_name": "replay"}
    runs = [{"name": name, "task": name, "target": target, "reports": ["json"]} for name in sorted(fixtures)]
    created = stack.client.experiments.create(ExperimentEntry.model_validate({"runs": runs}))
    for name, run_id in [(run.name, run.id) for run in stack.client.experiments.get(created.id).runs]:
        run = stack.wait(run_id)
        assert (name, run.state, run.total, run.failed) == (name, "SUCCEEDED", len(fixtures[name].rows), 0)
        labels = [metric.label for metric in run.spec.metrics]
        scores = dict(zip(labels, [score.value for score in run.headline.scores], strict=True))
        assert (name, scores) == (name, pytest.approx(fixtures[name].scores))
