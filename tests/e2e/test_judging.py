"""An LLM judges a run's answers: its verdicts are no answers of the run, and what cannot be read is worth nothing."""

import json
import re

import pytest

from tests.support.audit import audit
from vlmhyperbench.errors import InvalidInput
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.runs import RunRescore

SAMPLES = 12
DATASET = {"name": "synthetic-questions", "limit": SAMPLES}

JUDGE = """\
description: A judge for tests.
class_path: vlmhyperbench.scoring.judge:Judge
profile: v1
params:
  target: {{model: {model}}}
  prompt: judge-same-answer
  prices: {{prompt_per_million: 2.0, completion_per_million: 10.0, source: a list, date: 2026-11-01}}
  {more}
"""

ANSWERS = {
    "says-yes": "Yes.",
    "says-nonsense": "I would rather talk about harbors",
    "says-first": "first",
    "is-never-asked": "Yes.",
}


@pytest.fixture(scope="module")
def registries(registries):
    """Add engines that always say the same, and judges that ask them."""
    for name, answer in ANSWERS.items():
        params = json.dumps({"ttft_ms": 0, "gap_ms": 0, "usage": "always", "answer": answer})
        (registries / "models" / f"{name}.yaml").write_text(
            f"description: No model.\nbackends: [simulated]\nengine_params: {params}\n"
        )
    (registries / "models" / "hangs-up.yaml").write_text(
        "description: No model.\nbackends: [simulated]\n"
        "engine_params: {ttft_ms: 0, gap_ms: 0, failure_rate: 1.0, failure: reset}\n"
    )
    judges = {
        "judged-yes": ("says-yes", "decoding: {n: 2}"),
        "judged-nonsense": ("says-nonsense", "swap: true"),
        "judged-first": ("says-first", "labels: {first: first, second: second, tie: 0.5}"),
        "judged-by-nobody": ("hangs-up", "in_flight: 1"),
        "judged-only-in-plans": ("is-never-asked", ""),
        "judged-by-tiny": ("tiny-doc-vlm", "images: true\n  labels: {receipt: 1, invoice: 1, passport: 0, ticket: 0}"),
    }
    for name, (model, more) in judges.items():
        (registries / "metrics" / f"{name}.yaml").write_text(JUDGE.format(model=model, more=more))
    (registries / "prompts" / "judge-kind.yaml").write_text(
        'description: What kind.\nuser_prompt: "What kind of document is this?"\n'
    )
    tiny = registries / "metrics" / "judged-by-tiny.yaml"
    tiny.write_text(tiny.read_text().replace("judge-same-answer", "judge-kind"))
    return registries


def entry(*metrics, **changes):
    given = {
        "target": {"model": "simulated-instant"},
        "task": "synthetic-questions",
        "dataset": DATASET,
        "metrics": ["exact_match", *metrics],
        "reports": ["markdown", "json"],
    }
    return RunEntry.model_validate({**given, **changes})


def values(stack, run, metric):
    found = stack.client.results(run_id=run.id, limit=100).items
    return [measure.value for result in found for measure in result.measures if measure.metric == metric]


def reasons(stack, run, metric):
    found = stack.client.results(run_id=run.id, limit=100).items
    return {measure.reason for result in found for measure in result.measures if measure.metric == metric}


def report_of(stack, run, name="report.md"):
    files = {file.name: file.id for file in stack.client.artifacts(run_id=run.id).items}
    return stack.client.artifact_content(files[name]).decode().replace("\u00a0", " ")


def judges_of(stack, run):
    """Return what asking the judges of a run took."""
    return json.loads(report_of(stack, run, "report.json"))["runs"][str(run.id)]["judges"]


def verdict_rows(stack, run):
    """Rows of judges: (asked here, kept)."""
    (asked,) = stack.query(
        "SELECT count(*) FROM fact f JOIN phase p ON p.run_id = f.run_id AND p.no = f.phase "
        "WHERE f.run_id = %s AND p.kind = 'judge'",
        run.id,
    )[0]
    (kept,) = stack.query("SELECT count(*) FROM reused_fact WHERE run_id = %s", run.id)[0]
    return asked, kept


@pytest.fixture(scope="module")
def judged(stack):
    afresh = entry("judged-yes", reuse="nothing")  # other tests may have left verdicts on the same answers
    run = stack.wait(stack.client.runs.create(afresh).id)
    assert (run.state, run.reason) == ("SUCCEEDED", None), stack.logs()
    return run


def test_verdicts_become_a_metric_and_are_no_answers_of_the_run(stack, judged):
    assert (judged.total, judged.done, judged.failed) == (SAMPLES, SAMPLES, 0)
    assert len(stack.client.results(run_id=judged.id, limit=100).items) == SAMPLES
    assert values(stack, judged, "judged-yes") == [1.0] * SAMPLES
    assert verdict_rows(stack, judged) == (SAMPLES * 2 * 2, 0)
    assert [(phase.kind, phase.state, phase.count) for phase in judged.phases if phase.kind == "judge"] == [
        ("judge", "COMPLETE", SAMPLES * 2 * 2)
    ]
    document = json.loads(report_of(stack, judged, "report.json"))
    text = json.dumps(document)
    assert '"requested": 12' in text
    assert '"requested": 60' not in text
    audit(stack)


def test_the_plan_of_a_judged_run_has_the_time_of_its_judges_and_none_where_one_was_never_measured(stack, judged):
    alone = stack.client.runs.plan(entry()).time
    both = stack.client.runs.plan(entry("judged-yes")).time
    assert alone.expected_s is not None
    assert both.expected_s > alone.expected_s
    assert both.shortest_s <= both.expected_s <= both.longest_s
    assert stack.client.runs.plan(entry("judged-yes", "judged-only-in-plans")).time.expected_s is None
    runs = [each.model_dump(mode="json", exclude_defaults=True) for each in (entry("judged-yes"), entry())]
    plan = stack.client.plan({"runs": [{**run, "name": name} for run, name in zip(runs, "ab", strict=True)]})
    assert ([placed.run for placed in plan.placements], plan.judged) == (["a", "b"], ["a"])


def test_the_report_says_who_judged_how_alike_and_what_it_took(stack, judged):
    text = report_of(stack, judged)
    assert "judged-yes gave 48 verdicts" in text
    assert "says-yes (both orders, 2 times)" in text
    (use,) = judges_of(stack, judged)
    assert (use["requests"], use["kept"], use["failed"], use["completion_tokens"]) == (48, 0, 0, 48)
    cost = (use["prompt_tokens"] * 2 + use["completion_tokens"] * 10) / 1e6
    assert float(re.search(r"([0-9.]+) USD", text)[1]) == pytest.approx(cost, rel=1e-3)


def test_known_verdicts_are_not_asked_for_again(stack, judged):
    again = stack.wait(stack.client.runs.create(entry("judged-yes")).id)
    assert again.state == "SUCCEEDED"
    assert verdict_rows(stack, again) == (0, 48)
    assert values(stack, again, "judged-yes") == [1.0] * SAMPLES
    (use,) = judges_of(stack, again)
    assert (use["requests"], use["kept"]) == (48, 48)
    audit(stack)


def test_a_finished_run_is_judged_without_asking_its_target_again(stack):
    plain = stack.wait(stack.client.runs.create(entry(dataset={**DATASET, "limit": 5})).id)
    child = stack.wait(stack.client.runs.rescore(plain.id, RunRescore(metrics=("exact_match", "judged-first"))).id)
    assert stack.query("SELECT stop_decision IS NULL FROM run WHERE id = %s", child.id) == [(True,)]
    assert (child.state, child.reason, child.done) == ("SUCCEEDED", None, 5)
    assert values(stack, child, "judged-first") == [0.5] * 5
    assert "| 0.0 % |" in report_of(stack, child)
    third = stack.wait(stack.client.runs.rescore(child.id, RunRescore(metrics=("exact_match", "judged-yes"))).id)
    assert (third.state, values(stack, third, "judged-yes")) == ("SUCCEEDED", [1.0] * 5)
    audit(stack)


def test_nonsense_is_no_verdict_and_never_zero(stack):
    run = stack.wait(stack.client.runs.create(entry("judged-nonsense")).id)
    assert run.state == "SUCCEEDED"
    assert values(stack, run, "judged-nonsense") == [None] * SAMPLES
    assert reasons(stack, run, "judged-nonsense") == {"unreadable verdict"}
    assert [use["requests"] for use in judges_of(stack, run)] == [2 * SAMPLES]
    audit(stack)


def test_a_real_model_judges_pages(stack):
    asked = {
        "task": "document-kind",
        "dataset": {"name": "synthetic-document-kinds", "limit": 8},
        "metrics": ["exact_match", "judged-by-tiny"],
    }
    run = stack.wait(stack.client.runs.create(entry(**asked)).id)
    assert (run.state, run.reason) == ("SUCCEEDED", None)
    kinds = [result.references[0] for result in stack.client.results(run_id=run.id, limit=10).items]
    wanted = [float(kind in {"receipt", "invoice"}) for kind in kinds]
    assert values(stack, run, "judged-by-tiny") == wanted
    audit(stack)


def test_what_has_no_answer_is_not_judged(stack, registries):
    flaky = entry("judged-yes", target={"model": "simulated-instant", "engine_params": {"failure_rate": 0.5}})
    run = stack.wait(
        stack.client.runs.create(flaky.model_copy(update={"limits": flaky.limits.model_copy(update={"tries": 1})})).id
    )
    found = stack.client.results(run_id=run.id, limit=100).items
    assert run.reason is None
    assert run.state == "PARTIAL"
    assert 0 < run.failed < SAMPLES
    by_outcome = {
        (result.outcome, measure.value)
        for result in found
        for measure in result.measures
        if measure.metric == "judged-yes"
    }
    assert by_outcome == {("answered", 1.0), ("infrastructure_failure", None)}
    audit(stack)


def test_a_judge_that_cannot_be_asked_costs_its_verdicts_and_nothing_else(stack):
    run = stack.client.runs.create(entry("judged-by-nobody", "judged-yes", limits={"tries": 1}))
    run = stack.wait_without_pauses(run.id)
    assert (run.state, run.reason, run.failed) == ("PARTIAL", None, 0)
    assert values(stack, run, "judged-by-nobody") == [None] * SAMPLES
    assert reasons(stack, run, "judged-by-nobody") == {"no verdict"}
    assert values(stack, run, "judged-yes") == [1.0] * SAMPLES
    assert None not in values(stack, run, "exact_match")
    assert json.loads(report_of(stack, run, "report.json"))["runs"][str(run.id)]["is_unjudged"]
    audit(stack)


def test_a_judge_and_a_stop_rule_do_not_go_together(stack, judged, wording):
    stop = {"rule": "better", "baseline": str(judged.id)}
    with pytest.raises(InvalidInput) as refused:
        stack.client.runs.create(entry("judged-yes", stop=stop))
    wording(refused.value, RUN=judged.id)
