"""The models of a pipeline stay loaded together if they fit, and are loaded one after the other if they do not."""

from __future__ import annotations

from vlmhyperbench.domain.execution import Execution, ExecutionMode, choose_execution
from vlmhyperbench.domain.refusals import MemoryRefusal

GIB = 2**30
NEEDS = {"a": 4 * GIB, "b": 2 * GIB, "c": 3 * GIB}


def choose(
    asked: ExecutionMode, have: int, *, needs: dict[str, int | None] | None = None, allow_lossy: bool = False
) -> Execution | MemoryRefusal:
    return choose_execution(
        asked,
        {**NEEDS} if needs is None else needs,
        have * GIB,
        name="p",
        memory="machine",
        optional=("b", "c"),
        allow_lossy=allow_lossy,
    )


def chosen(asked: ExecutionMode, have: int, **more: bool) -> Execution:
    execution = choose(asked, have, **more)
    assert isinstance(execution, Execution)
    return execution


def test_auto_keeps_what_fits_together_and_loads_the_rest_one_after_the_other() -> None:
    together = chosen("auto", 9)
    assert (together.mode, together.need_bytes, together.have_bytes, together.steps) == (
        "persistent",
        9 * GIB,
        9 * GIB,
        (),
    )
    apart = chosen("auto", 8)
    assert apart.mode == "sequential"
    assert [(step.rung, step.is_lossy) for step in apart.steps] == [("sequential mode", False)]


def test_what_the_pipeline_states_is_done() -> None:
    assert chosen("sequential", 100).mode == "sequential"
    assert chosen("persistent", 9).mode == "persistent"
    assert chosen("sequential", 100).recorded["asked"] == "sequential"


def test_persistent_that_does_not_fit_is_refused_with_what_would_fix_it() -> None:
    refused = choose("persistent", 8)
    assert isinstance(refused, MemoryRefusal)
    assert refused.facts == {
        "model": "p",
        "rows": [
            {"memory": "machine", "need_bytes": 9 * GIB, "have_bytes": 8 * GIB, "shortfall_bytes": GIB},
        ],
        "knobs": [
            {"name": "execution_mode", "to": "auto or sequential", "fixes": True},
            {"name": "limits.allow_lossy", "to": "true", "fixes": True},
        ],
        "has_run_out": False,
    }
    hopeless = choose("persistent", 3, allow_lossy=True)
    assert isinstance(hopeless, MemoryRefusal)
    assert [knob.name for knob in hopeless.knobs] == ["execution_mode"]


def test_optional_models_are_dropped_only_where_quality_may_be_given_up() -> None:
    execution = chosen("persistent", 7, allow_lossy=True)
    assert execution.dropped == ("b",)
    assert execution.need_bytes == 7 * GIB
    assert [(step.rung, step.is_lossy) for step in execution.steps] == [("without an optional member", True)]
    assert chosen("persistent", 4, allow_lossy=True).dropped == ("b", "c")
    assert chosen("persistent", 6, allow_lossy=True).dropped == ("c",)  # without it, b stays


def test_a_need_that_is_not_known_is_not_taken_for_a_small_one() -> None:
    unknown = {"a": 4 * GIB, "b": None}
    automatic = choose("auto", 100, needs=unknown)
    stated = choose("persistent", 100, needs=unknown)
    assert isinstance(automatic, Execution)
    assert isinstance(stated, Execution)
    assert (automatic.mode, automatic.need_bytes, stated.mode) == ("sequential", None, "persistent")


def test_one_model_alone_stays_loaded() -> None:
    alone = choose("auto", 100, needs={"a": None})
    assert isinstance(alone, Execution)
    assert alone.mode == "persistent"
