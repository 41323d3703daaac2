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


@pytest.fixture
def command(stack, monkeypatch, capsys):
    """Run a command of the command line against the stack."""
    monkeypatch.setenv("VLMHB_API_URL", stack.home.api_url())
    monkeypatch.setenv("VLMHB_API_KEY", stack.home.api_key())

    def run(*arguments, code=exits.OK):
        assert main([*arguments, "--json"]) == code
        return json.loads(capsys.readouterr().out)["data"]

    return run


def test_every_number_has_its_reading_and_its_identity(stack, runs):
    measured = stack.client.results(run_id=runs[0].id, limit=1).items[0].measures
    assert [one.extractor.split()[0] for one in measured] == ["text@1", "regex@1"]
    assert len({one.evaluation_id for one in measured}) == 2
    found = stack.client.evaluation(measured[0].evaluation_id)
    assert found.components["extractor"]["name"] == "text"
    assert found.components["metric"]["name"] == "exact_match"
    manifest_id = stack.query("SELECT manifest_id FROM run WHERE id = %s", runs[0].id)[0][0]
    assert found.components["dataset"]["samples"] == manifest_id
    assert found.components["engine"]["measured"]


def test_what_differs_between_two_numbers_or_two_runs_is_named(stack, runs, command):
    ids = [stack.client.results(run_id=run.id, limit=1).items[0].measures[0].evaluation_id for run in runs]
    assert [one["path"] for one in command("diff", *ids)["differences"]] == ["decoding.max_tokens"]
    of_runs = command("diff", *(str(run.id) for run in runs))["differences"]
    assert [(one["path"], one["a"], one["b"]) for one in of_runs] == [("decoding.max_tokens", 64, 32)]


def test_runs_are_compared_by_their_ids_and_a_gate_is_checked(runs, command, tmp_path):
    ids = [str(run.id) for run in runs]
    policy = tmp_path / "gate.yaml"
    policy.write_text(GATE)
    compared = command("compare", *ids, "--gate", str(policy))["comparisons"][0]
    assert compared["metrics"]["exact_match"]["pairs"] == 40
    assert [one["status"] for one in compared["gate"]["checks"]] == ["passed"] * 4
    policy.write_text("rules:\n- same: [decoding]\n")
    failed = command("compare", *ids, "--gate", str(policy), code=exits.GATE)["comparisons"][0]
    assert failed["gate"]["checks"][0]["message"] == "It differs in decoding.max_tokens."


def test_the_report_says_how_answers_are_read(stack, runs):
    files = {one.name: one.id for one in stack.client.artifacts(run_id=runs[0].id).items}
    page = stack.client.artifact_content(files["report.html"]).decode()
    assert "How answers are read" in page
    assert "samples.parquet" in files


def test_an_extractor_that_cannot_be_is_refused_before_anything_runs(stack):
    with pytest.raises(InvalidInput, match="RE2's syntax"):
        stack.client.runs.create(entry(extractors=[{"name": "regex", "params": {"pattern": "(?=a)"}}]))
    with pytest.raises(InvalidInput, match="Write one of: number"):
        stack.client.runs.create(entry(extractors=["numbr"]))


def test_a_run_is_scored_anew_without_a_model(stack, runs, command, capsys):
    parent = runs[0]
    asked = stack.query("SELECT count(*) FROM fact")[0][0]
    chosen = ["--metric", "anls", "--metric", "cer", "--extractor", "first_line"]
    assert main(["rescore", str(parent.id), *chosen, "--quiet"]) == exits.OK
    capsys.readouterr()
    (child,) = [one for one in stack.client.runs.list(limit=50).items if one.parent_run_id == parent.id]
    child = stack.client.runs.get(child.id)
    assert (child.state, child.total, child.done, child.failed) == ("SUCCEEDED", 40, 40, 0)
    assert {job.kind for job in child.jobs} == {"SCORE", "REPORT"}
    assert stack.query("SELECT count(*) FROM fact")[0][0] == asked
    results = stack.client.results(run_id=child.id, limit=50).items
    assert [one.key for one in results] == [one.key for one in stack.client.results(run_id=parent.id, limit=50).items]
    assert {(one.metric, one.extractor) for one in results[0].measures} == {
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
    assert [one["difference"] for one in compared["metrics"].values()] == [0.0, 0.0]
    audit(stack)


def test_what_cannot_be_scored_anew_is_refused(stack, runs):
    with pytest.raises(InvalidInput, match="metric"):
        stack.client.runs.rescore(runs[0].id, RunRescore(metrics=("anlss",)))
    with pytest.raises(InvalidInput, match="asked for twice"):
        stack.client.runs.rescore(runs[0].id, RunRescore(metrics=("anls", "anls")))
    with pytest.raises(NotFound):
        stack.client.runs.rescore("00000000-0000-0000-0000-000000000000")
    open_run = stack.client.runs.create(entry())
    with pytest.raises(Conflict, match="has not ended"):
        stack.client.runs.rescore(open_run.id)
    stack.wait(open_run.id)
