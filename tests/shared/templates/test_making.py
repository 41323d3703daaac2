"""Packages from templates: what is written, which names are refused, and that nothing is ever overwritten."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import tomllib
import yaml

from tests.support.wording import Wording
from vlmhyperbench.cli.main import main
from vlmhyperbench.errors import Conflict, InvalidInput
from vlmhyperbench.registry.schemas import KINDS as ENTRIES
from vlmhyperbench.templates.making import KINDS, MAX_NAME_CHARS, make_package

LONGEST = "a" * MAX_NAME_CHARS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["word-overlap", "word_overlap", "x1", LONGEST])
def test_a_package_has_code_tests_a_page_and_entries_by_its_name(tmp_path: Path, kind: str, name: str) -> None:
    made = make_package(kind, name, tmp_path / "new")
    module = name.replace("-", "_")
    assert (made.name, made.distribution) == (module, name.replace("_", "-"))
    expected = {"pyproject.toml", "README.md", f"{module}.py", f"tests/test_{module}.py", f"docs/{module}.md"}
    assert expected <= set(made.files)
    assert sorted(str(path.relative_to(made.folder)) for path in made.folder.rglob("*") if path.is_file()) == [
        *made.files
    ]
    project = tomllib.loads((made.folder / "pyproject.toml").read_text())["project"]
    assert project["name"] == made.distribution
    [points] = project["entry-points"].values()
    assert points == {module: made.class_path}
    tree = ast.parse((made.folder / f"{module}.py").read_text())
    assert made.class_path.partition(":")[2] in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_entries_of_a_package_are_valid_by_themselves(tmp_path: Path, kind: str) -> None:
    made = make_package(kind, "word-overlap", tmp_path / "new")
    files = sorted((made.folder / "registries").rglob("*.yaml"))
    assert files
    for file in files:
        ENTRIES[file.parent.name].model_validate(yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(
    "name",
    [
        *("", "Word", "word overlap", "../word", "/word", "word/overlap", "9words", "word--overlap", "-word", "wörter"),
        *("class", "json", "tests", "vlmhyperbench-words", "word\n", "word\0", "a" * (MAX_NAME_CHARS + 1), "$module"),
    ],
)
def test_a_name_that_no_module_and_no_distribution_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make_package("metric", name, tmp_path / "new")
    assert refused.value.code == "no_name"
    assert refused.value.cure
    assert not (tmp_path / "new").exists()


def test_a_name_that_an_installed_package_registers_is_refused(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(Conflict) as refused:
        make_package("metric", "token-f1", tmp_path / "new")
    assert refused.value.code == "name_taken"
    wording(str(refused.value))


def test_an_unknown_kind_is_refused_with_the_nearest(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(InvalidInput) as refused:
        make_package("metrics", "words", tmp_path / "new")
    assert refused.value.code == "no_template"
    wording(str(refused.value))


@pytest.mark.parametrize("is_file", [True, False])
def test_nothing_is_overwritten(tmp_path: Path, is_file: bool) -> None:
    folder = tmp_path / "new"
    if is_file:
        folder.write_text("mine")
    else:
        folder.mkdir()
        (folder / "pyproject.toml").write_text("mine")
    with pytest.raises(Conflict) as refused:
        make_package("metric", "words", folder)
    assert refused.value.code == "folder_taken"
    assert (folder if is_file else folder / "pyproject.toml").read_text() == "mine"


def test_the_command_makes_a_package_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "report", "score-sheet", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)["data"]
    assert made["folder"] == str(tmp_path / "score-sheet")
    assert made["class_path"] == "score_sheet:ScoreSheet"
    assert (tmp_path / "score-sheet" / "score_sheet.py").is_file()
    assert main(["new", "report", "score-sheet"]) == 3
