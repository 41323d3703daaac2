"""The examples of a prompt: how many there are, with which answer each is shown, and where their dataset is read."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import JsonValue

from tests.support.builders import run_spec
from vlmhyperbench.domain.few_shot import answer_of
from vlmhyperbench.domain.specs import DatasetSpec, FewShotSpec

DATASET: dict[str, Any] = {"name": "train", "version": "1", "type": "tables"}


def few_shot(answer_field: str | None = None, **fields: Any) -> FewShotSpec:
    return FewShotSpec(dataset=DatasetSpec.model_validate({**DATASET, **fields}), answer_field=answer_field)


def test_an_example_shows_its_first_answer_that_is_not_blank() -> None:
    assert answer_of(few_shot(), [" ", "7.50", "7,50"], {}) == "7.50"
    assert answer_of(few_shot(), [], {"answer": "x"}) == ""


@pytest.mark.parametrize(
    ("value", "answer"),
    [("B", "B"), (7, "7"), (7.5, "7.5"), (" ", ""), (True, ""), (None, ""), (["B"], "")],
)
def test_an_example_shows_the_metadata_that_is_named_if_that_is_text_or_a_number(value: JsonValue, answer: str) -> None:
    assert answer_of(few_shot("letter"), ["reference"], {"letter": value}) == answer


def test_the_draw_states_how_many_examples_there_are() -> None:
    assert few_shot(sampling={"size": 3}).count == 3
    assert few_shot().count == 0


def test_the_environment_of_the_examples_is_one_of_the_run() -> None:
    spec = run_spec()
    environment = {"kind": "virtualenv", "requirements": ["pandas==3.0.0"], "python": "3.11"}
    given = few_shot(environment=environment)
    prompt = spec.prompt.model_copy(update={"few_shot": given})
    assert spec.model_copy(update={"prompt": prompt}).apart == {"dataset train": given.dataset.environment}
