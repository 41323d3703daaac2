"""A run of imported answers is pinned: who answered, whose questions they are, how they are evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.shared.registry.writing import Shelf, load
from tests.support.wording import Wording
from vlmhyperbench.domain.specs import ImportTarget, RunSpec
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.importing import Choices, resolve_import


@dataclass(frozen=True)
class Found:
    """What a file holds."""

    sha256: str = "a" * 64
    format: str = "lm-eval"
    tool: str | None = "lm_eval 0.4"
    model: str | None = "other"
    task: str | None = "squad"
    decoding: dict[str, JsonValue] = field(default_factory=lambda: {"temperature": 0.7})
    repeats: int = 2
    referenced: int = 5
    reported: list[str] = field(default_factory=lambda: ["f1", "acc"])


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    return load(tmp_path)


def spec(catalogue: Catalogue, found: Found | None = None, **choices: object) -> RunSpec:
    chosen = Choices.model_validate(choices)
    return resolve_import(catalogue, found or Found(), chosen, storage_path="storage:answers/a.jsonl", plugins=Shelf())


def errors(catalogue: Catalogue, found: Found | None = None, **choices: object) -> list[str]:
    with pytest.raises(RegistryErrors) as raised:
        spec(catalogue, found, **choices)
    return [f"{error.field}: {error.message}" for error in raised.value.errors]


def test_the_file_says_who_answered_and_holds_the_samples(catalogue: Catalogue) -> None:
    pinned = spec(catalogue, metrics=("anls",))
    assert pinned.target == ImportTarget(
        model_name="other",
        format="lm-eval",
        tool="lm_eval 0.4",
        answers="a" * 64,
        decoding={"temperature": 0.7},
    )
    assert (pinned.task, pinned.dataset.name, pinned.dataset.path) == ("squad", "squad", "storage:answers/a.jsonl")
    assert pinned.dataset.version == "a" * 12
    assert pinned.decoding.n == 2
    assert [metric.name for metric in pinned.metrics] == ["anls", "reported f1", "reported acc"]
    assert (pinned.target.served_name, pinned.target.backend_class, pinned.target.engine_params) == (
        "other",
        "import",
        {},
    )


def test_a_task_gives_what_is_not_chosen_and_a_dataset_its_samples(catalogue: Catalogue) -> None:
    pinned = spec(catalogue, task="t", dataset="d", model="mine", on_invalid="zero")
    assert (pinned.task, pinned.target.served_name, pinned.on_invalid) == ("t", "mine", "zero")
    assert (pinned.dataset.name, pinned.dataset.required_fields) == ("d", ("doc_class",))
    assert [metric.name for metric in pinned.metrics][:2] == ["anls", "cer"]
    assert pinned.group_by == ("doc_class",)


def test_a_file_that_says_little_is_named_after_its_format(catalogue: Catalogue) -> None:
    pinned = spec(catalogue, Found(model=None, task=None, reported=[]), metrics=("anls",))
    assert (pinned.target.served_name, pinned.task) == ("unknown model", "imported answers")
    assert pinned.dataset.name == f"lm-eval answers {pinned.dataset.version}"  # of another file they are others


def test_an_import_without_metrics_or_references_is_refused(catalogue: Catalogue, wording: Wording) -> None:
    wording("\n".join(errors(catalogue)))
    wording("\n".join(errors(catalogue, Found(referenced=0), metrics=("anls",))))
    assert len(errors(catalogue, task="nope", dataset="nope", metrics=("nope",))) == 3


def test_what_imported_answers_cost_is_unknown_and_said_to_be(catalogue: Catalogue) -> None:
    pinned = spec(catalogue, metrics=("anls",))
    assert pinned.prices is None
    assert "imported" in (pinned.unpriced or "")
