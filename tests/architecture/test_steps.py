"""Every kind of step has a handler, in the worker that the table of steps names and in no other."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from vlmhyperbench.domain.steps import STEPS, StepKind
from vlmhyperbench_eval_worker.main import HANDLERS as EVALUATION
from vlmhyperbench_inference_worker.generation import READERS as INFERENCE
from vlmhyperbench_reporter.main import HANDLERS as REPORTING


@pytest.mark.parametrize(
    ("worker", "handled"), [("evaluation", EVALUATION), ("inference", INFERENCE), ("reporting", REPORTING)]
)
def test_a_worker_handles_the_steps_that_the_table_gives_it(worker: str, handled: Collection[StepKind]) -> None:
    assert set(handled) == {kind for kind, step in STEPS.items() if step.worker == worker}
