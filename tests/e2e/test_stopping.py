"""A run that is compared with a baseline asks no longer than it takes to know, and says so."""

import json

import pytest

from tests.support.audit import audit
from vlmhyperbench.analysis.sequential import request_order
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.exchange.answers import AnswersFile, ImportedAnswer, write_answers
from vlmhyperbench.registry.schemas import ExperimentEntry, RunEntry
from vlmhyperbench.wire.answers import RunImport
from vlmhyperbench.wire.runs import RunRerun, RunRescore

SAMPLES = 800
"""So many that a busy machine has decided long before the last is asked."""
DATASET = {"name": "synthetic-questions", "limit": SAMPLES}


@pytest.fixture(scope="module")
def registries(registries, tmp_path_factory):
    """Add a target that takes twenty seconds for all samples, and samples of which every tenth cannot be asked."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "bad.png").write_bytes(b"this is no image")
    lines = ["data_index;split;image_path;question;answer;doc_class;question_type;answer_bbox"]
    lines += [f"{no};test;{'' if no % 10 else 'bad.png'};What is {no} + 1?;{no + 1};sum;text;" for no in range(SAMPLES)]
    (folder / "annotation.csv").write_text("\n".join(lines) + "\n")
    (registries / "datasets" / "a-tenth-broken.yaml").write_text(f"type: annotation_csv\npath: {folder}\n")
    (registries / "models" / "simulated-steady.yaml").write_text(
        "description: 100 ms an answer.\nbackends: [simulated]\n"
        "engine_params: {ttft_ms: 50, gap_ms: 10, tokens: 6, usage: always}\n"
    )
    (registries / "models" / "says-yes.yaml").write_text(
        "description: It agrees.\nbackends: [simulated]\n"
        "engine_params: {ttft_ms: 100, gap_ms: 0, usage: always, answer: 'yes'}\n"
    )
    (registries / "metrics" / "agreeable.yaml").write_text(
        "description: A judge slower than a heartbeat.\nclass_path: vlmhyperbench.scoring.judge:Judge\nprofile: v1\n"
        "params: {target: {model: says-yes}, prompt: judge-same-answer, swap: false}\n"
    )
    return registries


def entry(**changes):
    given = {
        "target": {"model": "simulated-steady"},
        "task": "synthetic-questions",
        "dataset": DATASET,
        "reports": ["markdown", "json"],
    }
    return RunEntry.model_validate({**given, **changes})


@pytest.fixture(scope="module")
def right(stack, tmp_path_factory):
    """A baseline that answers every question right."""
    run = import_right_answers(stack, DATASET, tmp_path_factory.mktemp("answers") / "answers.jsonl")
    assert run.state == "SUCCEEDED"
    return run


@pytest.fixture(scope="module")
def unread(stack, tmp_path_factory):
    """The same over samples of which every tenth cannot be asked."""
    return import_right_answers(stack, "a-tenth-broken", tmp_path_factory.mktemp("answers") / "answers.jsonl")


def import_right_answers(stack, dataset, file):
    """Import the references of a dataset as the answers of a model."""
    known = stack.wait(stack.client.runs.create(entry(target={"model": "simulated-instant"}, dataset=dataset)).id)
    answers = (ImportedAnswer(key=result.key, text=result.references[0]) for result in results_of(stack, known))
    write_answers(file, AnswersFile(answers=answers, format="csv", tool=None, model="oracle", task=None, decoding={}))
    sent = stack.client.upload_answers(file.read_bytes())
    body = {"answers": sent.sha256, "task": "synthetic-questions", "dataset": dataset, "name": "always right"}
    return stack.wait(stack.client.runs.import_(RunImport.model_validate(body)).id)


def results_of(stack, run):
    """Every answer of a run, in the order of its samples."""
    found, cursor = [], None
    while True:
        page = stack.client.results(run_id=run.id, limit=100, cursor=cursor)
        found, cursor = [*found, *page.items], page.next
        if cursor is None:
            return found


def report_of(stack, run):
    files = {file.name: file.id for file in stack.client.artifacts(run_id=run.id).items}
    return json.loads(stack.client.artifact_content(files["report.json"]))


def test_a_run_that_is_clearly_worse_stops_early_and_frees_its_worker(stack, right):
    stop = {"rule": "not_worse", "margin": 0.1, "baseline": str(right.id), "seed": 3}
    run = stack.wait(stack.client.runs.create(entry(stop=stop)).id)
    stopping = run.stopping
    assert (run.state, run.failed, run.total) == ("SUCCEEDED", 0, SAMPLES)
    assert (stopping["state"], stopping["of"], stopping["unscored"]) == ("refuted", SAMPLES, 0)
    assert (stopping["samples"], stopping["low"]) == (30, -1.0)
    assert stopping["high"] < -0.1
    assert 30 <= run.done < SAMPLES / 2
    generate = next(job for job in run.jobs if job.kind == "GENERATE")
    assert generate.outcome == {
        "kind": "stopped",
        "reason": "not_worse by 0.1 on exact_match@v1",
        "at": {"samples": 30, "of": SAMPLES},
    }
    assert [phase.state for phase in run.phases if phase.kind == "accuracy"] == ["STOPPED"]
    audit(stack)


def test_samples_are_asked_in_the_rules_random_order(stack, right):
    stop = {"rule": "not_worse", "margin": 0.1, "baseline": str(right.id), "seed": 7}
    alone = entry(stop=stop, scenario={"name": "one", "kind": "offline", "in_flight": 1})
    run = stack.wait(stack.client.runs.create(alone).id)
    sent = stack.query("SELECT ordinal FROM fact WHERE run_id = %s AND phase = 1 ORDER BY sent_ns", run.id)
    every = [result.key for result in results_of(stack, right)]
    assert len(every) == SAMPLES
    assert [ordinal for (ordinal,) in sent] == request_order(every, repeats=1, seed=7)[: len(sent)]


def test_the_report_says_that_it_stopped_and_re_scored_answers_know_it(stack, right, wording):
    stop = {"rule": "not_worse", "margin": 0.1, "baseline": str(right.id)}
    run = stack.wait(stack.client.runs.create(entry(stop=stop)).id)
    report = report_of(stack, run)
    wording(report["verdict"][0].partition(". ")[0], DONE=f"at {run.done} samples")
    summary = report["runs"][str(run.id)]
    assert (summary["is_stopped"], summary["counts"]["missing"]) == (True, 0)
    child = stack.wait(stack.client.runs.rescore(run.id, RunRescore(metrics=("anls",))).id)
    assert (child.state, child.total, child.done) == ("SUCCEEDED", run.total, run.done)
    of_child = report_of(stack, child)["runs"][str(child.id)]
    assert (of_child["is_stopped"], of_child["stopping"]) == (True, summary["stopping"])
    judged = stack.wait(stack.client.runs.rescore(run.id, RunRescore(metrics=("exact_match", "agreeable"))).id)
    found = [
        measure.value for row in results_of(stack, judged) for measure in row.measures if measure.metric == "agreeable"
    ]
    assert (judged.state, found) == ("SUCCEEDED", [1.0] * run.done)
    audit(stack)


def test_a_rule_that_is_never_certain_asks_every_sample(stack, right):
    stop = {"rule": "worse", "margin": 0.9999, "baseline": str(right.id), "min_samples": 400}
    few = entry(target={"model": "simulated-instant"}, stop=stop)
    run = stack.wait(stack.client.runs.create(few).id)
    assert (run.state, run.done, run.total) == ("SUCCEEDED", SAMPLES, SAMPLES)
    score = next(job for job in run.jobs if job.kind == "SCORE")
    assert score.outcome["data"]["stopping"]["samples"] == SAMPLES
    assert [phase.state for phase in run.phases if phase.kind == "accuracy"] == ["COMPLETE"]
    audit(stack)


def test_an_experiment_compares_with_its_first_run_which_asks_everything(stack):
    found = stack.client.experiments.create(
        ExperimentEntry.model_validate(
            {
                "matrix": {
                    "targets": [{"model": "simulated-instant"}, {"model": "simulated-steady"}],
                    "tasks": ["synthetic-questions"],
                },
                "defaults": {"dataset": DATASET, "stop": {"rule": "equivalent", "margin": 0.2}},
            }
        ),
        name="early",
    )
    experiment = stack.wait_experiment(found.id)
    first, second = experiment.runs
    assert (first.done, first.stopping) == (SAMPLES, None)
    assert (second.state, second.stopping["state"], second.stopping["baseline"]) == (
        "SUCCEEDED",
        "shown",
        str(first.id),
    )
    assert second.done < SAMPLES
    files = {file.name: file.id for file in stack.client.artifacts(experiment_id=found.id).items}
    report = json.loads(stack.client.artifact_content(files["report.json"]))
    assert report["runs"][str(second.id)]["stopping"]["state"] == "shown"
    audit(stack)


def test_the_rule_outlives_the_worker_that_watches(stack, right):
    stop = {"rule": "not_worse", "margin": 0.1, "baseline": str(right.id), "min_samples": 100}
    started = stack.client.runs.create(entry(stop=stop)).id
    stack.wait_done(started, 20)
    stack.kill("evaluation")
    run = stack.wait(started)
    assert (run.state, run.reason, run.stopping["state"], run.stopping["samples"]) == (
        "SUCCEEDED",
        None,
        "refuted",
        100,
    )
    audit(stack)


@pytest.mark.parametrize(
    "changes",
    [
        {"baseline": "00000000-0000-4000-8000-000000000000"},
        {"baseline": None},
        {"margin": 0},
        {"metric": "exact_mach"},
    ],
    ids=["unknown baseline", "no baseline", "no margin", "unknown metric"],
)
def test_a_rule_that_cannot_work_is_refused_at_once(stack, right, changes, wording):
    stop = {"rule": "not_worse", "margin": 0.1, "baseline": str(right.id), **changes}
    with pytest.raises(InvalidInput) as refused:
        stack.client.runs.create(entry(stop=stop))
    wording(refused.value, RUN=right.id)


def test_a_baseline_that_asked_something_else_is_refused(stack, right, wording):
    stop = {"rule": "better", "baseline": str(right.id)}
    for changes in ({"dataset": {"name": "synthetic-questions", "limit": 20}}, {"scenario": "single-stream"}):
        with pytest.raises(InvalidInput) as refused:
            stack.client.runs.create(entry(stop=stop, **changes))
        wording(refused.value, RUN=right.id, SHORT=str(right.id)[:8])


def test_a_pooled_metric_stops_no_run_and_says_so_soon(stack, right, wording):
    stop = {"rule": "better", "metric": "cer", "baseline": str(right.id)}
    run = stack.wait(stack.client.runs.create(entry(stop=stop, metrics=["exact_match", "cer"])).id)
    assert run.state == "FAILED"
    wording(run.reason)


def test_what_is_under_way_when_a_run_stops_is_answered_and_nothing_behind_it_counts(stack, unread):
    """Every tenth sample shows an image that is none: those behind the last that was asked are never reached."""
    stop = {"rule": "not_worse", "margin": 0.1, "baseline": str(unread.id), "seed": 5}
    run = stack.wait(stack.client.runs.create(entry(stop=stop, dataset="a-tenth-broken")).id)
    assert (run.state, run.stopping["state"]) == ("PARTIAL", "refuted")
    asked = sorted(row[0] for row in stack.query("SELECT ordinal FROM fact WHERE run_id = %s AND phase = 1", run.id))
    keys = [result.key for result in results_of(stack, unread)]
    order = request_order(keys, repeats=1, seed=5)
    assert 30 <= len(asked) < SAMPLES
    assert asked == sorted(order[: len(asked)])
    assert run.done == len(asked)
    audit(stack)


def test_a_rerun_that_may_stop_keeps_nothing(stack, right):
    """What is kept of the whole dataset would stand beside the first part of what failed."""
    parent = stack.wait(stack.client.runs.create(entry(target={"model": "simulated-instant"})).id)
    stop = {"rule": "not_worse", "margin": 0.1, "baseline": str(right.id)}
    again = stack.client.runs.rerun(parent.id, RunRerun(run=entry(target={"model": "simulated-instant"}, stop=stop)))
    assert stack.wait(again.id).state == "SUCCEEDED"
    assert stack.query("SELECT count(*) FROM reused_fact WHERE run_id = %s", again.id) == [(0,)]
