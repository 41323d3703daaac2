"""Metrics that need a numpy which the platform refuses score a run, are compared and reported, and score files."""

import json
import os
import subprocess
import sys
import types
from importlib.metadata import requires, version

import pytest

from tests.support.processes import PATIENCE_S
from tests.support.stack import running_stack, until
from tests.support.wheels import make_wheel
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.scoring.measuring import measure_all
from vlmhyperbench.wire.runs import RunRescore

OLD = "1.26.4"
CODE = '''
"""Two metrics on numpy: the share of right characters, averaged and pooled."""

import numpy
from vlmhyperbench_sdk.protocols import MetricDescription
from vlmhyperbench_sdk.types import Measures


class Share:
    aggregation = "mean"

    def __init__(self, *, profile="v1"):
        print("a library says hello")

    @property
    def description(self):
        return MetricDescription(
            name="share", profile="v1", version="1.0.0", title=f"Share ({self.aggregation})", kind="text", unit="1",
            range=(0.0, 1.0), direction="higher", aggregation=self.aggregation, proportion=False, normaliser="none",
            formula="characters at their place", source="tests",
        )

    def measure(self, predictions, references, *, metadata=None):
        counts = [self.count(text, accepted[0]) for text, accepted in zip(predictions, references)]
        right, size = (numpy.array(column, dtype=numpy.float32) for column in zip(*counts)) if counts else ([], [])
        values = [a / b for a, b in zip(right, size)]
        pooled = self.aggregation == "pooled"
        return Measures(
            values=values,
            reasons=[None] * len(values),
            statistics={"right": right if pooled else values, "of": size if pooled else [1.0] * len(values)},
        )

    def count(self, text, reference):
        if text == reference[::-1] != reference:
            raise ValueError("reversed")
        return sum(a == b for a, b in zip(text, reference)), max(len(text), len(reference), 1)

    def combine(self, sums):
        return sums["right"] / sums["of"] if sums.get("of") else None


class PooledShare(Share):
    aggregation = "pooled"
'''
ENTRY = """
class_path: {path}
profile: v1
version: 1.0.0
environment: {{virtualenv: {{requirements: ['old_shares==1.0.0', 'numpy=={numpy}']}}}}
"""


@pytest.fixture(scope="module")
def registries(registries):
    metrics = registries / "metrics"
    (metrics / "share.yaml").write_text(ENTRY.format(path="share", numpy=OLD))
    (metrics / "pooled_share.yaml").write_text(ENTRY.format(path="old_shares:PooledShare", numpy=OLD))
    (metrics / "newer_share.yaml").write_text(ENTRY.format(path="share", numpy="1.26.3"))
    (metrics / "nowhere.yaml").write_text(ENTRY.format(path="share", numpy="0.0.1"))
    (metrics / "missing.yaml").write_text(ENTRY.format(path="old_shares:Missing", numpy=OLD))
    return registries


@pytest.fixture(scope="module")
def stack(registries, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    points = "[vlmhyperbench.metrics]\nshare = old_shares:Share\n"
    needs = ["vlmhyperbench-sdk>=0.1,<0.2", "numpy<2"]
    make_wheel(folder, "old_shares", "1.0.0", needs=needs, code=CODE, entry_points=points)
    places = f"{os.environ.get('PIP_FIND_LINKS', '')} {folder}"
    with running_stack(registries, PIP_FIND_LINKS=places) as found:
        yield found


def entry(*metrics):
    given = {
        "target": {"model": "simulated-instant"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": 40},
        "metrics": list(metrics),
    }
    return RunEntry.model_validate(given)


@pytest.fixture(scope="module")
def run(stack):
    assert any(line.startswith("numpy") and ">=2" in line for line in requires("vlmhyperbench") or ())
    assert version("numpy").split(".")[0] == "2"
    found = stack.wait(stack.client.runs.create(entry("share", "pooled_share", "exact_match")).id, timeout_s=300)
    assert (found.state, found.reason) == ("SUCCEEDED", None), stack.logs()
    return found


def report_of(stack, run):
    files = {file.name: file.id for file in stack.client.artifacts(run_id=run.id).items}
    return json.loads(stack.client.artifact_content(files["report.json"]))


def values(stack, run):
    results = stack.client.results(run_id=run.id, limit=100).items
    return {result.key: [measure.value for measure in result.measures] for result in results}


def test_the_values_are_those_of_the_same_metric_in_this_process(stack, run):
    module = types.ModuleType("old_shares_here")
    exec(CODE, module.__dict__)
    results = stack.client.results(run_id=run.id, limit=100).items
    assert len(results) == 40
    texts, references = [result.text for result in results], [tuple(result.references) for result in results]
    for position, metric in enumerate((module.Share(), module.PooledShare())):
        here = [measure.value for measure in measure_all(metric, texts, references, [{}] * len(texts))]
        assert here == [result.measures[position].value for result in results]
    assert len({value for value in here if value is not None}) > 1


def test_the_report_has_their_aggregates_and_intervals(stack, run):
    [row] = report_of(stack, run)["headline"]["rows"]
    own = values(stack, run)
    shares = [shares[0] for shares in own.values()]
    cells = row["metrics"]
    assert cells["share"]["value"] == pytest.approx(sum(shares) / 40)
    assert cells["share"]["ci_low"] < cells["share"]["value"] < cells["share"]["ci_high"]
    assert 0 < cells["pooled_share"]["ci_low"] < cells["pooled_share"]["value"] < cells["pooled_share"]["ci_high"]


def test_the_identity_has_the_packages_that_computed_it(stack, run):
    measured = stack.client.results(run_id=run.id, limit=1).items[0].measures
    metric = stack.client.evaluation(measured[0].evaluation_id).components["metric"]
    assert metric["packages"] == {
        "numpy": OLD,
        "old-shares": "1.0.0",
        "vlmhyperbench-sdk": version("vlmhyperbench-sdk"),
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    assert "packages" not in stack.client.evaluation(measured[2].evaluation_id).components["metric"]


def test_the_manifest_has_the_packages_that_computed_it(stack, run, command):
    used = stack.client.runs.manifest(run.id).plugins["environments"]
    assert set(used) == {"share@v1", "pooled_share@v1"}
    assert used["share@v1"]["requirements"] == ["old_shares==1.0.0", f"numpy=={OLD}"]
    assert used["share@v1"]["packages"]["numpy"] == OLD
    assert command("show", str(run.id), "--manifest")["plugins"]["environments"] == used


def test_each_environment_was_built_once_and_its_process_is_gone(stack, run):
    built = list((stack.home.root / "environments").glob("*/ready.json"))
    assert stack.home.log_of("evaluation").read_text().count('"installing"') == len(built) > 0
    find = ["pgrep", "-f", str(stack.home.root / "environments")]
    until(lambda: subprocess.run(find, capture_output=True).returncode == 1, "end of the metrics' process", PATIENCE_S)


def test_other_packages_are_another_evaluation_and_equal_ones_are_reused(stack, run, command):
    child = stack.wait(
        stack.client.runs.rescore(run.id, RunRescore(metrics=["share", "newer_share"])).id, timeout_s=300
    )
    assert child.state == "SUCCEEDED", stack.logs()
    [score] = [job for job in child.jobs if job.kind == "SCORE"]
    [(outcome,)] = stack.query("SELECT outcome FROM job WHERE id = %s", score.id)
    assert outcome["data"]["reused"] == ["share@v1"]
    first, second = stack.client.results(run_id=child.id, limit=1).items[0].measures
    assert first.value == second.value
    assert first.evaluation_id == stack.client.results(run_id=run.id, limit=1).items[0].measures[0].evaluation_id
    found = {
        each["path"]: (each["a"], each["b"])
        for each in command("diff", first.evaluation_id, second.evaluation_id)["differences"]
    }
    assert found["metric.packages.numpy"] == (OLD, "1.26.3")


def test_runs_are_compared_where_the_environment_is_and_means_also_where_it_is_not(stack, run, command, wording):
    other = stack.wait(stack.client.runs.rescore(run.id, RunRescore(metrics=["share", "pooled_share"])).id)
    ids = [str(run.id), str(other.id)]
    deltas = command("compare", *ids)["comparisons"][0]["metrics"]
    assert [deltas[name]["difference"] for name in ("share", "pooled_share")] == [0.0, 0.0]


def test_a_stop_rule_looks_at_them(stack, run):
    rule = {"metric": "share", "rule": "not_worse", "margin": 0.9, "baseline": str(run.id), "min_samples": 10}
    stopped = RunEntry.model_validate({**entry("share").model_dump(exclude_unset=True), "stop": rule})
    found = stack.wait(stack.client.runs.create(stopped).id)
    assert found.state == "SUCCEEDED", stack.logs()
    [(decision,)] = stack.query("SELECT stop_decision FROM run WHERE id = %s", found.id)
    assert decision["state"] == "shown"


def test_a_file_is_scored_by_its_name_in_the_registry(stack, run, command, tmp_path):
    results = stack.client.results(run_id=run.id, limit=100).items
    answers = tmp_path / "answers.jsonl"
    rows = [{"id": row.key, "prediction": row.text, "targets": list(row.references)} for row in results]
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    scored = command("score", str(answers), "--metric", "pooled_share")
    assert [row["value"] for row in scored["scores"]] == [result.measures[1].value for result in results]
    [row] = report_of(stack, run)["headline"]["rows"]
    assert scored["aggregate"]["value"] == pytest.approx(row["metrics"]["pooled_share"]["value"])


@pytest.mark.parametrize(("metric", "code"), [("nowhere", "environment_unresolvable"), ("missing", "not_found")])
def test_what_cannot_be_measured_fails_the_run_at_once_with_its_reason(stack, metric, code):
    failed = stack.wait(stack.client.runs.create(entry("exact_match", metric)).id)
    assert failed.state == "FAILED"
    [(outcome, fails)] = stack.query("SELECT outcome, fails FROM job WHERE run_id = %s AND kind = 'SCORE'", failed.id)
    assert (outcome["code"], fails) == (code, 1)


def test_stored_numbers_need_no_environment(stack, run, command):
    other = stack.wait(stack.client.runs.rescore(run.id, RunRescore(metrics=["share"])).id)
    environments, away = stack.home.root / "environments", stack.home.root / "away"
    environments.rename(away)
    try:
        compared = command("compare", str(run.id), str(other.id))["comparisons"][0]["metrics"]
        assert compared["share"]["difference"] == 0.0
        assert command("show", str(run.id))["state"] == "SUCCEEDED"
        assert not environments.exists()
    finally:
        away.rename(environments)
