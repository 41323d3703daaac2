"""The state tables: terminal states never change, and every state can be reached."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlmhyperbench.domain.states import (
    JOB_TABLE,
    RUN_TABLE,
    ExperimentState,
    JobEvent,
    JobState,
    PhaseState,
    RunEvent,
    RunState,
    experiment_state,
    next_run_state,
)


@given(st.sampled_from(JobState), st.lists(st.sampled_from(JobEvent)))
def test_a_job_that_has_ended_never_changes(state: JobState, events: list[JobEvent]) -> None:
    for event in events:
        following = JOB_TABLE.get((state, event))
        assert following is None or not state.is_terminal
        state = following or state


@given(st.sampled_from(RunState), st.lists(st.sampled_from(RunEvent)))
def test_a_run_that_has_ended_never_changes(state: RunState, events: list[RunEvent]) -> None:
    for event in events:
        following = next_run_state(state, event)
        assert following is None or not state.is_terminal
        state = following or state


def test_a_phase_is_open_until_it_counts_or_is_void() -> None:
    assert [state for state in PhaseState if not state.is_terminal] == [PhaseState.OPEN]


@pytest.mark.parametrize("state", [state for state in JobState if not state.is_terminal])
def test_every_open_job_can_be_cancelled(state: JobState) -> None:
    assert JOB_TABLE[state, JobEvent.CANCEL] is JobState.CANCELLED


@pytest.mark.parametrize("state", [state for state in RunState if not state.is_terminal])
def test_every_open_run_can_fail_and_can_be_cancelled(state: RunState) -> None:
    assert next_run_state(state, RunEvent.FAIL) is RunState.FAILED
    assert next_run_state(state, RunEvent.CANCEL) is RunState.CANCELLED


def test_every_state_of_a_table_can_be_reached() -> None:
    assert set(JobState) == {JobState.READY} | set(JOB_TABLE.values())
    assert set(RunState) == {RunState.QUEUED} | set(RUN_TABLE.values())


def test_a_job_only_runs_after_it_was_assigned() -> None:
    assert (JobState.READY, JobEvent.CLAIM) not in JOB_TABLE
    assert JOB_TABLE[JobState.ASSIGNED, JobEvent.CLAIM] is JobState.RUNNING


@pytest.mark.parametrize(
    ("runs", "state"),
    [
        ([], ExperimentState.DONE),
        ([RunState.SUCCEEDED, RunState.RUNNING], ExperimentState.OPEN),
        ([RunState.SUCCEEDED, RunState.SUCCEEDED], ExperimentState.DONE),
        ([RunState.CANCELLED, RunState.CANCELLED], ExperimentState.CANCELLED),
        ([RunState.SUCCEEDED, RunState.CANCELLED], ExperimentState.PARTIAL),
        ([RunState.SUCCEEDED, RunState.PARTIAL], ExperimentState.PARTIAL),
        ([RunState.FAILED, RunState.FAILED], ExperimentState.PARTIAL),
    ],
)
def test_the_state_of_an_experiment_follows_from_its_runs(runs: list[RunState], state: ExperimentState) -> None:
    assert experiment_state(runs) is state
    assert state.is_terminal == (state is not ExperimentState.OPEN)
