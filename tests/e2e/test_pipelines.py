"""A pipeline is a target: its models are steps of the run, their answers become one, and are reused when that changes."""

import json

import pytest

from tests.support.audit import audit
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench.wire.runs import RunRerun

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


def ended(stack, **given):
    run = stack.client.submit(entry(**given)) if "run" not in given else given["run"]
    return stack.client.wait(run.id)


def answers_of(stack, run):
    return [result.text for result in stack.client.results(run_id=run.id, limit=100).items]


def asked(stack, run):
    """Return how many requests each job of a run has sent, by step."""
    return {job.step: job.outcome for job in stack.client.jobs(run_id=run.id).items}


def test_a_pipeline_of_one_model_gives_the_answers_of_that_model(stack):
    alone = ended(stack, pipeline="alone")
    model = ended(stack, target={"model": "says-red"})
    assert alone.state == model.state == "SUCCEEDED"
    assert answers_of(stack, alone) == answers_of(stack, model) == ["red"] * SAMPLES
