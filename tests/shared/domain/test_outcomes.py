"""What each error of a handler means for its job."""

from __future__ import annotations

import builtins
import errno

import pytest

from vlmhyperbench import errors
from vlmhyperbench.domain.outcomes import Failed, Preempted, cause_of, outcome_of
from vlmhyperbench.errors import (
    STORAGE_FULL,
    Conflict,
    Damaged,
    Denied,
    DoesNotFit,
    Fenced,
    InvalidInput,
    NotFound,
    NotReady,
    OutOfMemory,
    PluginFailure,
    TargetRefused,
    Unavailable,
    VlmHyperBenchError,
)
from vlmhyperbench_sdk.types import JsonObject

FINAL: dict[type[VlmHyperBenchError], bool] = {
    InvalidInput: True,
    NotFound: True,
    Conflict: True,
    Denied: True,
    PluginFailure: True,
    NotReady: False,
    Unavailable: False,
    OutOfMemory: False,
    VlmHyperBenchError: False,
}


@pytest.mark.parametrize(("kind", "is_final"), FINAL.items())
def test_an_error_of_the_tree_fails_the_job(kind: type[VlmHyperBenchError], is_final: bool) -> None:
    expected = Failed(code=kind.code, message="No. Do otherwise.", permanent=is_final)
    assert outcome_of(kind("No.", cure="Do otherwise.")) == expected


def test_every_error_of_the_tree_has_its_row() -> None:
    tree = {error for name in errors.__all__ if isinstance(error := getattr(errors, name), type)}
    assert tree == {*FINAL, DoesNotFit, Fenced, TargetRefused, Damaged}


def test_a_damaged_file_fails_the_job_permanently() -> None:
    outcome = outcome_of(Damaged("runs/r/chunk", expected="0" * 64, found="1" * 64))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.permanent) == (Damaged.code, True)


def test_a_subclass_of_an_error_has_the_outcome_of_its_base() -> None:
    class EngineLost(Unavailable):
        code = "engine_lost"

    class WrongSamples(InvalidInput):
        code = "samples"

    assert outcome_of(EngineLost("Gone.")) == Failed(code="engine_lost", message="Gone.")
    assert outcome_of(WrongSamples("Two.")) == Failed(code="samples", message="Two.", permanent=True)


@pytest.mark.parametrize("answer", [None, {"http_status": 404, "rule": "unknown_model"}])
def test_a_refusing_target_fails_the_job_permanently_with_the_server_s_error(answer: dict[str, object]) -> None:
    error = TargetRefused("No such model.", cure="Name one.", code="endpoint_unknown_model", answer=answer)
    outcome = outcome_of(error)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.permanent, outcome.error) == ("endpoint_unknown_model", True, answer)


def test_a_model_that_does_not_fit_fails_the_job_permanently_with_its_shortage() -> None:
    row: JsonObject = {"memory": "machine", "need_bytes": 9, "have_bytes": 8, "shortfall_bytes": 1}
    facts: JsonObject = {"model": "large", "rows": [row], "knobs": [], "has_run_out": False}
    refused = outcome_of(DoesNotFit("Too large.", cure="Choose another.", facts=facts))
    assert refused == Failed(code="does_not_fit", message="Too large. Choose another.", permanent=True, shortage=facts)
    other = outcome_of(InvalidInput("Wrong.", cure="Choose another."))
    assert isinstance(other, Failed)
    assert other.shortage is None


def test_a_lost_claim_writes_nothing() -> None:
    assert outcome_of(Fenced("Lost.")) is None


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("Full.", code=STORAGE_FULL),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
    ],
)
def test_a_full_disk_preempts_the_job(error: Exception) -> None:
    assert outcome_of(error) == Preempted(reason=STORAGE_FULL)


@pytest.mark.parametrize("error", [ValueError("x"), OSError(errno.EACCES, "x"), AssertionError()])
def test_any_other_error_is_a_crash_and_is_tried_again(error: Exception) -> None:
    outcome = outcome_of(error)
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.permanent) == ("crash", False)
    assert type(error).__name__ in outcome.message


def group(*inner: Exception) -> Exception:
    return builtins.ExceptionGroup("several", inner)


def test_an_error_of_the_tree_decides_the_outcome_of_an_exception_group() -> None:
    assert outcome_of(group(ValueError("x"), group(Unavailable("Away.")))) == Failed(
        code="unavailable", message="Away."
    )


def test_a_lost_claim_decides_the_outcome_of_an_exception_group() -> None:
    lost = Fenced("Lost.")
    assert cause_of(group(InvalidInput("x"), group(lost))) is lost
    assert outcome_of(group(InvalidInput("x"), group(lost))) is None
