"""Entries that commands write: what stands in them, and whose names they leave alone."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.shared.registry.writing import Shelf as Plugins
from tests.shared.registry.writing import write
from tests.support.gguf import part, vocabulary, whole
from vlmhyperbench.errors import Conflict, InvalidInput, NotFound
from vlmhyperbench.registry.adding import add_metric, dataset_entry, task_entry
from vlmhyperbench.registry.adding_models import add_model, pin_made
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.schemas import json_schema
from vlmhyperbench.registry.shelf import Shelf, slug_of

MODEL, OTHER = whole(), whole(content=b"other")


def read(tmp_path: Path) -> Catalogue:
    lower = tmp_path / "lower"
    if not lower.exists():
        metric = "class_path: {0}\nprofile: ocr\nversion: 1.0.0\n"
        metrics = {f"metrics/{name}.yaml": metric.format(name) for name in ("anls", "cer")}
        write(lower, {"prompts/document-qa.yaml": 'user_prompt: "{{ question }}"\n', **metrics})
    return read_catalogue([lower, tmp_path / "own"], plugins=Plugins())


def shelf(tmp_path: Path) -> Shelf:
    return Shelf(root=tmp_path / "own", catalogue=read(tmp_path))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    (tmp_path / "models" / "eyes").mkdir(parents=True)
    (tmp_path / "models" / "My Model.Q4.gguf").write_bytes(MODEL)
    (tmp_path / "models" / "eyes" / "mmproj.gguf").write_bytes(whole("clip"))
    return tmp_path / "models" / "My Model.Q4.gguf"


def test_a_model_s_files_are_registered_with_their_hashes(tmp_path: Path, weights: Path) -> None:
    added = add_model(shelf(tmp_path), weights, weights.parent / "eyes" / "mmproj.gguf", backend="engine")
    assert (added.kind, added.name, added.is_new) == ("models", "My-Model.Q4", True)
    entry = read(tmp_path).models[added.name]
    assert entry.path == str(weights.parent)
    assert entry.files == {"weights": "My Model.Q4.gguf", "mmproj": "eyes/mmproj.gguf"}
    assert entry.sha256["weights"] == hashlib.sha256(MODEL).hexdigest()


def test_a_file_that_has_changed_gets_its_new_hash_and_what_was_written_beside_stays(
    tmp_path: Path, weights: Path
) -> None:
    first = add_model(shelf(tmp_path), weights, None, backend="engine")
    assert add_model(shelf(tmp_path), weights, None, backend="engine").is_new is False
    first.file.write_text(first.file.read_text() + "engine_params: {n_ctx: 99}\n")
    weights.write_bytes(OTHER)
    assert add_model(shelf(tmp_path), weights, None, backend="engine").is_new
    entry = read(tmp_path).models[first.name]
    assert entry.engine_params == {"n_ctx": 99}
    assert entry.sha256["weights"] == hashlib.sha256(OTHER).hexdigest()


@pytest.mark.parametrize(("own", "licence"), [("", "mit"), ("license: apache-2.0\n", "apache-2.0")])
def test_what_a_recipe_makes_has_the_licence_of_its_source_unless_it_states_one(
    tmp_path: Path, weights: Path, own: str, licence: str
) -> None:
    source = add_model(shelf(tmp_path), weights, None, name="source", backend="engine")
    source.file.write_text(source.file.read_text() + "license: mit\n")
    made = f"backends: [engine]\nrecipe: {{source: source, quantize: Q8_0}}\n{own}"
    (source.file.parent / "made.yaml").write_text(made)
    pin_made(shelf(tmp_path), "made", {"weights": "a" * 64})
    entry = read(tmp_path).models["made"]
    assert (entry.license, entry.files) == (licence, {"weights": "weights.gguf"})


@pytest.mark.parametrize(
    ("weights_are", "projector_is", "code"),
    [
        (b"<html>", None, "no_gguf"),
        (MODEL[:-1], None, "no_gguf"),
        (MODEL, whole("clip")[:-1], "no_gguf"),
        (part(0, 2), None, "gguf_part"),
        (vocabulary(), None, "gguf_no_weights"),
        (whole("clip"), None, "wrong_role"),
        (MODEL, OTHER, "wrong_role"),
    ],
)
def test_what_is_no_whole_model_is_refused_before_it_is_hashed(
    tmp_path: Path, weights: Path, weights_are: bytes, projector_is: bytes | None, code: str
) -> None:
    weights.write_bytes(weights_are)
    projector = weights.parent / "eyes" / "mmproj.gguf"
    if projector_is is not None:
        projector.write_bytes(projector_is)
    with pytest.raises(InvalidInput) as refused:
        add_model(
            shelf(tmp_path), weights, projector if projector_is is not None else None, backend="engine", sha256="0" * 64
        )
    assert refused.value.code == code
    assert str(weights if projector_is is None else projector) in refused.value.message
    assert not (tmp_path / "own").exists()


def test_a_file_that_is_not_there_or_cannot_be_read_is_refused(tmp_path: Path, weights: Path) -> None:
    with pytest.raises(NotFound):
        add_model(shelf(tmp_path), tmp_path / "none.gguf", None)
    with pytest.raises(NotFound):
        add_model(shelf(tmp_path), weights.parent, None)


def test_names_that_are_taken_are_not_taken_over(tmp_path: Path, weights: Path) -> None:
    with pytest.raises(Conflict) as refused:
        add_model(shelf(tmp_path), weights, None, name="m")
    assert refused.value.code == "name_taken"
    add_model(shelf(tmp_path), weights, None, name="mine", backend="engine")
    other = weights.with_name("other.gguf")
    other.write_bytes(OTHER)
    with pytest.raises(Conflict):
        add_model(shelf(tmp_path), other, None, name="mine", backend="engine")


def test_a_csv_becomes_a_data_set_and_a_task(tmp_path: Path) -> None:
    csv = tmp_path / "mine.csv"
    csv.write_text("question,answer\n2+2?,4\n")
    entry = dataset_entry(csv)
    data, task = shelf(tmp_path).put([entry, task_entry(shelf(tmp_path), entry.name, ["cer"], prompt=None)])
    assert (data.name, task.name) == ("mine", "mine")
    text = task.file.read_text()
    assert "dataset: mine" in text
    assert "- cer" in text
    line, _, rest = data.file.read_text().partition("\n")
    assert rest == f"type: annotation_csv\npath: {csv}\n"
    schema = data.file.parent / line.removeprefix("# yaml-language-server: $schema=")
    assert json.loads(schema.read_text()) == json_schema("datasets")


@pytest.mark.parametrize(
    ("name", "entry", "kind"),
    [
        ("mine.jsonl", "mine", "table"),
        ("my.data.parquet", "my.data", "table"),
        ("mine.tar.gz", "mine", "table"),
        ("mine.v1/", "mine", "table"),
        ("old/annotation.csv", "old", "annotation_csv"),
        ("mine.json", None, None),
        ("mine.csv.zst", None, None),
    ],
)
def test_questions_are_read_by_what_they_are(tmp_path: Path, name: str, entry: str | None, kind: str | None) -> None:
    path = tmp_path / name
    if name.endswith("/"):
        path.mkdir()
    else:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    given = path.parent if path.name == "annotation.csv" else path
    if kind is None:
        with pytest.raises(InvalidInput):
            dataset_entry(given)
        return
    made = dataset_entry(given)
    assert (made.name, made.values) == (entry, {"type": kind, "path": str(given)})
    [added] = shelf(tmp_path).put([dataset_entry(given, split="test")])
    assert added.is_new
    assert shelf(tmp_path).put([dataset_entry(given)])[0].is_new is False
    with pytest.raises(Conflict):
        shelf(tmp_path).put([dataset_entry(given, split="train")])


def test_a_task_needs_a_metric_unless_there_is_one_already(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        task_entry(shelf(tmp_path), "d", [], name="new", prompt=None)
    own = tmp_path / "own" / "tasks"
    own.mkdir(parents=True)
    (own / "new.yaml").write_text("dataset: d\nprompt: p\nmetrics: [anls]\nreports: [html]\nscenarios: [single]\n")
    [same] = shelf(tmp_path).put([task_entry(shelf(tmp_path), "d", [], name="new", prompt=None)])
    assert same.is_new is False
    shelf(tmp_path).put([task_entry(shelf(tmp_path), "d", ["cer"], name="new", prompt="document-qa")])
    task = read(tmp_path).tasks["new"]
    assert (task.metrics, task.prompt, task.scenarios) == (("cer",), "document-qa", ("single",))


@pytest.mark.parametrize(
    ("metric", "prompt"), [("nope", None), ("cer@nope", None), ("nope@ocr:1.0.0", None), ("cer", "document-qs")]
)
def test_a_metric_or_a_prompt_that_there_is_not_makes_no_task(tmp_path: Path, metric: str, prompt: str | None) -> None:
    assert task_entry(shelf(tmp_path), "d", ["cer@ocr:1.0.0"], prompt="document-qa").name == "d"
    with pytest.raises((InvalidInput, NotFound)):
        task_entry(shelf(tmp_path), "d", ["cer", metric], prompt=prompt)


def test_entries_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("question,answer\n2+2?,4\n")
    entry = dataset_entry(tmp_path / "mine.csv")
    taken = tmp_path / "own" / "tasks" / "mine.yaml"
    taken.parent.mkdir(parents=True)
    taken.write_text("dataset: others\nprompt: document-qa\nmetrics: [anls]\n")
    with pytest.raises(Conflict):
        shelf(tmp_path).put([entry, task_entry(shelf(tmp_path), entry.name, ["cer"], prompt=None)])
    assert not (tmp_path / "own" / "datasets").exists()


def test_a_metric_is_registered_by_its_class(tmp_path: Path) -> None:
    added = add_metric(shelf(tmp_path), "anls", name="mine", profile="paper", version="2.0.0")
    entry = read(tmp_path).metrics["mine"]
    assert (entry.class_path, entry.profile, entry.version) == ("anls", "paper", "2.0.0")
    added.file.write_text("class_path: [\n")
    with pytest.raises(RegistryErrors):
        add_metric(shelf(tmp_path), "anls", name="mine", profile="paper", version="2.0.0")


def test_names_are_made_of_what_a_file_is_called() -> None:
    assert slug_of("Qwen2.5 VL (7B)") == "Qwen2.5-VL-7B"
    with pytest.raises(InvalidInput):
        slug_of("??")
