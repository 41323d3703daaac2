"""Few-shot prompts in the registry: where their examples are drawn is pinned, and what cannot have any is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import FILES as RIGHT
from tests.shared.registry.writing import Shelf, errors_of, load
from vlmhyperbench.domain.digests import digest_of
from vlmhyperbench.domain.identity import identify
from vlmhyperbench.domain.planning import are_paired, dataset_digest, index_digest, plan_experiment
from vlmhyperbench.domain.specs import RunSpec
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.functions import FunctionChoices, resolve_function
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry

FEW_SHOT = """\
few_shot: {split: train, count: 3, seed: 7, stratify: [doc_class], where: ["pages<=2"], answer_field: solution}
"""
TASK = RIGHT["tasks/t.yaml"]
FILES = {
    "datasets/d.yaml": "type: drawn\nsplit: test\nlimit: 9\nparams: {documents: 3}\n",
    "datasets/other.yaml": "type: drawn\n",
    "prompts/plain.yaml": 'user_prompt: "{{ question }}"\n',
    "prompts/p.yaml": FEW_SHOT,
    "scenarios/talk.yaml": "kind: interactive\nturns: 2\n",
    "tasks/t.yaml": TASK.replace("single]", "talk]"),
}


def _catalogue(folder: Path, few_shot: str = FEW_SHOT) -> Catalogue:
    """Load the entries, of which the runs are none, because they would have the prompt's errors too."""
    return load(folder, {**FILES, "prompts/p.yaml": few_shot, "runs/r.yaml": None, "experiments/e.yaml": None})


def _spec(catalogue: Catalogue, **fields: object) -> RunSpec:
    entry = RunEntry.model_validate({"target": {"model": "m"}, "task": "t", **fields})
    return resolve_run(catalogue, entry, plugins=Shelf())


def test_the_draw_is_pinned_with_the_prompt(tmp_path: Path) -> None:
    spec = _spec(_catalogue(tmp_path))
    few_shot = spec.prompt.few_shot
    assert few_shot is not None
    drawn, sampling = few_shot.dataset, few_shot.dataset.sampling
    assert sampling is not None
    assert (drawn.split, drawn.limit, drawn.required_fields, drawn.where) == ("train", None, (), ("pages<=2",))
    assert (drawn.params, few_shot.answer_field) == (spec.dataset.params, "solution")
    assert (sampling.size, sampling.seed, sampling.by, sampling.allocation) == (3, 7, ("doc_class",), "equal")
    assert digest_of(_spec(_catalogue(tmp_path, FEW_SHOT.replace("seed: 7", "seed: 8")))) != digest_of(spec)


def test_another_dataset_may_have_the_examples(tmp_path: Path) -> None:
    spec = _spec(_catalogue(tmp_path, "few_shot: {dataset: other, count: 1}\n"))
    assert spec.prompt.few_shot is not None
    assert (spec.prompt.few_shot.dataset.name, spec.prompt.few_shot.dataset.split) == ("other", None)


def test_runs_with_other_examples_are_paired_but_have_index_jobs_and_identities_of_their_own(tmp_path: Path) -> None:
    catalogue = _catalogue(tmp_path)
    shown, plain = _spec(catalogue), _spec(catalogue, prompt="plain")
    assert are_paired(shown, plain)
    assert dataset_digest(shown) == dataset_digest(plain) == index_digest(plain) != index_digest(shown)
    plan = plan_experiment([plain, plain, shown])
    assert [len(plan.jobs), *map(len, plan.runs)] == [1, 0, 0, 1]
    assert "few_shot" in plan.runs[2][0].params
    prompts = [
        identify(
            shown,
            metric=shown.metrics[0],
            extractor=shown.extractors[0],
            manifest_id="m",
            engines=[],
            environment="",
            examples_id=examples_id,
        )["prompt"]
        for examples_id in ("a", "b")
    ]
    assert prompts[0] != prompts[1]


@pytest.mark.parametrize(
    ("few_shot", "field"),
    [
        ("few_shot: {count: 2}\n", "few_shot"),
        ("few_shot: {split: train, count: 0}\n", "few_shot.count"),
        ("few_shot: {split: train, count: 2, stratified: [a]}\n", "few_shot.stratified"),
        ("few_shot: {dataset: othr, count: 2}\n", "few_shot.dataset"),
    ],
)
def test_an_entry_that_says_too_little_or_too_much_is_refused(tmp_path: Path, few_shot: str, field: str) -> None:
    errors = errors_of(tmp_path, {**FILES, "prompts/p.yaml": few_shot})
    assert any(f"p.yaml:1: {field}: " in error for error in errors)


@pytest.mark.parametrize(
    ("few_shot", "fields", "place"),
    [
        ("few_shot: {split: test, count: 2}\n", {}, "task"),
        (FEW_SHOT, {"scenario": "talk"}, "task"),
        (FEW_SHOT, {"prompt": "p", "scenario": "talk"}, "prompt"),
    ],
)
def test_a_run_that_cannot_have_examples_is_refused(
    tmp_path: Path, few_shot: str, fields: dict[str, object], place: str
) -> None:
    with pytest.raises(RegistryErrors) as raised:
        _spec(_catalogue(tmp_path, few_shot), **fields)
    [error] = raised.value.errors
    assert (error.field, bool(error.cure)) == (place, True)


def test_a_pipeline_takes_examples_unless_a_model_that_is_asked_the_question_translates(tmp_path: Path) -> None:
    first = "stages:\n- {id: read, type: single, model: m}\n"
    later = "- {id: write, type: translate, model: g, input_from: read, source_language: de, target_language: en}\n"
    files = {
        **FILES,
        "runs/r.yaml": None,
        "experiments/e.yaml": None,
        "models/g.yaml": RIGHT["models/m.yaml"] + "request_style: translategemma\n",
        "pipelines/right.yaml": first + later,
        "pipelines/wrong.yaml": "stages:\n" + later.replace("input_from: read, ", ""),
    }
    catalogue = load(tmp_path, files)
    spec = _spec(catalogue, target={"pipeline": "right"})
    assert spec.prompt.few_shot is not None
    with pytest.raises(RegistryErrors) as raised:
        _spec(catalogue, target={"pipeline": "wrong"})
    assert ("task", True) in [(error.field, "translates one text" in error.message) for error in raised.value.errors]


def test_a_function_has_the_examples_of_a_run(tmp_path: Path) -> None:
    catalogue = _catalogue(tmp_path)
    of_run = _spec(catalogue).prompt.few_shot
    of_function = resolve_function(catalogue, FunctionChoices(task="t"), function="f", in_flight=1).prompt.few_shot
    assert of_run is not None
    assert of_function is not None
    assert of_function.answer_field == of_run.answer_field
    assert of_function.dataset.model_copy(update={"package": of_run.dataset.package}) == of_run.dataset
