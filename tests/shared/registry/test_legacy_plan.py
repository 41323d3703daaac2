"""Tables of the first version: the plan that they compile to, and what is refused in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from vlmhyperbench.domain.prompts import render
from vlmhyperbench.domain.specs import PromptSpec
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.legacy_plan import compile_legacy
from vlmhyperbench.registry.loading import load_catalogue, read_catalogue
from vlmhyperbench.registry.matrix import target_name
from vlmhyperbench.registry.prompt_pins import templates_of
from vlmhyperbench.registry.resolution import resolve_experiment
from vlmhyperbench.registry.schemas import ExperimentEntry, PromptEntry, RunEntry
from vlmhyperbench.registry.shelf import Shelf

REGISTRIES = Path(__file__).parents[3] / "registries"
HEADER = (
    "dataset;task;framework;model_name;system_prompt;prompt_collection;metrics;only_evaluate_metrics;"
    "metrics_aggregators;filter_doc_class;filter_question_type\n"
)
BASE = (
    "framework;model_family;model_name;docker_image;git_python_package;python_package;module;class_name\n"
    "Simulated;Tiny;simulated-instant;image:1;;;models;Tiny\n"
    "Hugging Face;Qwen2.5-VL;Qwen/Qwen2.5-VL-3B-Instruct;;;;;\n"
    "Hugging Face;New;org/new-model;;;;;\n"
    "simulated;;simulated;;;;;\n"
)
ANNOTATION = "data_index;split;image_path;question;answer;doc_class;question_type;answer_bbox\n0;;;Who?;Anna;id;name;\n"


@pytest.fixture(scope="module")
def shipped() -> Catalogue:
    return load_catalogue(REGISTRIES)


def project(folder: Path, rows: str, *, header: str = HEADER, base: str = BASE) -> Path:
    (folder / "datasets" / "Snils").mkdir(parents=True)
    (folder / "datasets" / "Snils" / "annotation.csv").write_text(ANNOTATION, encoding="utf-8-sig")
    (folder / "vlm_base.csv").write_text(base, encoding="utf-8-sig")
    (folder / "user_config.csv").write_text(header + rows, encoding="utf-8-sig")
    return folder / "user_config.csv"


def problems(shipped: Catalogue, config: Path) -> list[tuple[int | None, str]]:
    with pytest.raises(RegistryErrors) as caught:
        compile_legacy(Shelf(root=config.parent / "own", catalogue=shipped), config)
    return [(error.line, error.field) for error in caught.value.errors]


WRITTEN = """\
runs:
- target: {model: simulated-instant, backend: simulated}
  task: Snils-VQA
  prompt: document-qa
  dataset: {name: Snils, doc_classes: [id]}
  metrics: [anls, exact_match]
  group_by: [doc_class, question_type]
- target: {model: simulated, backend: simulated}
  task: document-qa
  prompt: document-qa
  dataset: {name: Snils, question_types: [name, total]}
  metrics: [cer]
"""


def test_the_tables_and_an_experiment_in_yaml_are_one_plan(shipped: Catalogue, tmp_path: Path) -> None:
    config = project(
        tmp_path,
        "Snils;VQA;Simulated;simulated-instant;;;['ANLS', 'exact match'];False;"
        "['by_id', 'by_doc_question'];['id'];\n"
        "Snils;document-qa;simulated;simulated;None;;cer;0;[];;\"('name', 'total')\"\n",
    )
    shelf = Shelf(root=tmp_path / "own", catalogue=shipped)
    plan = compile_legacy(shelf, config)
    for entry in plan.entries:
        shelf.add(entry.kind, entry.name, entry.values, same=entry.same)
    (shelf.root / "experiments" / "written.yaml").write_text(WRITTEN)
    catalogue = read_catalogue([REGISTRIES, shelf.root])
    assert catalogue.errors == ()
    compiled, written = (
        resolve_experiment(catalogue, catalogue.experiments[name]) for name in ("user_config", "written")
    )
    assert compiled == written
    assert plan.origins == {"runs.0": f"{config}:2", "runs.1": f"{config}:3"}
    [warning] = plan.warnings
    assert warning.startswith(f"{tmp_path / 'vlm_base.csv'}:2: docker_image, module, class_name ")
    again = compile_legacy(Shelf(root=shelf.root, catalogue=catalogue), config)
    added = [shelf.add(entry.kind, entry.name, entry.values, same=entry.same) for entry in again.entries]
    assert not any(entry.is_new for entry in added)


def test_a_model_is_that_of_its_repository_and_else_is_made(shipped: Catalogue, tmp_path: Path) -> None:
    rows = (
        f"Snils;VQA;Hugging Face;{model};;;anls;;;;\n" for model in ("Qwen/Qwen2.5-VL-3B-Instruct", "org/new-model")
    )
    plan = compile_legacy(Shelf(root=tmp_path / "own", catalogue=shipped), project(tmp_path, "".join(rows)))
    made = {entry.name: entry.values for entry in plan.entries if entry.kind == "models"}
    values = {"backends": ["transformers"], "hub": {"repo": "org/new-model"}, "family": "New"}
    assert made == {"new-model-transformers": values}
    [first, second] = compiled_targets(plan.experiment.values)
    assert (first, second) == ("qwen2.5-vl-3b", "new-model-transformers")


def compiled_targets(values: Mapping[str, JsonValue]) -> list[str]:
    entry = ExperimentEntry.model_validate({**values, "name": "e"})
    return [target_name(run) for run in entry.runs if isinstance(run, RunEntry)]


def test_prompts_are_chosen_by_class_and_type_and_are_no_templates(shipped: Catalogue, tmp_path: Path) -> None:
    config = project(tmp_path, "Snils;VQA;simulated;simulated;system.txt;prompts.csv;anls;;;;\n")
    (tmp_path / "system.txt").write_text("Read {{ this }}.\n", encoding="utf-8-sig")
    (tmp_path / "prompts.csv").write_text("prompt;doc_class_question_type\nGive {% it %}.;id name\nTotal?;id total\n")
    plan = compile_legacy(Shelf(root=tmp_path / "own", catalogue=shipped), config)
    [values] = [entry.values for entry in plan.entries if entry.kind == "prompts"]
    spec = PromptSpec(
        name="p", version="1.0.0", system_prompt=str(values["system_prompt"]), user_prompt=str(values["user_prompt"])
    )
    for metadata, user in (
        ({"doc_class": "id", "question_type": "name"}, "Give {% it %}."),
        ({"doc_class": "id", "question_type": "total"}, "Total?"),
        ({"doc_class": "id"}, "Who?"),
    ):
        prompt = render(spec, question="Who?", metadata=metadata)
        assert (prompt.system, prompt.user) == ("Read {{ this }}.", user)


def test_a_collection_that_gives_the_same_prompts_stays_one_and_is_pinned(shipped: Catalogue, tmp_path: Path) -> None:
    config = project(tmp_path, "Snils;VQA;simulated;simulated;;prompts.csv;anls;;;;\n")
    content = 'prompt;doc_class_question_type\nWhose?;id name\n"Total; in all?";id total\n'
    (tmp_path / "prompts.csv").write_text(content, encoding="utf-8-sig")
    plan = compile_legacy(Shelf(root=tmp_path / "own", catalogue=shipped), config)
    [values] = [entry.values for entry in plan.entries if entry.kind == "prompts"]
    entry = PromptEntry.model_validate({"name": "p", **values})
    spec = templates_of(shipped, "document-qa", entry)
    assert spec.collection is not None
    assert spec.collection.sha256 == hashlib.sha256((tmp_path / "prompts.csv").read_bytes()).hexdigest()
    for metadata, user in (
        ({"doc_class": "id", "question_type": "name"}, "Whose?"),
        ({"doc_class": "id", "question_type": "total"}, "Total; in all?"),
        ({"doc_class": "id", "question_type": "other"}, "Who?"),
        ({"doc_class": "id"}, "Who?"),
        ({}, "Who?"),
    ):
        assert render(spec, question="Who?", metadata=metadata).user == user


@pytest.mark.parametrize("row", ["Total?;id", "Total?;default", "Give {{ it }}.;id name"])
def test_a_collection_that_would_give_other_prompts_becomes_a_template(
    shipped: Catalogue, tmp_path: Path, row: str
) -> None:
    config = project(tmp_path, "Snils;VQA;simulated;simulated;;prompts.csv;anls;;;;\n")
    (tmp_path / "prompts.csv").write_text(f"prompt;doc_class_question_type\nWhose?;id age\n{row}\n")
    plan = compile_legacy(Shelf(root=tmp_path / "own", catalogue=shipped), config)
    [values] = [entry.values for entry in plan.entries if entry.kind == "prompts"]
    assert "collection" not in values
    spec = PromptSpec(name="p", version="1.0.0", user_prompt=str(values["user_prompt"]))
    age = {"doc_class": "id", "question_type": "age"}
    assert render(spec, question="Who?", metadata=age).user == "Whose?"
    assert render(spec, question="Who?", metadata={"doc_class": "id", "question_type": "x"}).user == "Who?"


def test_everything_that_is_wrong_is_named_at_once_with_the_nearest(shipped: Catalogue, tmp_path: Path) -> None:
    config = project(
        tmp_path,
        "Snil;VQA;vLLM;Qwen/Qwen2.5-VL-3B-Instruct;;;['anl'];False;;;\n"
        "Snils;;torch;simulated;no.txt;no.csv;['anls';True;['by_doc'];['id;\n",
    )
    assert problems(shipped, config) == [
        (2, "dataset"), (2, "metrics"), (2, "model_name"),
        *((3, name) for name in sorted((
            "filter_doc_class", "framework", "metrics", "metrics", "metrics_aggregators", "model_name",
            "only_evaluate_metrics", "prompt_collection", "system_prompt", "task",
        ))),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("header", "rows", "lines"),
    [
        (HEADER, "", [1]),
        (HEADER.replace(";", ","), "", [1, 1]),
        (HEADER.replace("dataset", "datasets"), "", [1, 1]),
        (HEADER, "Snils;VQA\n", [2]),
        (HEADER, 'Snils;"VQA\n', [2]),
        (HEADER, "Sni\0ls;VQA\n", [2]),
    ],
)
def test_a_malformed_table_is_named_by_its_line(
    shipped: Catalogue, tmp_path: Path, header: str, rows: str, lines: list[int]
) -> None:
    assert [line for line, _ in problems(shipped, project(tmp_path, rows, header=header))] == lines


def test_a_deprecated_column_is_read_with_a_warning(shipped: Catalogue, tmp_path: Path) -> None:
    header = HEADER.replace(";task;", ";ml_task;")
    config = project(tmp_path, "Snils;VQA;simulated;simulated;;;anls;;;;\n", header=header)
    plan = compile_legacy(Shelf(root=tmp_path / "own", catalogue=shipped), config)
    assert plan.warnings == (f"{config}:1: ml_task is the deprecated name of task. Write task.",)
