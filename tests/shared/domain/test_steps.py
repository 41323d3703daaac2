"""Every kind of step is in the table, with consistent properties."""

from __future__ import annotations

import pytest

from vlmhyperbench.domain.steps import STEPS, StepKind, asks_the_run


def test_every_kind_of_step_is_in_the_table() -> None:
    assert list(STEPS) == list(StepKind)


@pytest.mark.parametrize("kind", StepKind)
def test_a_step_that_asks_a_target_writes_facts(kind: StepKind) -> None:
    step = STEPS[kind]
    assert step.writes_facts or step.asks is None


@pytest.mark.parametrize("kind", StepKind)
def test_only_a_step_that_writes_facts_has_a_phase_for_them(kind: StepKind) -> None:
    step = STEPS[kind]
    if step.writes_facts:
        assert step.facts_phase == step.phase
    else:
        with pytest.raises(LookupError, match=step.stage):
            _ = step.facts_phase


def test_only_a_step_that_asks_the_runs_own_target_measures_the_run() -> None:
    assert [kind for kind in StepKind if asks_the_run(kind)] == [StepKind.GENERATE]
