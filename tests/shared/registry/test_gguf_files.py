"""Two files of a folder of GGUF models become entries: what is there is added, what is not is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench.data.model_cache import ModelCache
from vlmhyperbench.data.registered_gguf import registered_status
from vlmhyperbench.folders import file_sha256
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.gguf_files import import_models, import_pipelines
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.pipelines import Found, blocked_by
from vlmhyperbench.registry.shelf import Shelf
from vlmhyperbench_tiny_doc_vlm import path

REGISTRIES = Path(__file__).parents[3] / "registries"
MODELS = """\
version: 1
models_directory: gguf
defaults: {n_ctx: 1024, temperature: 0.5, top_p: 0, max_tokens: 64}
models:
  reader:
    file: reader.gguf
    quantization: Q4_0
    description: Reads.
    parameters_b: 0.001
    pin: true
    roles: [reads]
    overrides: {n_ctx: 512, temperature: 0.1}
  cut: {file: cut.gguf}
  gone: {file: gone.gguf, required_for_base: true}
"""
PIPELINES = """\
version: 1
base_pipeline:
  execution_mode: sequential
  stages:
    - {id: read, type: single, model: {model: reader}, input_from: null, generation: {max_tokens: 8}}
pipelines:
  both:
    stages:
      - id: all
        type: multi
        models: [reader, {model: tiny-doc-vlm, weight: 2}]
        aggregation: {type: synthesis, synthesis_model: reader, seed: 3}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the two files and their models."""
    (tmp_path / "gguf").mkdir()
    shutil.copy(path("tiny-doc-vlm-q8_0.gguf", "0.2"), tmp_path / "gguf" / "reader.gguf")
    (tmp_path / "gguf" / "cut.gguf").write_bytes(b"no model")
    (tmp_path / "models.yaml").write_text(MODELS)
    (tmp_path / "pipeline.yaml").write_text(PIPELINES)
    return tmp_path


def shelf(folder: Path) -> Shelf:
    return Shelf(root=folder / "own", catalogue=read_catalogue([REGISTRIES, folder / "own"]))


def test_models_and_pipelines_become_entries(folder: Path) -> None:
    imported = import_models(shelf(folder), folder / "models.yaml")
    assert [added.name for added in imported.added] == ["reader"]
    assert sorted(imported.unusable) == ["cut", "gone"]
    assert imported.warnings == ["reader is Q8_0 by its header, not Q4_0.", "reader: no run uses roles yet."]
    assert [added.name for added in import_pipelines(shelf(folder), folder / "pipeline.yaml", folder / "models.yaml")]
    catalogue = shelf(folder).catalogue
    reader = catalogue.models["reader"]
    assert (reader.engine_params, reader.quantization, reader.parameter_count) == ({"n_ctx": 512}, "Q8_0", 1_000_000)
    assert reader.pin
    both = catalogue.pipelines["both"].stages[0]
    first, second = both.members
    assert both.generation is not None
    assert (both.generation.temperature, both.generation.top_p, both.generation.max_tokens) == (0.5, 0, 64)
    assert first.generation is not None
    assert (first.generation.temperature, second.generation, second.weight) == (0.1, None, 2.0)
    assert both.merger is not None
    assert both.merger.name == "reader"
    assert both.merger.generation is not None
    assert both.merger.generation.temperature == 0.1
    assert both.aggregation is not None
    assert dict(both.aggregation.params) == {"seed": 3}


@pytest.mark.parametrize("stated", ["Q8_0", "q8_0"])
def test_a_quantisation_of_the_same_family_is_no_reason_to_warn(folder: Path, stated: str) -> None:
    (folder / "models.yaml").write_text(MODELS.replace("Q4_0", stated).replace("    roles: [reads]\n", ""))
    assert import_models(shelf(folder), folder / "models.yaml").warnings == []


def test_weights_with_another_hash_than_the_stated_one_are_not_added(folder: Path) -> None:
    hashed = MODELS.replace("    quantization: Q4_0\n", f"    sha256: '{'0' * 64}'\n")
    (folder / "models.yaml").write_text(hashed)
    imported = import_models(shelf(folder), folder / "models.yaml")
    assert imported.added == []
    assert "reader.gguf has SHA-256 " in imported.unusable["reader"]
    right = file_sha256(folder / "gguf" / "reader.gguf")
    (folder / "models.yaml").write_text(hashed.replace("0" * 64, right))
    assert [added.name for added in import_models(shelf(folder), folder / "models.yaml").added] == ["reader"]


def test_the_base_pipeline_is_blocked_by_a_model_that_it_requires(folder: Path) -> None:
    import_models(shelf(folder), folder / "models.yaml")
    import_pipelines(shelf(folder), folder / "pipeline.yaml", folder / "models.yaml")
    catalogue = shelf(folder).catalogue
    (error,) = catalogue.broken["pipelines", "base"]
    assert (error.field, error.line is not None) == ("requires.0", True)
    (folder / "models.yaml").write_text(MODELS.replace("gone.gguf", "reader.gguf"))
    import_models(shelf(folder), folder / "models.yaml")
    catalogue_of_base = shelf(folder).catalogue
    base = catalogue_of_base.pipelines["base"]
    assert (base.requires, base.execution_mode) == (("gone",), "sequential")
    cache = ModelCache(folder / "cache", max_bytes=1)
    statuses = registered_status(catalogue_of_base, cache, {"gone", "reader"})
    assert {status.name: status.required_for_base for status in statuses} == {"gone": True, "reader": False}
    generation = base.stages[0].generation
    assert generation is not None
    assert (generation.temperature, generation.max_tokens) == (0.1, 8)
    found = Found(unusable={"gone": "it is missing"}, doubtful={})
    assert blocked_by(base, found, {}) == (["it requires gone: it is missing"], [], [])


def test_what_is_wrong_with_a_file_is_said_with_its_line(
    folder: Path, wording: Wording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    file = Path("models.yaml")
    file.write_text(MODELS.replace("n_ctx: 1024", "n_ctx: 10").replace("pin: true", "pinned: true"))
    with pytest.raises(RegistryErrors) as refused:
        import_models(shelf(folder), file)
    wording("\n".join(map(str, refused.value.errors)))
    with pytest.raises(RegistryErrors):
        import_models(shelf(folder), Path("nothing.yaml"))


def test_two_models_of_one_name_are_refused_with_the_line_of_the_second(folder: Path) -> None:
    (folder / "models.yaml").write_text(f"{MODELS}  reader: {{file: cut.gguf}}\n")
    with pytest.raises(RegistryErrors) as refused:
        import_models(shelf(folder), folder / "models.yaml")
    (error,) = refused.value.errors
    assert (error.line, "reader" in str(error)) == (len(MODELS.splitlines()) + 1, True)
    assert not shelf(folder).catalogue.models.keys() & {"reader", "cut", "gone"}
