"""Every kind of step stands in the table, and what the table says of it holds together."""

from __future__ import annotations

import pytest

from vlmhyperbench.domain.steps import STEPS, StepKind, asks_the_run


def test_every_kind_of_step_stands_in_the_table() -> None:
    assert list(STEPS) == list(StepKind)


@pytest.mark.parametrize("kind", StepKind)
def test_what_a_step_is_asked_for_becomes_facts(kind: StepKind) -> None:
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


def test_only_what_asks_the_runs_own_target_measures_the_run() -> None:
    assert [kind for kind in StepKind if asks_the_run(kind)] == [StepKind.GENERATE]
