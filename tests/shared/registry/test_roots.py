"""Several roots: later ones are laid over earlier ones, and what is wrong stops only what refers to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import Shelf, write
from vlmhyperbench.errors import NotFound
from vlmhyperbench.registry.catalogue import Catalogue
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.roots import builtin_locations, own_root, registry_roots


def lay(tmp_path: Path, own: dict[str, str]) -> Catalogue:
    """Read entries of one's own over the usual ones."""
    lower = write(tmp_path / "lower")
    for name, text in own.items():
        file = tmp_path / "own" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return read_catalogue([lower, tmp_path / "own"], plugins=Shelf())


def test_an_entry_of_a_later_root_stands_in_place_of_an_earlier_one(tmp_path: Path) -> None:
    catalogue = lay(tmp_path, {"prompts/p.yaml": "user_prompt: mine\n", "prompts/q.yaml": "user_prompt: new\n"})
    assert catalogue.errors == ()
    assert catalogue.prompts["p"].user_prompt == "mine"
    assert sorted(catalogue.prompts) == ["p", "q"]
    assert catalogue.origins["prompts", "p"] == (tmp_path / "lower", tmp_path / "own")
    assert catalogue.folder_of("prompts", "q") == tmp_path / "own"
    assert catalogue.folder_of("tasks", "t") == tmp_path / "lower"
    location = catalogue.location_of("prompts", "p")
    assert location is not None
    assert location.file == str(tmp_path / "own" / "prompts" / "p.yaml")


def test_relative_paths_start_at_the_root_of_their_entry(tmp_path: Path) -> None:
    catalogue = lay(tmp_path, {"datasets/d.yaml": "type: drawn\npath: data\n"})
    spec = resolve_run(catalogue, catalogue.runs["r"], plugins=Shelf())
    assert spec.dataset.path == str(tmp_path / "own" / "data")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("tasks/bad.yaml", "dataset: [\n"),
        ("tasks/bad.yaml", "dataset: d\nprompt: p\nmetrics: [none]\nreports: [html]\n"),
        ("tasks/bad.yml", "dataset: d\n"),
    ],
)
def test_what_is_wrong_stops_only_what_refers_to_it(tmp_path: Path, file: str, text: str) -> None:
    catalogue = lay(tmp_path, {file: text, "runs/it.yaml": "target: {model: m}\ntask: bad\n"})
    assert resolve_run(catalogue, catalogue.runs["r"], plugins=Shelf()).task == "t"
    assert set(catalogue.broken) == {("tasks", "bad")}
    assert [error.file for error in catalogue.errors] == [str(tmp_path / "own" / file)]
    with pytest.raises(RegistryErrors, match="tasks/bad"):
        catalogue.get("tasks", "bad")
    with pytest.raises(RegistryErrors) as refused:
        resolve_run(catalogue, catalogue.runs["it"], plugins=Shelf())
    assert [(error.field, file in error.message) for error in refused.value.errors] == [("task", True)]


def test_a_broken_entry_of_ones_own_does_not_give_way_to_the_one_that_it_stands_for(tmp_path: Path) -> None:
    catalogue = lay(tmp_path, {"models/m.yaml": "backend: engine\n"})
    assert "m" not in catalogue.models
    with pytest.raises(RegistryErrors):
        resolve_run(catalogue, catalogue.runs["r"], plugins=Shelf())


def test_a_right_entry_of_ones_own_takes_the_place_of_a_broken_one(tmp_path: Path) -> None:
    write(tmp_path / "lower", {"prompts/p.yaml": "user_prompt: [\n"})
    (tmp_path / "own" / "prompts").mkdir(parents=True)
    (tmp_path / "own" / "prompts" / "p.yaml").write_text("user_prompt: mine\n")
    catalogue = read_catalogue([tmp_path / "lower", tmp_path / "own"], plugins=Shelf())
    assert catalogue.prompts["p"].user_prompt == "mine"


def test_only_the_first_root_has_to_exist(tmp_path: Path) -> None:
    lower = write(tmp_path / "lower")
    assert read_catalogue([lower, tmp_path / "none"], plugins=Shelf()).roots == (lower,)
    with pytest.raises(NotFound):
        read_catalogue([tmp_path / "none", lower], plugins=Shelf())


def test_ones_own_folder_is_laid_over_the_named_or_the_shipped_one(tmp_path: Path) -> None:
    named = tmp_path / "named"
    named.mkdir()
    assert registry_roots(named, tmp_path) == (named, tmp_path / "registries")
    assert registry_roots(None, tmp_path)[0] in builtin_locations()
    own_root(tmp_path).mkdir()
    assert registry_roots(own_root(tmp_path), tmp_path) == (own_root(tmp_path),)
    with pytest.raises(NotFound) as refused:
        registry_roots(tmp_path / "none", tmp_path)
    assert refused.value.code == "no_registries"
