"""Code behind dotted paths: what its hash covers, and that an edit is refused or imported anew."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vlmhyperbench.domain.specs import MetricSpec
from vlmhyperbench.errors import Conflict
from vlmhyperbench.registry.plugins import InstalledPlugins, require_pinned
from vlmhyperbench.scoring.metrics import open_answering
from vlmhyperbench.sources import require_source, source_of
from vlmhyperbench_sdk import discovery

METRIC = """
from dataclasses import replace
from vlmhyperbench_text_metrics.exact_match import ExactMatch

class Pooled(ExactMatch):
    @property
    def description(self):
        return replace(super().description, aggregation="pooled")

    def combine(self, sums):
        return {worth}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the user's on the path; no test leaves its modules behind."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def write(file: Path, text: str) -> None:
    """Write a source file of another size than before: caches of bytecode know files by size and second."""
    file.parent.mkdir(exist_ok=True)
    size = file.stat().st_size if file.exists() else 0
    file.write_text(text + "#" * (size + 1))


@pytest.mark.parametrize("path", ["edited:Metric", "drawer.edited:Metric"])
def test_edited_code_is_refused_and_code_of_a_new_run_is_imported_anew(path: str, folder: Path) -> None:
    source = (folder / path.partition(":")[0].replace(".", "/")).with_suffix(".py")
    write(source, "class Metric:\n    worth = 1\n")
    first = InstalledPlugins().pin("metrics", path)
    require_pinned(first, "metric 'm'")
    assert discovery.load("metrics", path).worth == 1
    write(source, "class Metric:\n    worth = 2\n")
    with pytest.raises(Conflict) as refused:
        require_pinned(first, "metric 'm'")
    assert refused.value.code == "plugin_version"
    assert path.partition(":")[0] in refused.value.message
    require_source(InstalledPlugins().pin("metrics", path), "metric 'm'")
    assert discovery.load("metrics", path).worth == 2


@pytest.mark.parametrize(
    ("statement", "helper"),
    [
        ("import constants\nworth = constants.WORTH", "constants.py"),
        ("from constants import WORTH as worth", "constants.py"),
        ("from values.constants import WORTH as worth", "values/constants.py"),
        ("def late():\n    import constants", "constants.py"),
        ("import other", "other.py"),
    ],
)
def test_code_that_is_imported_from_the_same_folder_belongs_to_the_hash(
    statement: str, helper: str, folder: Path
) -> None:
    write(folder / "main.py", f"{statement}\nclass Metric: ...\n")
    write(folder / helper, "WORTH = 1\n")
    first = source_of("main")
    write(folder / "unrelated.py", "WORTH = 1\n")
    assert source_of("main") == first
    write(folder / helper, "WORTH = 2\n")
    assert source_of("main") != first


def test_an_edited_helper_is_imported_anew(folder: Path) -> None:
    write(folder / "package/__init__.py", "")
    write(folder / "package/main.py", "from .helper import WORTH\nclass Metric:\n    worth = WORTH\n")
    for worth in (1, 2):
        write(folder / "package/helper.py", f"WORTH = {worth}\n")
        require_source(source_of("package.main"), "metric 'm'")
        assert discovery.load("metrics", "package.main:Metric").worth == worth


def test_modules_that_two_plugins_share_are_imported_once(folder: Path) -> None:
    write(folder / "shared.py", "class Base: ...\n")
    for name in ("first", "second"):
        write(folder / f"{name}.py", "from shared import Base\nclass Metric(Base): ...\n")
        require_source(source_of(name), f"metric {name!r}")
    first, second = (discovery.load("metrics", f"{name}:Metric") for name in ("first", "second"))
    require_source(source_of("first"), "metric 'first'")
    assert first.__base__ is second.__base__
    assert discovery.load("metrics", "first:Metric") is first


def test_installed_code_is_hashed_as_one_package_and_never_imported_twice() -> None:
    assert source_of("json.decoder") is not None
    require_source(source_of("json.decoder"), "metric 'm'")
    assert sys.modules["json"] is json


def test_a_metric_that_was_edited_is_not_opened_for_a_report_of_its_old_code(folder: Path) -> None:
    def pinned() -> MetricSpec:
        package = InstalledPlugins().pin("metrics", "pooling:Pooled")
        return MetricSpec(
            name="pooling", class_path="pooling:Pooled", profile="v1", version="1.0.0", params={}, package=package
        )

    write(folder / "pooling.py", METRIC.format(worth=0.5))
    old = pinned()
    assert open_answering(old, on_invalid="exclude").combine({}) == 0.5
    write(folder / "pooling.py", METRIC.format(worth=0.25))
    with pytest.raises(Conflict):
        open_answering(old, on_invalid="exclude")
    assert open_answering(pinned(), on_invalid="exclude").combine({}) == 0.25
