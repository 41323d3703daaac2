"""A run again: what has not changed is kept, and every sample says why."""

import json

import pytest

from tests.support.audit import audit
from vlmhyperbench.cli import exits
from vlmhyperbench.cli.main import main
from vlmhyperbench.errors import Conflict, NotFound
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.runs import RunRerun, RunRescore


def entry(**changes):
    given = {
        "target": {"model": "simulated-instant"},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": 30},
        "limits": {"shard_size": 16},
    }
    return RunEntry.model_validate({**given, **changes})


@pytest.fixture(scope="module")
def parent(stack):
    run = stack.wait(stack.client.runs.create(entry()).id)
    assert run.state == "SUCCEEDED"
    return run


def own_rows(stack, run):
    return stack.query(
        "SELECT count(*) FROM fact f JOIN phase p ON p.run_id = f.run_id AND p.no = f.phase "
        "WHERE f.run_id = %s AND p.kind = 'accuracy'",
        run.id,
    )[0][0]


def reasons(stack, run):
    """Count why rows were reused, or requests asked again."""
    counts = {}
    for file in stack.client.artifacts(run_id=run.id).items:
        if file.kind == "reuse":
            for line in stack.client.artifact_content(file.id).decode().splitlines():
                decision = json.loads(line)
                reason = decision["decision"], decision["error_code"] or decision["reason"]
                counts[reason] = counts.get(reason, 0) + 1
    return counts


def values(stack, run):
    found = stack.client.results(run_id=run.id, limit=100).items
    return {result.key: (result.status, [measure.value for measure in result.measures]) for result in found}


def test_a_run_that_has_not_changed_asks_nothing_again(stack, parent):
    again = stack.wait(stack.client.runs.rerun(parent.id).id)
    assert (again.state, again.total, again.done, again.failed) == ("SUCCEEDED", 30, 30, 0)
    assert again.parent_run_id == parent.id
    assert own_rows(stack, again) == 0
    assert reasons(stack, again) == {("reused", "same_request"): 30}
    assert values(stack, again) == values(stack, parent)
    audit(stack)
    third = stack.wait(stack.client.runs.rerun(again.id).id)
    assert own_rows(stack, third) == 0
    sources = stack.query("SELECT DISTINCT source_run_id FROM reused_fact WHERE run_id = %s", third.id)
    assert [str(source) for (source,) in sources] == [str(parent.id)]


def reused_measures(run):
    """Metrics whose measures were kept of the parent."""
    return next(job for job in run.jobs if job.kind == "SCORE").outcome["data"]["reused"]


def test_measures_of_the_same_are_kept_until_evaluation_is_forced(stack, parent):
    assert reused_measures(parent) == []
    again = stack.wait(stack.client.runs.rerun(parent.id).id)
    assert reused_measures(again) == ["exact_match@v1"]
    forced = stack.wait(stack.client.runs.rerun(parent.id, RunRerun(force="evaluation")).id)
    assert (reused_measures(forced), own_rows(stack, forced)) == ([], 0)
    more = stack.wait(stack.client.runs.rescore(again.id, RunRescore(metrics=("exact_match", "anls"))).id)
    assert reused_measures(more) == ["exact_match@v1"]
    known = {key: measured[:1] for key, (_, measured) in values(stack, more).items()}
    assert known == {key: measured for key, (_, measured) in values(stack, parent).items()}
    stricter = stack.wait(stack.client.runs.rescore(again.id, RunRescore(on_invalid="zero")).id)
    assert reused_measures(stricter) == []


def test_measures_whose_file_is_not_the_one_that_was_written_are_made_again(stack):
    run = stack.wait(stack.client.runs.create(entry()).id)
    [(key,)] = stack.query("SELECT storage_key FROM measure_manifest WHERE run_id = %s", run.id)
    file = stack.home.root / "storage" / key
    file.chmod(0o600)
    file.write_bytes(b"PAR1 not any more")
    again = stack.wait(stack.client.runs.rerun(run.id).id)
    assert (again.state, reused_measures(again)) == ("SUCCEEDED", [])


def test_a_re_scored_rerun_counts_the_rows_that_it_keeps(stack, parent):
    again = stack.wait(stack.client.runs.rerun(parent.id).id)
    child = stack.wait(stack.client.runs.rescore(again.id, RunRescore(metrics=("anls",))).id)
    assert (child.state, child.total, child.done, child.failed) == ("SUCCEEDED", 30, 30, 0)


def test_only_what_is_new_is_asked(stack, parent):
    more = entry(dataset={"name": "synthetic-questions", "limit": 40})
    again = stack.wait(stack.client.runs.rerun(parent.id, RunRerun(run=more)).id)
    assert (again.state, again.total, again.done) == ("SUCCEEDED", 40, 40)
    assert reasons(stack, again) == {("reused", "same_request"): 30, ("asked", "not_in_parent"): 10}
    assert own_rows(stack, again) == 10
    audit(stack)


def test_samples_are_the_same_by_their_keys_wherever_they_stand(stack, parent):
    found = stack.client.results(run_id=parent.id, limit=100).items
    kind = max({result.group["question_type"] for result in found})
    keys = {result.key for result in found if result.group["question_type"] == kind}
    assert 0 < len(keys) < 30
    some = entry(dataset={"name": "synthetic-questions", "limit": len(keys), "question_types": [kind]})
    again = stack.wait(stack.client.runs.rerun(parent.id, RunRerun(run=some)).id)
    assert own_rows(stack, again) == 0
    assert values(stack, again) == {key: value for key, value in values(stack, parent).items() if key in keys}


def test_another_request_is_asked_again(stack, parent):
    other = entry(decoding={"max_tokens": 7})
    again = stack.wait(stack.client.runs.rerun(parent.id, RunRerun(run=other)).id)
    assert reasons(stack, again) == {("asked", "other_request"): 30}
    assert own_rows(stack, again) == 30


def test_a_forced_inference_keeps_nothing(stack, parent):
    again = stack.wait(stack.client.runs.rerun(parent.id, RunRerun(force="index")).id)
    assert (again.state, own_rows(stack, again), reasons(stack, again)) == ("SUCCEEDED", 30, {})


def test_what_failed_is_tried_again_and_what_did_not_is_kept(stack):
    run = stack.wait(stack.client.runs.create(entry()).id)
    broken = stack.query(
        "UPDATE fact SET status = 'error', failure = 'infrastructure', error_code = 'timeout' "
        "WHERE run_id = %s AND phase = 1 AND ordinal IN (3, 20) RETURNING ordinal",
        run.id,
    )
    assert len(broken) == 2
    stack.query("UPDATE job SET failed = failed + 1 WHERE run_id = %s AND kind = 'GENERATE' RETURNING id", run.id)
    again = stack.wait(stack.client.runs.rerun(run.id, RunRerun(retry_failed=True)).id)
    assert (again.state, again.done, again.failed) == ("SUCCEEDED", 30, 0)
    assert reasons(stack, again) == {("reused", "same_request"): 28, ("asked", "timeout"): 2}
    audit(stack)


def test_a_cached_answer_serves_any_run_that_asks_the_same(stack, parent):
    longer = entry(reuse="cache", dataset={"name": "synthetic-questions", "limit": 32}, metrics=["anls"])
    run = stack.wait(stack.client.runs.create(longer).id)
    assert (run.state, run.parent_run_id) == ("SUCCEEDED", None)
    counts = reasons(stack, run)
    assert sum(counts.values()) == 32
    assert counts["reused", "same_request_of_another_run"] >= 30
    keys = [result.key for result in stack.client.results(run_id=run.id, limit=50).items]
    assert keys[:30] == [result.key for result in stack.client.results(run_id=parent.id, limit=50).items]
    sampled = entry(reuse="cache", decoding={"temperature": 0.7, "seed": 1})
    run = stack.wait(stack.client.runs.create(sampled).id)
    assert (own_rows(stack, run), reasons(stack, run)) == (30, {})
    audit(stack)


def test_what_cannot_be_run_again_is_refused(stack, parent, wording):
    with pytest.raises(Conflict) as refused:
        stack.client.runs.rerun(parent.id, RunRerun(retry_failed=True))
    wording(refused.value, RUN=parent.id)
    with pytest.raises(NotFound):
        stack.client.runs.rerun("00000000-0000-0000-0000-000000000000")


def test_the_command_reruns_and_only_evaluates(stack, parent, monkeypatch, capsys):
    monkeypatch.setenv("VLMHB_API_URL", stack.home.api_url())
    monkeypatch.setenv("VLMHB_API_KEY", stack.home.api_key())
    assert main(["rerun", str(parent.id), "--name", "again", "--quiet"]) == exits.OK
    (again,) = [run for run in stack.client.runs.list(limit=50).items if run.name == "again"]
    assert (again.state, again.done, again.total) == ("SUCCEEDED", 30, 30)
    assert main(["rerun", str(parent.id), "--only-evaluate", "--name", "x", "--quiet"]) == exits.OK
    assert main(["rerun", str(parent.id), "--only-evaluate", "--force", "index"]) == exits.USAGE
    assert "--force" in capsys.readouterr().err
