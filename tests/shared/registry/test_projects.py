"""A project folder: what it holds, that its run resolves, and that nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench.cli.main import main
from vlmhyperbench.cli.run import read_entry
from vlmhyperbench.errors import Conflict
from vlmhyperbench.registry.loading import read_catalogue
from vlmhyperbench.registry.projects import make_project
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.roots import registry_roots
from vlmhyperbench.registry.schemas import RunEntry
from vlmhyperbench_document_datasets.annotation_csv import AnnotationCsv
from vlmhyperbench_sdk.protocols import DatasetSource


def test_a_new_project_has_a_run_over_its_own_pages(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path / "mine"), "--json"]) == 0
    folder = tmp_path / "mine"
    catalogue = read_catalogue(registry_roots(None, folder))
    assert catalogue.errors == ()
    run = read_entry(folder / "vlmhb.yaml")
    assert isinstance(run, RunEntry)
    spec = resolve_run(catalogue, run)
    assert (spec.task, spec.dataset.name) == ("my-documents", "my-documents")
    assert spec.dataset.path is not None
    samples = list(AnnotationCsv(DatasetSource(path=Path(spec.dataset.path))))
    assert len(samples) == 12
    assert all(sample.images and sample.references for sample in samples)
    for file in (*folder.glob("registries/*/*.yaml"), folder / "vlmhb.yaml"):
        named = file.read_text().splitlines()[0].removeprefix("# yaml-language-server: $schema=")
        assert (file.parent / named).is_file()
    ignored = (folder / ".gitignore").read_text().splitlines()
    assert {"/postgres/", "/unpacked/", "/images/", "/held/", "/moves/"} <= {*ignored}


def test_a_folder_that_has_anything_of_a_project_is_left_alone(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "vlmhb.yaml").write_text("mine")
    with pytest.raises(Conflict) as refused:
        make_project(tmp_path, [])
    assert refused.value.code == "project_exists"
    assert [path.name for path in tmp_path.iterdir()] == ["vlmhb.yaml"]
    wording(str(refused.value).replace(str(tmp_path), "FOLDER"))
