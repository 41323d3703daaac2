"""A backend that names a package is run from it: pinned by commit, content or version, in an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shared.registry.writing import Shelf, errors_of, load
from tests.support.wording import Wording
from vlmhyperbench.domain.environments import VirtualenvSpec
from vlmhyperbench.domain.packages import GitPackage, IndexPackage, LocalPackage
from vlmhyperbench.domain.specs import ModelTarget, RunSpec
from vlmhyperbench.folders import content_sha256
from vlmhyperbench.registry.errors import RegistryErrors
from vlmhyperbench.registry.resolution import resolve_run
from vlmhyperbench.registry.schemas import RunEntry

URL = "https://example.com/adapter.git"
FIRST, SECOND = "a" * 40, "b" * 40
MODEL = {"models/x.yaml": "backends: [apart]\n"}
BACKEND = "default_backend_class: theirs\ndefault_adapter_package: my-bench\n"


def git(commit: str | None = FIRST, more: str = "") -> str:
    pin = f", commit: {commit}" if commit is not None else ""
    return f"source: {{type: git, url: '{URL}', ref: main{pin}}}\n{more}"


def resolve(root: Path, package: str, backend: str = BACKEND, run_mode: str = "prod") -> tuple[RunSpec, ModelTarget]:
    files = {**MODEL, "packages/my-bench.yaml": package, "backends/apart.yaml": backend}
    entry = RunEntry.model_validate({"target": {"model": "x"}, "task": "t"})
    spec = resolve_run(load(root, files, run_mode), entry, plugins=Shelf())
    assert isinstance(spec.target, ModelTarget)
    return spec, spec.target


def test_the_adapter_of_a_package_is_not_looked_up_beside_the_platform(tmp_path: Path) -> None:
    _, target = resolve(tmp_path, git(more="extras: [engine]\n"))
    assert (target.backend_class, target.adapter, target.environment) == ("theirs", None, None)
    pinned = GitPackage(name="my-bench", extras=("engine",), url=URL, commit=FIRST)
    assert target.adapter_environment == VirtualenvSpec(packages=(pinned,))
    assert pinned.requirement == "my-bench[engine]"


def test_another_commit_is_another_target_and_how_it_is_fetched_is_not_part_of_the_code(tmp_path: Path) -> None:
    first, _ = resolve(tmp_path / "first", git())
    again, _ = resolve(tmp_path / "again", git())
    second, _ = resolve(tmp_path / "second", git(SECOND))
    assert first.target_digest == again.target_digest != second.target_digest


def test_the_engine_may_have_an_environment_beside_that_of_the_adapter(tmp_path: Path) -> None:
    environment = "environment: {virtualenv: {requirements: [engine==1.0]}}\n"
    _, target = resolve(tmp_path, git(), f"{BACKEND}{environment}")
    assert target.environment == VirtualenvSpec(requirements=("engine==1.0",))
    assert [package.name for package in target.packages] == ["my-bench"]


def test_adapter_and_engine_share_an_environment_that_holds_the_adapters_package(tmp_path: Path) -> None:
    environment = "environment: {virtualenv: {requirements: [engine==1.0], packages: [my-bench]}}\n"
    _, target = resolve(tmp_path, git(), f"{BACKEND}{environment}")
    pinned = GitPackage(name="my-bench", url=URL, commit=FIRST)
    assert target.environment is None
    assert target.adapter_environment == VirtualenvSpec(requirements=("engine==1.0",), packages=(pinned,))


def test_a_version_of_an_index_is_pinned_by_itself(tmp_path: Path) -> None:
    _, target = resolve(tmp_path, "source: {type: pypi, name: my-bench, version: 1.2.0}\n")
    assert target.packages == (IndexPackage(name="my-bench", version="1.2.0"),)


def test_a_branch_whose_commit_nobody_recorded_is_refused(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(RegistryErrors) as refused:
        resolve(tmp_path, git(None))
    wording(str(refused.value))


def test_a_folder_is_used_as_it_was_pinned_and_never_silently_otherwise(tmp_path: Path) -> None:
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter.py").write_text("VERSION = 1\n")
    sha256 = content_sha256(folder)
    entry = f"source: {{type: local, path: {folder}, sha256: {sha256}}}\n"
    _, target = resolve(tmp_path / "registries", entry)
    assert target.packages == (LocalPackage(name="my-bench", path=str(folder), sha256=sha256),)
    (folder / "adapter.py").write_text("VERSION = 2\n")
    with pytest.raises(RegistryErrors, match="has changed since the package 'my-bench' was pinned"):
        resolve(tmp_path / "registries", entry)
    _, target = resolve(tmp_path / "registries", f"source: {{type: local, path: {folder}}}\n", run_mode="dev")
    assert target.packages == (LocalPackage(name="my-bench", path=str(folder), sha256=content_sha256(folder)),)


@pytest.mark.parametrize(
    "files",
    [
        {"packages/my-bench.yaml": git(more="plugins: {backends: [other]}\n")},
        {"packages/my-bench.yaml": "source: {type: pypi, name: other, version: '1'}\n"},
        {"packages/my-bench.yaml": f"source: {{type: git, url: '{URL}', ref: main, subdirectory: ../x}}\n"},
        {"packages/my-bench.yaml": f"source: {{type: git, url: '{URL}', ref: main, commit: main}}\n"},
        {"packages/my-bench.yaml": git(more="extras: ['-r x']\n")},
        {"reports/x.yaml": "class_path: theirs\npackage: my-bench\n"},
        {"backends/y.yaml": "default_backend_class: engine\nenvironment: {virtualenv: {packages: [nobody]}}\n"},
    ],
)
def test_a_wrong_entry_is_refused_at_its_place(tmp_path: Path, files: dict[str, str], wording: Wording) -> None:
    known = {"packages/my-bench.yaml": git(), "backends/apart.yaml": BACKEND}
    wrong = errors_of(tmp_path, {**known, **files})
    assert wrong
    wording("\n".join(wrong))
