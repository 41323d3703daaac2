"""Which rows a rerun reuses: only a row that is ok and answers the same request, by the same target and engine."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vlmhyperbench.db.reuse import ReusableView
from vlmhyperbench.domain.specs import Decoding
from vlmhyperbench.domain.states import FactStatus
from vlmhyperbench_inference_worker.requests import ImageRef, PlannedRequest, chat_request, request_digest
from vlmhyperbench_inference_worker.reuse import Known, Reason, _is_same, decide, same_engine
from vlmhyperbench_sdk.gateway import EngineIdentity
from vlmhyperbench_sdk.types import Prompt

CLAIM, RUN = UUID(int=1), UUID(int=2)
ROW = ReusableView(
    source_run_id=RUN,
    source_phase=1,
    source_ordinal=3,
    ordinal=3,
    repeat=0,
    request_sha256="a" * 64,
    status=FactStatus.OK,
    error_code=None,
    claim_id=CLAIM,
)
PARENT = Known(parent={("s3", 0): ROW}, is_same_target=True, cached={}, same_engine=frozenset({CLAIM}))
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


def test_the_row_of_the_same_request_to_the_same_engine_is_reused() -> None:
    decision = decide(PARENT, REQUEST, key="s3")
    assert (decision.source, decision.reason) == (ROW, Reason.SAME_REQUEST)


@pytest.mark.parametrize(
    ("parent", "request_", "reason"),
    [
        (replace(PARENT, parent={("s4", 0): ROW}), REQUEST, Reason.NOT_IN_PARENT),
        (PARENT, replace(REQUEST, repeat=1), Reason.NOT_IN_PARENT),
        (replace(PARENT, is_same_target=False), REQUEST, Reason.OTHER_TARGET),
        (PARENT, replace(REQUEST, request_sha256="b" * 64), Reason.OTHER_REQUEST),
        (replace(PARENT, same_engine=frozenset()), REQUEST, Reason.OTHER_ENGINE),
        (
            replace(PARENT, parent={("s3", 0): replace(ROW, status=FactStatus.ERROR, error_code="timeout")}),
            REQUEST,
            Reason.FAILED,
        ),
        (
            replace(PARENT, parent={("s3", 0): replace(ROW, status=FactStatus.QUARANTINED)}),
            REQUEST,
            Reason.FAILED,
        ),
    ],
)
def test_any_difference_asks_again_and_is_the_reason(parent: Known, request_: PlannedRequest, reason: Reason) -> None:
    decision = decide(parent, request_, key="s3")
    assert (decision.source, decision.reason) == (None, reason)


def test_an_engine_in_its_own_environment_is_the_same_only_with_the_same_packages() -> None:
    engine, other = replace(ENGINE, packages={"torch": "2.13.0"}), {**RECORDED, "packages": {"torch": "2.12.0"}}
    assert _is_same(other, engine, is_apart=False)
    assert not _is_same(other, engine, is_apart=True)
    assert _is_same({**RECORDED, "packages": {"torch": "2.13.0"}}, engine, is_apart=True)


def test_an_engine_is_the_same_only_with_the_same_settings_of_its_worker_s_environment() -> None:
    engine = replace(ENGINE, variables={"OMP_NUM_THREADS": "1"})
    assert _is_same({**RECORDED, "variables": {"OMP_NUM_THREADS": "1"}}, engine, is_apart=False)
    for other in ({}, {"variables": {}}, {"variables": {"OMP_NUM_THREADS": "2"}}):
        assert not _is_same({**RECORDED, **other}, engine, is_apart=False)
    assert not _is_same({**RECORDED, "variables": {"OMP_NUM_THREADS": "1"}}, ENGINE, is_apart=False)


def test_answers_are_reused_without_an_engine_only_where_one_engine_gave_them_all() -> None:
    first = asdict(replace(ENGINE, pid=1, packages={"a": "1"}))
    again = asdict(replace(ENGINE, pid=2, packages={"a": "1"}))
    found = same_engine([first, again])
    assert found is not None
    assert _is_same(first, found, is_apart=True)
    other = asdict(replace(ENGINE, version="b2"))
    packaged = asdict(replace(ENGINE, packages={"a": "2"}))
    unknown = asdict(replace(ENGINE, version="unknown"))
    for recorded in ([], [first, other], [first, packaged], [unknown]):
        assert same_engine(recorded) is None


@pytest.mark.parametrize("name", ["adapter_packages", "sources"])
def test_an_adapter_from_a_package_is_the_same_only_with_the_same_packages(name: str) -> None:
    engine = replace(ENGINE, **{name: {"mine": "1.0"}})
    assert _is_same({**RECORDED, name: {"mine": "1.0"}}, engine, is_apart=False)
    for other in ({}, {name: {"mine": "1.1"}}):
        assert not _is_same({**RECORDED, **other}, engine, is_apart=False)


@pytest.mark.parametrize(
    ("row", "error_code"),
    [
        (replace(ROW, status=FactStatus.ERROR, error_code="timeout"), "timeout"),
        (replace(ROW, status=FactStatus.QUARANTINED), "quarantined"),
        (replace(ROW, request_sha256="b" * 64, status=FactStatus.ERROR, error_code="timeout"), None),
        (ROW, None),
    ],
)
def test_the_error_of_the_parent_s_row_is_stated_where_it_is_the_reason(
    row: ReusableView, error_code: str | None
) -> None:
    assert decide(replace(PARENT, parent={("s3", 0): row}), REQUEST, key="s3").error_code == error_code


def test_a_row_that_the_parent_lacks_is_reused_of_any_run_with_the_same_request() -> None:
    cached = replace(ROW, source_ordinal=9)
    known = Known(parent={}, is_same_target=False, cached={("a" * 64, 0): cached}, same_engine=frozenset())
    assert (decide(known, REQUEST, key="s3").source, decide(known, REQUEST, key="s3").reason) == (cached, Reason.CACHED)
    assert decide(known, replace(REQUEST, repeat=1), key="s3").reason is Reason.NEVER_ASKED
    assert decide(known, replace(REQUEST, request_sha256="b" * 64), key="s3").source is None
    assert decide(replace(PARENT, cached=known.cached), REQUEST, key="s3").source == ROW


ASKED = {
    "model": "tiny",
    "prompt": Prompt(user="What is the total?", system="Answer shortly."),
    "images": (ImageRef(sha256="1" * 64, media_type="image/png"),),
    "decoding": Decoding(temperature=0.0, top_p=0.9, top_k=5, min_p=0.1, max_tokens=9, stop=("x",), seed=1),
    "repeat": 0,
    "response_format": {"type": "json_object"},
}
FLOATS = st.floats(0.01, 0.99)
OTHERS = st.one_of(
    st.text(min_size=1, max_size=9).map(lambda text: {"model": text}),
    st.text(max_size=9).map(lambda text: {"prompt": Prompt(user=text, system="Answer shortly.")}),
    st.none().map(lambda _: {"prompt": Prompt(user="What is the total?")}),
    st.text(alphabet="0123456789abcdef", min_size=64, max_size=64).map(
        lambda digest: {"images": (ImageRef(sha256=digest, media_type="image/png"),)}
    ),
    st.integers(0, 3).map(lambda count: {"images": ASKED["images"] * count}),
    st.just({"images": (ImageRef(sha256="1" * 64, media_type="image/jpeg"),)}),
    st.integers(1, 9).map(lambda repeat: {"repeat": repeat}),
    st.none().map(lambda none: {"response_format": none}),
    st.text(max_size=9).map(lambda name: {"response_format": {"type": "json_schema", "name": name}}),
    st.one_of(
        FLOATS.map(lambda value: {"temperature": value}),
        FLOATS.map(lambda value: {"top_p": value}),
        FLOATS.map(lambda value: {"min_p": value}),
        st.integers(0, 99).map(lambda value: {"top_k": value}),
        st.integers(1, 99).map(lambda value: {"max_tokens": value}),
        st.none() | st.integers(0, 99).map(lambda value: {"seed": value}),
        st.lists(st.text(max_size=3), max_size=2).map(lambda value: {"stop": tuple(value)}),
    )
    .filter(bool)
    .map(lambda changes: {"decoding": ASKED["decoding"].model_copy(update=changes)}),
)


@given(OTHERS)
def test_no_cached_row_answers_a_request_that_differs_in_anything(changes: dict[str, Any]) -> None:
    asked = ASKED | changes
    assume(asked != ASKED)
    first, second = (request_digest(chat_request(**request)) for request in (ASKED, asked))
    assert first != second
    known = Known(parent={}, is_same_target=False, cached={(first, 0): ROW}, same_engine=frozenset())
    request = replace(REQUEST, request_sha256=second, repeat=asked["repeat"])
    assert decide(known, request, key="s3").source is None


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
def test_an_engine_that_differs_in_anything_is_not_the_same(recorded: dict[str, object]) -> None:
    assert _is_same(RECORDED, ENGINE, is_apart=False)
    assert not _is_same(recorded, ENGINE, is_apart=False)
    assert not _is_same(RECORDED | {"version": ""}, replace(ENGINE, version=""), is_apart=False)
    assert not _is_same(RECORDED | {"version": "unknown"}, replace(ENGINE, version="unknown"), is_apart=False)


def test_an_engine_in_a_container_is_the_same_only_with_the_same_image() -> None:
    engine = replace(ENGINE, packages={}, environment={"kind": "apptainer", "image": "sha256:1"})
    recorded = {**RECORDED, "packages": {}}
    assert not _is_same(recorded, engine, is_apart=True)
    assert not _is_same({**recorded, "environment": {"kind": "apptainer", "image": "sha256:2"}}, engine, is_apart=True)
    assert _is_same({**recorded, "environment": dict(engine.environment)}, engine, is_apart=True)
