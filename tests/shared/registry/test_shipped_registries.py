"""The registries that are shipped: whole, in step with the plugins, and their schemas generated from the code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from vlmhyperbench.data.enumerating import index
from vlmhyperbench.data.weights import verify
from vlmhyperbench.domain.prompts import render
from vlmhyperbench.domain.specs import Limits, ModelTarget, PromptSpec, RunSpec
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.choices import DatasetChoice
from vlmhyperbench.registry.documents import read_document
from vlmhyperbench.registry.loading import load_catalogue
from vlmhyperbench.registry.pins import pin_dataset
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.references import References
from vlmhyperbench.registry.resolution import resolve_experiment, resolve_run
from vlmhyperbench.registry.schema_lines import write_lines
from vlmhyperbench.registry.schemas import json_schemas
from vlmhyperbench.storage import open_storage
from vlmhyperbench_document_datasets.synthetic import SyntheticDocuments
from vlmhyperbench_sdk.discovery import load as load_plugin
from vlmhyperbench_sdk.gateway import LoadRequest
from vlmhyperbench_sdk.protocols import DatasetSource, EngineLaunch

ROOT = Path(__file__).parents[3] / "registries"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(ROOT)


def test_they_load_without_a_warning_in_both_modes(catalogue: Catalogue) -> None:
    assert catalogue.warnings == ()
    assert load_catalogue(ROOT, "dev").warnings == ()


def test_schemas_and_first_lines_are_the_written_ones(tmp_path: Path) -> None:
    """A new file gets its line by `make format`."""
    copy = shutil.copytree(ROOT, tmp_path / "registries")
    assert write_lines(copy) == [], "Run: make format"
    committed = {file.name: file.read_text(encoding="utf-8") for file in (ROOT / "schemas").iterdir()}
    assert committed == json_schemas(), "Run: make format"


def test_every_file_names_a_schema_that_is_there_and_by_which_it_is_valid() -> None:
    files = sorted(ROOT.glob("*/*.yaml"))
    assert len(files) > 100
    for file in files:
        _, _, named = file.read_text(encoding="utf-8").splitlines()[0].partition("# yaml-language-server: $schema=")
        schema = json.loads((file.parent / named).read_text(encoding="utf-8"))
        document, _ = read_document(file, file.name)
        assert document is not None
        problems = [error.message for error in Draft202012Validator(schema).iter_errors(document.value)]
        assert problems == [], file


def test_every_run_and_experiment_resolves(catalogue: Catalogue) -> None:
    for run in catalogue.runs.values():
        assert resolve_run(catalogue, run).task == run.task
    for experiment in catalogue.experiments.values():
        assert resolve_experiment(catalogue, experiment)


def test_the_demo_compares_two_precisions_on_at_least_two_hundred_images(catalogue: Catalogue) -> None:
    (baseline, first), (_, second) = resolve_experiment(catalogue, catalogue.experiments["demo"])
    assert baseline == "tiny-doc-vlm · document-qa"
    assert _quantization(first) == "F16"
    assert _quantization(second) == "Q4_0"
    assert first.dataset == second.dataset
    samples = list(load_plugin("datasets", first.dataset.type)(_source(first)))
    assert len({sample.images[0].data for sample in samples}) >= 200
    assert 1300 < len(samples) < 1600


def test_the_text_task_has_a_thousand_questions_without_images(catalogue: Catalogue) -> None:
    spec = resolve_run(catalogue, catalogue.runs["simulated-instant"])
    assert spec.dataset.limit == 1000
    samples = list(load_plugin("datasets", spec.dataset.type)(_source(spec)))
    assert len(samples) >= 1000
    assert not any(sample.images for sample in samples)


def test_every_model_s_files_are_the_pinned_ones_and_its_adapter_takes_its_params(catalogue: Catalogue) -> None:
    for name in (name for name, model in catalogue.models.items() if model.hub is None):
        run = catalogue.runs["tiny-doc-vlm"].model_copy(
            update={"target": type(catalogue.runs["tiny-doc-vlm"].target).model_validate({"model": name})}
        )
        target = resolve_run(catalogue, run).target
        assert isinstance(target, ModelTarget)
        files = {file.role: str(verify(file)) for file in target.files}
        adapter = load_plugin("backends", target.backend_class)()
        load = LoadRequest(
            model=name, backend_class=target.backend_class, files=files, engine_params=target.engine_params
        )
        assert isinstance(adapter.plan_engine(load, port=1, python="python"), EngineLaunch)


def test_a_model_of_the_hub_states_its_facts_and_where_it_was_run(catalogue: Catalogue) -> None:
    of_hub = {name: model for name, model in catalogue.models.items() if model.hub is not None}
    assert len(of_hub) >= 20
    assert len({(model.hub.repo, *model.files.values()) for model in of_hub.values() if model.hub}) == len(of_hub)
    for name, model in of_hub.items():
        assert model.parameter_count, name
        assert model.images, name
        assert model.sources, name
        assert model.hub is not None
        assert f"https://huggingface.co/{model.hub.repo}" in model.sources, name
        assert (model.sha256, model.verified) == ({}, ()), name
        assert ("weights" in model.files) == (model.backends == ("llamacpp",)), name


def test_metrics_say_the_same_of_themselves_as_their_plugins(catalogue: Catalogue) -> None:
    for name, entry in catalogue.metrics.items():
        for profile, params in {entry.profile: {}, **entry.profiles}.items():
            description = load_plugin("metrics", entry.class_path)(**{**entry.params, **params}).description
            assert (description.name, description.profile, description.version) == (name, profile, entry.version)


def _quantization(spec: RunSpec) -> str | None:
    assert isinstance(spec.target, ModelTarget)
    return spec.target.quantization


def _source(spec: RunSpec) -> DatasetSource:
    return DatasetSource(seed=spec.dataset.seed, params=spec.dataset.params)


def test_a_prompt_shows_the_schema_that_a_question_names(catalogue: Catalogue) -> None:
    sample = next(
        sample
        for sample in SyntheticDocuments(DatasetSource(params={"documents": 1, "schemas": ["typed"]}))
        if sample.metadata["question_type"] == "schema"
    )
    entry = catalogue.prompts["document-schema"]
    spec = PromptSpec(name=entry.name, version="1", user_prompt=entry.user_prompt)
    prompt = render(spec, question=sample.question, metadata=sample.metadata)
    question, _, schema = prompt.user.partition("\n\nThe schema:\n")
    assert question == sample.question
    assert json.loads(schema) == sample.metadata["json_schema"]


def test_the_annotation_csv_of_the_first_version_is_indexed(catalogue: Catalogue, tmp_path: Path) -> None:
    """It has a BOM, is separated by `;`, and has the header of the first version."""
    spec = pin_dataset(
        References(catalogue=catalogue, plugins=InstalledPlugins()),
        DatasetChoice(name="annotated-pages", doc_classes=("ticket",)),
        ("dataset",),
    )
    assert spec is not None
    header = "\ufeffdata_index;split;image_path;question;answer;doc_class;question_type;answer_bbox\n"
    assert Path(str(spec.path), "annotation.csv").read_bytes().startswith(header.encode())
    result = index(spec, Limits(), open_storage(str(tmp_path)))
    assert (result.samples, result.unreadable) == (6, 0)
