"""A pipeline is a target: its models are steps of the run, and their answers become one and are reused."""

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.support.audit import audit
from vlmhyperbench.cli import exits
from vlmhyperbench.client.call import get_call
from vlmhyperbench.errors import NotFound
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.runs import RunRerun, RunRescore
from vlmhyperbench.wire.samples import SampleDetail

SAMPLES = 12
ANSWERS = {"says-blue": "blue", "says-blue-too": "Blue.", "says-red": "red"}
PIPELINES = {
    "alone": {"stages": [{"id": "read", "type": "single", "model": "says-red"}]},
    "vote": {
        "stages": [
            {
                "id": "read",
                "type": "multi",
                "models": ["says-blue", "says-red", "says-blue-too"],
                "aggregation": {"type": "vote"},
            }
        ]
    },
    "heavy-red": {
        "stages": [
            {
                "id": "read",
                "type": "multi",
                "models": ["says-blue", {"model": "says-red", "weight": 5}, "says-blue-too"],
                "aggregation": {"type": "vote"},
            }
        ]
    },
    "two-stages": {
        "stages": [
            {
                "id": "read",
                "type": "multi",
                "output_mode": "question_and_answer",
                "models": ["says-blue", {"model": "hangs-up", "optional": True}],
                "aggregation": {"type": "concat"},
            },
            {"id": "write", "type": "single", "model": "says-red", "input_from": "read", "instructions": "Rewrite."},
        ]
    },
    "merged": {
        "stages": [
            {
                "id": "read",
                "type": "multi",
                "models": ["says-blue", "says-red"],
                "aggregation": {"type": "synthesis", "model": "says-blue-too"},
            }
        ]
    },
    "needs-it": {
        "stages": [
            {
                "id": "read",
                "type": "multi",
                "models": ["says-blue", "cannot-load"],
                "aggregation": {"type": "vote"},
            }
        ]
    },
    "does-without": {
        "stages": [
            {
                "id": "read",
                "type": "multi",
                "models": ["says-blue", {"model": "cannot-load", "optional": True}],
                "aggregation": {"type": "vote"},
            }
        ]
    },
}


@pytest.fixture(scope="module")
def registries(registries):
    """Add engines that always say the same, and pipelines of them."""

    def model(name, **params):
        params = {"ttft_ms": 1, "gap_ms": 0, "usage": "always", **params}
        (registries / "models" / f"{name}.yaml").write_text(
            f"description: No model.\nbackends: [simulated]\nengine_params: {json.dumps(params)}\n"
        )

    for name, answer in ANSWERS.items():
        model(name, answer=answer)
    model("hangs-up", failure_rate=1.0, failure="reset")
    model("cannot-load", no_such_param=1)
    (registries / "pipelines").mkdir(exist_ok=True)
    for name, entry in PIPELINES.items():
        (registries / "pipelines" / f"{name}.yaml").write_text(json.dumps({"description": "For tests.", **entry}))
    return registries


def entry(pipeline=None, **changes):
    given = {
        "target": {"pipeline": pipeline},
        "task": "synthetic-questions",
        "dataset": {"name": "synthetic-questions", "limit": SAMPLES},
        "metrics": ["exact_match"],
        "reports": ["json"],
    }
    return RunEntry.model_validate({**given, **changes})


def finished(stack, pipeline=None, **changes):
    return stack.wait_without_pauses(stack.client.runs.create(entry(pipeline, **changes)).id)


def answers_of(stack, run):
    return [result.text for result in stack.client.results(run_id=run.id, limit=100).items]


def rows_of(stack, run):
    """Return how many rows the phases of a run have: (kind, of its own, reused)."""
    return stack.query(
        "SELECT p.kind, (SELECT count(*) FROM fact f WHERE f.run_id = p.run_id AND f.phase = p.no), "
        "(SELECT count(*) FROM reused_fact r WHERE r.run_id = p.run_id AND r.phase = p.no) "
        "FROM phase p WHERE p.run_id = %s AND p.kind IN ('accuracy', 'member') ORDER BY p.no",
        run.id,
    )


def engines_of(stack, run):
    """Return how many claims of a run's members loaded an engine."""
    ((count,),) = stack.query(
        "SELECT count(*) FROM claim JOIN job ON job.id = claim.job_id "
        "WHERE job.run_id = %s AND job.kind = 'MEMBER' AND claim.engine IS NOT NULL",
        run.id,
    )
    return count


def test_a_pipeline_of_one_model_gives_the_answers_of_that_model(stack):
    alone = finished(stack, "alone")
    model = finished(stack, target={"model": "says-red"})
    assert (alone.state, model.state) == ("SUCCEEDED", "SUCCEEDED"), (alone.reason, model.reason, stack.logs())
    assert answers_of(stack, alone) == answers_of(stack, model) == ["red"] * SAMPLES
    audit(stack)


def test_a_vote_counts_the_answers_of_its_models(stack):
    run = finished(stack, "vote")
    assert (run.state, run.total, run.done, run.failed) == ("SUCCEEDED", SAMPLES, SAMPLES, 0)
    assert answers_of(stack, run) == ["blue"] * SAMPLES
    assert rows_of(stack, run) == [("accuracy", 12, 0), *[("member", 12, 0)] * 3]
    audit(stack)


def test_another_rule_over_the_same_answers_asks_no_model(stack):
    run = finished(stack, "vote", reuse="nothing")
    again = stack.client.runs.rerun(run.id, RunRerun(run=entry("heavy-red")))
    again = stack.wait_without_pauses(again.id)
    assert answers_of(stack, again) == ["red"] * SAMPLES
    assert rows_of(stack, again) == [("accuracy", 12, 0), *[("member", 0, 12)] * 3]
    assert engines_of(stack, run) == 3
    assert engines_of(stack, again) == 0, "combining answers anew loads no model"
    assert len(stack.client.runs.manifest(again.id).engines) == 3, "the engines that gave them are told all the same"
    sample = stack.client.send(get_call(f"/runs/{again.id}/samples/1.3", SampleDetail))
    assert [(member.stage, member.model, member.is_reused) for member in sample.members] == [
        ("read", model, True) for model in ("says-blue", "says-red", "says-blue-too")
    ]
    assert [(member.text or "").lower().strip(".") for member in sample.members] == ["blue", "red", "blue"]
    audit(stack)


def test_a_later_stage_gets_the_answers_of_an_earlier_one_without_a_model_that_failed(stack):
    run = finished(stack, "two-stages", limits={"tries": 1})
    assert answers_of(stack, run) == ["red"] * SAMPLES
    asked = stack.client.results(run_id=run.id, limit=1).items[0]
    assert asked.text == "red"


def test_the_examples_of_a_prompt_are_shown_to_the_models_that_are_asked_the_question(stack):
    digits = {"task": "digits", "dataset": {"name": "digits", "limit": 4}}
    shown = [finished(stack, "two-stages", prompt=prompt, **digits) for prompt in ("digits-by-type", "digits-examples")]
    tokens = [
        stack.query(
            "SELECT p.params->>'stage', sum(f.prompt_tokens) FROM fact f JOIN phase p ON p.run_id = f.run_id "
            "AND p.no = f.phase WHERE f.run_id = %s AND p.kind = 'member' AND f.prompt_tokens IS NOT NULL "
            "GROUP BY 1 ORDER BY 1",
            run.id,
        )
        for run in shown
    ]
    (plain_read, plain_write), (read, write) = (dict(rows).values() for rows in tokens)
    assert [run.state for run in shown] == ["PARTIAL", "PARTIAL"], [run.reason for run in shown]
    assert (read > 2 * plain_read, write == plain_write) == (True, True), tokens
    audit(stack)


def test_a_merged_answer_is_that_of_the_model_that_merges(stack):
    run = finished(stack, "merged")
    assert run.state == "SUCCEEDED"
    assert answers_of(stack, run) == ["Blue."] * SAMPLES
    timed = "SELECT count(latency_ns) FROM fact JOIN phase ON phase.run_id = fact.run_id AND phase.no = fact.phase "
    assert stack.query(f"{timed} WHERE fact.run_id = %s AND phase.kind = 'accuracy'", run.id) == [(SAMPLES,)]
    audit(stack)


def test_a_model_that_cannot_be_loaded_fails_the_run_unless_it_is_optional(stack):
    without, needed = finished(stack, "does-without"), finished(stack, "needs-it")
    assert (without.state, answers_of(stack, without)) == ("PARTIAL", ["blue"] * SAMPLES)
    assert needed.state == "FAILED"
    assert "cannot-load" in needed.reason
    audit(stack)


def test_the_report_compares_a_pipeline_with_its_members(stack):
    run = finished(stack, "vote")
    files = {file.name: file.id for file in stack.client.report(run.id).files}
    report = json.loads(stack.client.artifact_content(files["report.json"]))
    (section,) = (section for section in report["sections"] if section["name"] == "ensemble")
    members = next(block for block in section["blocks"] if block.get("name") == "ensemble-members")
    assert [row[0] for row in members["rows"]] == ["says-blue", "says-red", "says-blue-too"]
    ensemble = report["runs"][str(run.id)]["ensemble"]
    assert [step["answers"] for step in ensemble["asked"]] == [SAMPLES] * 3
    assert ensemble["costs"]["seconds"] > ensemble["costs"]["best_seconds"] > 0
    assert ensemble["agreement"]["unanimous"] == 0


def test_a_pipeline_that_is_scored_again_is_compared_with_its_members_as_before(stack):
    run = finished(stack, "vote", reuse="nothing")
    partly = stack.wait_without_pauses(stack.client.runs.rerun(run.id, RunRerun(run=entry("vote"))).id)
    for parent in (run, partly):
        child = stack.wait_without_pauses(stack.client.runs.rescore(parent.id, RunRescore(metrics=("anls",))).id)
        again = stack.wait_without_pauses(stack.client.runs.rescore(child.id, RunRescore(metrics=("exact_match",))).id)
        assert (again.state, again.done, again.failed) == ("SUCCEEDED", SAMPLES, 0)
        assert compared(stack, again) == compared(stack, parent)
        sample = stack.client.send(get_call(f"/runs/{again.id}/samples/1.3", SampleDetail))
        assert [member.model for member in sample.members] == ["says-blue", "says-red", "says-blue-too"]
    audit(stack)


def compared(stack, run):
    """Return what the report of a run says of its pipeline, without whether an answer was measured by this run."""
    files = {file.name: file.id for file in stack.client.report(run.id).files}
    report = json.loads(stack.client.artifact_content(files["report.json"]))
    ensemble = report["runs"][str(run.id)]["ensemble"]
    assert [step.pop("reused") for step in ensemble["asked"]]
    return ensemble


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "page.png"
    Image.new("RGB", (64, 32), "blue").save(path)
    return path


def test_a_pipeline_is_asked_one_question_step_by_step(stack, command, page):
    asked = command("pipeline", "ask", "vote", "What colour is the sky?", "--image", str(page))
    assert (asked["state"], asked["question"], len(asked["images"])) == ("SUCCEEDED", "What colour is the sky?", 1)
    assert asked["answer"] == "blue"
    assert [(step["model"], step["state"], step["text"]) for step in asked["steps"]] == [
        ("says-blue", "done", "blue"),
        ("says-red", "done", "red"),
        ("says-blue-too", "done", "Blue."),
    ]
    assert asked["latency_s"] > asked["compute_s"] > 0
    assert asked["id"] in [session["id"] for session in command("pipeline", "history")]
    assert asked["id"] in [session["id"] for session in command("ls", "sessions", "--of", "vote")]
    assert command("ls", "sessions", "--of", "vote", "--state", "failed") == []
    assert asked["id"] not in [run["id"] for run in command("ls", "runs")]
    with pytest.raises(NotFound):
        stack.client.leaderboard("session")


def test_a_stage_is_asked_again_in_a_session_that_reuses_the_stages_before_it(stack, command, program, tmp_path):
    first = command("pipeline", "ask", "two-stages", "What colour is grass?")
    again = command("pipeline", "rerun", first["id"], "write")
    assert again["parent_run_id"] == first["id"]
    assert {(step["model"], step["is_reused"]) for step in again["steps"] if step["state"] == "done"} == {
        ("says-blue", True),
        ("says-red", False),
    }
    folder = Path(command("pipeline", "export", again["id"], str(tmp_path))["path"])
    versions = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert versions == ["read_v1", "read_v2", "write_v1", "write_v2"]
    assert (folder / "final.txt").read_text() == "red"
    meta = json.loads((folder / "session_meta.json").read_text())
    assert meta["sessions"] == [first["id"], again["id"]]
    assert json.loads((folder / "write_v2" / "members" / "says-red.json").read_text())["text"] == "red"
    assert json.loads((folder / "read_v1" / "output.json").read_text())["answer"] == again["stages"][0]["value"]
    assert program("pipeline", "export", again["id"], str(tmp_path)).returncode == exits.SETUP


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("ask", "no-such-pipeline", "Why?"), exits.USAGE),
        (("ask", "vote", " "), exits.USAGE),
        (("ask", "vote", "Why?", "--image", "no-such.png"), exits.USAGE),
        (("ask", "vote", "Why?", "--image", __file__), exits.USAGE),
        (("rerun", "0" * 32, "read"), exits.USAGE),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused_or_has_no_answer(program, words, code):
    ended = program("pipeline", *words)
    assert ended.returncode == code, ended.stderr
