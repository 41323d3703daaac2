from __future__ import annotations

import pytest

from tests.shared.domain.builders_of_jobs import run_spec
from vlmhyperbench.domain.retuning import why_not_retunable
from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import ImportTarget
from vlmhyperbench.domain.states import JobState, RunState

TIMED = ScenarioSpec(name="single-stream", kind="single_stream", requests=2)


def _code(state: RunState, asking: list[JobState], **spec: object) -> str | None:
    refusal = why_not_retunable(run_spec().model_copy(update=spec), state, asking)
    return None if refusal is None else refusal.code


@pytest.mark.parametrize(
    ("state", "asking"),
    [
        (RunState.QUEUED, []),
        (RunState.INDEXED, []),
        (RunState.RUNNING, [JobState.DONE, JobState.RUNNING]),
        (RunState.RUNNING, [JobState.READY]),
    ],
)
def test_a_run_that_will_send_requests_may_be_retuned(state: RunState, asking: list[JobState]) -> None:
    assert _code(state, asking) is None


@pytest.mark.parametrize(
    ("state", "asking"),
    [
        (RunState.SUCCEEDED, [JobState.DONE]),
        (RunState.CANCELLED, []),
        (RunState.RUNNING, [JobState.DONE, JobState.FAILED]),
        (RunState.RUNNING, []),
    ],
)
def test_a_run_that_sends_no_more_requests_is_refused(state: RunState, asking: list[JobState]) -> None:
    assert _code(state, asking) == "nothing_in_flight"


def test_answers_from_a_file_have_no_requests() -> None:
    target = ImportTarget(model_name="m", format="lm-eval", answers="0" * 64)
    assert _code(RunState.QUEUED, [], target=target) == "nothing_in_flight"


def test_a_timed_scenario_keeps_its_concurrency_whatever_its_state() -> None:
    assert _code(RunState.RUNNING, [JobState.RUNNING], scenario=TIMED) == "timed_phase"
