"""Every refusal says how it is cured: every field of every model that comes in is given what it does not take."""

from __future__ import annotations

import typing
from collections.abc import Iterator

import pytest
from pydantic import BaseModel, JsonValue

from vlmhyperbench.domain.scenarios import ScenarioSpec
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.registry.cures import FALLBACK
from vlmhyperbench.registry.errors import Problem
from vlmhyperbench.registry.metrics import JudgeParams
from vlmhyperbench.registry.schemas import KINDS
from vlmhyperbench.registry.validation import validate
from vlmhyperbench.wire.answers import RunImport
from vlmhyperbench.wire.live import Subscribe
from vlmhyperbench.wire.runs import ExperimentCreate, RunCreate, RunRerun, RunRescore

DOORS: list[type[BaseModel]] = [
    *KINDS.values(),
    *(RunCreate, RunRerun, RunRescore, RunImport, ExperimentCreate, Subscribe, JudgeParams, ScenarioSpec, RunSpec),
]
WRONG: list[JsonValue] = [
    *(None, True, False, -1, 0, 10**30, 0.5, 1e9, "", "x", "../x", "\0", "a\nb", "x" * 5000, "1_0", "=1+1"),
    *([], [[]], [None], ["x"] * 5000, [{"x": 1}], {}, {"x": {"y": 1}}, {"type": "x"}, {"kind": "x"}, {"name": "?"}),
    *({"endpoint": 5}, {"model": "?"}, {"rate_per_s": 0}, {"limits_ms": {"x": 1}}, {"limits_ms": {"ttft": 0}}),
    *({"rule": "not_worse"}, {"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}),
]


def _models(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    if model in seen:
        return
    seen.add(model)
    yield model
    for field in model.model_fields.values():
        for inner in _models_in(field.annotation):
            yield from _models(inner, seen)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models_in(part)


ALL = [model for seen in [set[type[BaseModel]]()] for door in DOORS for model in _models(door, seen)]


def _asked(model: type[BaseModel]) -> Iterator[tuple[str, JsonValue, Problem]]:
    for name, field in model.model_fields.items():
        for value in WRONG:
            written = field.alias or name
            for problem in validate(model, {written: value})[1]:
                yield name, value, problem


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__)
def test_whatever_is_wrong_with_a_field_has_a_message_and_a_cure(model: type[BaseModel]) -> None:
    without = [
        (name, str(value)[:40], problem)
        for name, value, problem in _asked(model)
        if not problem.message or not problem.cure or problem.cure == FALLBACK
    ]
    assert without == []


def test_most_fields_refuse_something() -> None:
    """The walk above asks something: a model that takes everything would pass it."""
    refusing = {model for model in ALL if any(True for _ in _asked(model))}
    assert len(ALL) > 30
    assert set(ALL) == refusing


@pytest.mark.parametrize(
    "body",
    [
        {"run": "a", "priority": True},
        {"run": "a", "priority": "5"},
        {"run": "a", "priority": 5.0},
        {"run": {"target": {"model": "m"}, "task": "t", "decoding": {"max_tokens": True}}},
        {"run": {"target": {"model": "m"}, "task": "t", "decoding": {"temperature": True}}},
        {"run": {"target": {"model": "m"}, "task": "t", "limits": {"tries": "1_0"}}},
        {"run": {"target": {"model": "m"}, "task": "t", "dataset": {"name": "d", "limit": True}}},
        {"run": {"target": {"model": "m"}, "task": "t", "scenario": {"name": "s", "requests": "10"}}},
    ],
)
def test_true_is_no_number_and_text_neither(body: JsonValue) -> None:
    found, [problem] = validate(RunCreate, body)
    assert found is None
    assert "number" in problem.cure


@pytest.mark.parametrize(
    "run",
    [
        {"secrets": [f"s{no}" for no in range(10_000)]},
        {"secrets": ["a", "a"]},
        {"decoding": {"stop": ["x"] * 17}},
        {"decoding": {"stop": [""]}},
        {"metrics": ["anls"] * 101},
        {"group_by": ["x"] * 21},
        {"target": {"endpoint": "https://a.example", "model_name": "m", "backend_class": ""}},
        {"target": {"endpoint": "https://a.example", "model_name": "m", "backend_class": "../x"}},
    ],
)
def test_what_would_fail_only_in_the_worker_is_refused(run: dict[str, JsonValue]) -> None:
    found, problems = validate(RunCreate, {"run": {"target": {"model": "m"}, "task": "t", **run}})
    assert found is None
    assert problems
    assert all(problem.cure for problem in problems)
