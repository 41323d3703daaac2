"""What a rerun keeps: only a row that is ok and answers the same request, by the same target and engine."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from vlmhyperbench.db.kept import KeepableView
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench_inference_worker.requests import PlannedRequest
from vlmhyperbench_inference_worker.reuse import KEPT, Parent, _is_same, decide
from vlmhyperbench_sdk.gateway import EngineIdentity
from vlmhyperbench_sdk.types import Prompt

CLAIM, RUN = UUID(int=1), UUID(int=2)
ROW = KeepableView(
    source_run_id=RUN,
    source_phase=1,
    source_ordinal=3,
    sample=3,
    repeat=0,
    request_sha256="a" * 64,
    status=FactStatus.OK,
    error_code=None,
    claim_id=CLAIM,
)
PARENT = Parent(rows={(3, 0): ROW}, is_same_target=True, same_engine=frozenset({CLAIM}))
REQUEST = PlannedRequest(
    phase=1,
    ordinal=3,
    sample=3,
    repeat=0,
    prompt=Prompt(user="?"),
    images=(),
    request={},
    request_sha256="a" * 64,
)
ENGINE = EngineIdentity(name="llama.cpp", version="b1", argv=(), weights_sha256={"weights": "c" * 64})
RECORDED = {"name": "llama.cpp", "version": "b1", "weights_sha256": {"weights": "c" * 64}}


def test_the_same_request_to_the_same_engine_is_kept() -> None:
    decision = decide(PARENT, REQUEST)
    assert (decision.source, decision.reason) == (ROW, KEPT)


@pytest.mark.parametrize(
    ("parent", "request_", "reason"),
    [
        (PARENT, replace(REQUEST, sample=4), "the parent has no such row"),
        (PARENT, replace(REQUEST, repeat=1), "the parent has no such row"),
        (replace(PARENT, is_same_target=False), REQUEST, "the target is another"),
        (PARENT, replace(REQUEST, request_sha256="b" * 64), "the request is another"),
        (replace(PARENT, same_engine=frozenset()), REQUEST, "the engine or its weights are others"),
        (
            replace(PARENT, rows={(3, 0): replace(ROW, status=FactStatus.ERROR, error_code="timeout")}),
            REQUEST,
            "it failed: timeout",
        ),
        (
            replace(PARENT, rows={(3, 0): replace(ROW, status=FactStatus.QUARANTINED)}),
            REQUEST,
            "it failed: quarantined",
        ),
    ],
)
def test_any_difference_asks_again_and_says_which(parent: Parent, request_: PlannedRequest, reason: str) -> None:
    decision = decide(parent, request_)
    assert (decision.source, decision.reason) == (None, reason)


@pytest.mark.parametrize(
    "recorded",
    [
        RECORDED | {"name": "other"},
        RECORDED | {"version": "b2"},
        RECORDED | {"weights_sha256": {"weights": "d" * 64}},
        RECORDED | {"weights_sha256": {}},
        {},
    ],
)
def test_an_engine_that_differs_in_anything_is_another(recorded: dict[str, object]) -> None:
    assert _is_same(RECORDED, ENGINE)
    assert not _is_same(recorded, ENGINE)  # type: ignore[arg-type]
    assert not _is_same(RECORDED | {"version": ""}, replace(ENGINE, version=""))
