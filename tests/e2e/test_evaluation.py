"""Evaluation through every service: several readings of the same answers, identities, comparisons, gates."""

import json

import pytest

from tests.support.audit import audit
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.main import main
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.runs import RunRescore

GATE = """rules:
- {metric: exact_match, max_drop: 0.1}
- {share: infrastructure_failures, max: 0}
- same: [dataset, prompt]
"""


def entry(**changes):
    given = {
        "target": {"model": "simulated-instant"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": 40},
        "extractors": ["text", {"name": "regex", "params": {"pattern": "[0-9]+"}}],
    }
    return RunEntry.model_validate({**given, **changes})


@pytest.fixture(scope="module")
def runs(stack):
    """Two runs that differ in how many tokens an answer may have."""
    longer, shorter = (
        stack.wait(stack.client.runs.create(entry(decoding={"max_tokens": tokens})).id) for tokens in (64, 32)
    )
    assert (longer.state, shorter.state) == ("SUCCEEDED", "SUCCEEDED")
    return longer, shorter


def test_every_number_has_its_reading_and_its_identity(stack, runs):
    measured = stack.client.results(run_id=runs[0].id, limit=1).items[0].measures
    assert [measure.extractor.split()[0] for measure in measured] == ["text@1", "regex@1"]
    assert len({measure.evaluation_id for measure in measured}) == 2
    found = stack.client.evaluation(measured[0].evaluation_id)
    assert found.components["extractor"]["name"] == "text"
    assert found.components["metric"]["name"] == "exact_match"
    manifest_id = stack.query("SELECT manifest_id FROM run WHERE id = %s", runs[0].id)[0][0]
    assert found.components["dataset"]["samples"] == manifest_id
    assert found.components["engine"]["measured"]


def test_what_differs_between_two_numbers_or_two_runs_is_named(stack, runs, command):
    ids = [stack.client.results(run_id=run.id, limit=1).items[0].measures[0].evaluation_id for run in runs]
    assert [difference["path"] for difference in command("diff", *ids)["differences"]] == ["decoding.max_tokens"]
    of_runs = command("diff", *(str(run.id) for run in runs))["differences"]
    assert [(difference["path"], difference["a"], difference["b"]) for difference in of_runs] == [
        ("decoding.max_tokens", 64, 32)
    ]


def test_runs_are_compared_by_their_ids_and_a_gate_is_checked(runs, command, tmp_path, wording):
    ids = [str(run.id) for run in runs]
    policy = tmp_path / "gate.yaml"
    policy.write_text(GATE)
    compared = command("compare", *ids, "--gate", str(policy))["comparisons"][0]
    assert compared["metrics"]["exact_match"]["pairs"] == 40
    assert [check["status"] for check in compared["gate"]["checks"]] == ["passed"] * 4
    policy.write_text("rules:\n- same: [decoding]\n")
    failed = command("compare", *ids, "--gate", str(policy), code=exits.GATE)["comparisons"][0]
    (check,) = failed["gate"]["checks"]
    assert check["status"] == "failed"
    wording(check["message"])


def test_the_report_says_how_answers_are_read(stack, runs):
    files = {file.name: file.id for file in stack.client.artifacts(run_id=runs[0].id).items}
    report = json.loads(stack.client.artifact_content(files["report.json"]))
    (section,) = [section for section in report["sections"] if section["name"] == "extraction"]
    assert section["title"] in stack.client.artifact_content(files["report.html"]).decode()
    (extractor,) = report["runs"][str(runs[0].id)]["otherwise"]
    assert extractor.split()[0] == "regex@1"
    assert "samples.parquet" in files


def test_an_extractor_that_cannot_be_is_refused_before_anything_runs(stack, wording):
    with pytest.raises(InvalidInput) as refused:
        stack.client.runs.create(entry(extractors=[{"name": "regex", "params": {"pattern": "(?=a)"}}]))
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        stack.client.runs.create(entry(extractors=["numbr"]))
    wording(refused.value)


def test_a_run_is_scored_anew_without_a_model(stack, runs, command, capsys):
    parent = runs[0]
    asked = stack.query("SELECT count(*) FROM fact")[0][0]
    chosen = ["--metric", "anls", "--metric", "cer", "--extractor", "first_line"]
    assert main(["rescore", str(parent.id), *chosen, "--quiet"]) == exits.OK
    capsys.readouterr()
    (child,) = [run for run in stack.client.runs.list(limit=50).items if run.parent_run_id == parent.id]
    child = stack.client.runs.get(child.id)
    assert (child.state, child.total, child.done, child.failed) == ("SUCCEEDED", 40, 40, 0)
    assert {job.kind for job in child.jobs} == {"SCORE", "REPORT"}
    assert stack.query("SELECT count(*) FROM fact")[0][0] == asked
    results = stack.client.results(run_id=child.id, limit=50).items
    assert [result.key for result in results] == [
        result.key for result in stack.client.results(run_id=parent.id, limit=50).items
    ]
    assert {(measure.metric, measure.extractor) for measure in results[0].measures} == {
        ("anls", "first_line@1"),
        ("cer", "first_line@1"),
    }
    before, after = (
        stack.client.evaluation(run.measures[0].evaluation_id)
        for run in (stack.client.results(run_id=parent.id, limit=1).items[0], results[0])
    )
    assert before.components["engine"] == after.components["engine"]
    assert before.components["weights"] == after.components["weights"]
    again = stack.wait(stack.client.runs.rescore(child.id).id)
    assert (again.parent_run_id, again.state) == (child.id, "SUCCEEDED")
    compared = command("compare", str(child.id), str(again.id))["comparisons"][0]
    assert [score["difference"] for score in compared["metrics"].values()] == [0.0, 0.0]
    audit(stack)


def test_what_cannot_be_scored_anew_is_refused(stack, runs, wording):
    with pytest.raises(InvalidInput) as refused:
        stack.client.runs.rescore(runs[0].id, RunRescore(metrics=("anlss",)))
    wording(refused.value)
    with pytest.raises(InvalidInput) as refused:
        stack.client.runs.rescore(runs[0].id, RunRescore(metrics=("anls", "anls")))
    wording(refused.value)
    with pytest.raises(NotFound):
        stack.client.runs.rescore("00000000-0000-0000-0000-000000000000")
    dataset = {"name": "synthetic-questions", "limit": 10_000}
    open_run = stack.client.runs.create(entry(target={"model": "simulated-slow"}, dataset=dataset))
    with pytest.raises(Conflict) as refused:
        stack.client.runs.rescore(open_run.id)
    wording(refused.value, RUN=open_run.id)
    stack.client.runs.cancel(open_run.id)
    stack.wait(open_run.id)
