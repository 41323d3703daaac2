"""One dataset of twelve images as CSV, as JSONL and as a folder of the hub: the same samples, scored the same."""

import json

import pytest

from tests.support import tables
from vlmhyperbench.registry.schemas import RunEntry

FORMATS = ("csv", "jsonl", "hub")


@pytest.fixture(scope="module")
def registries(registries, tmp_path_factory):
    """Add the three datasets."""
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
    return registries


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
