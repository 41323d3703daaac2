"""Installed plugins: known without being imported, refused with the nearest name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wording import Wording
from vlmhyperbench.domain.specs import SourceRef
from vlmhyperbench.errors import PluginFailure, Unavailable
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench_sdk import discovery


def _problem(group: discovery.Group, name: str) -> str:
    """Return the message and the cure as one text."""
    problem = InstalledPlugins().problem_with(group, name)
    assert problem is not None
    return " ".join(problem)


def test_a_registered_name_knows_its_distribution() -> None:
    plugins = InstalledPlugins()
    assert plugins.problem_with("metrics", "anls") is None
    package = plugins.package_of("metrics", "anls")
    assert package is not None
    assert package.distribution == "vlmhyperbench-text-metrics"


def test_an_unknown_name_is_refused_with_the_nearest(wording: Wording) -> None:
    wording(_problem("datasets", "synthetic_document"))


def test_a_dotted_path_is_pinned_by_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lonely.py").write_text("class Metric: ...\n")
    (tmp_path / "housed").mkdir()
    for name, imports in (("__init__", ""), ("metric", "from housed import helper\n"), ("helper", "")):
        (tmp_path / "housed" / f"{name}.py").write_text(f"{imports}class Metric: ...\n")
    plugins = InstalledPlugins()
    alone, housed = plugins.pin("metrics", "lonely:Metric"), plugins.pin("prompts", "housed.metric:Metric")
    assert isinstance(alone, SourceRef)
    assert isinstance(housed, SourceRef)
    assert (alone.module, housed.module) == ("lonely", "housed.metric")
    assert plugins.pin("metrics", "lonely.Metric") == alone
    (tmp_path / "other.py").touch()
    assert plugins.pin("metrics", "lonely:Metric") == alone
    (tmp_path / "lonely.py").write_text("class Metric: pass\n")
    assert plugins.pin("metrics", "lonely:Metric") != alone
    (tmp_path / "housed" / "helper.py").write_text("WORDS = 3\n")
    assert plugins.pin("prompts", "housed.metric:Metric") != housed


def test_a_registered_name_and_our_own_code_are_pinned_by_their_versions() -> None:
    plugins = InstalledPlugins()
    assert plugins.pin("metrics", "anls") == plugins.package_of("metrics", "anls")
    assert plugins.pin("metrics", "vlmhyperbench.scoring.judge:Judge") is None
    assert plugins.pin("metrics", "sys.version") is None


def test_an_edited_class_that_the_process_does_not_know_yet_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "growing.py").write_text("class First: ...\n")
    assert InstalledPlugins().problem_with("metrics", "growing:Second") is not None
    (tmp_path / "growing.py").write_text("class First: ...\nclass Second: ...\n")
    assert InstalledPlugins().problem_with("metrics", "growing:Second") is None


def test_an_error_that_a_plugin_raises_on_purpose_keeps_its_class_and_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    raising = 'from vlmhyperbench_sdk.errors import Unavailable\nraise Unavailable("No fonts.", cure="Install them.")\n'
    (tmp_path / "needy.py").write_text(raising)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(Unavailable) as raised:
        discovery.load("datasets", "needy:Pages")
    assert raised.value.cure == "Install them."
    with pytest.raises(PluginFailure, match="broken:Pages"):
        discovery.load("datasets", "broken:Pages")


def test_a_dotted_path_needs_its_package_and_has_no_distribution(wording: Wording) -> None:
    plugins = InstalledPlugins()
    assert plugins.problem_with("metrics", "vlmhyperbench_text_metrics.anls:Anls") is None
    assert plugins.problem_with("metrics", "json.decoder.JSONDecoder") is None
    assert plugins.package_of("metrics", "json.decoder.JSONDecoder") is None
    wording(_problem("metrics", "no_such_package.module:Class"))
    assert plugins.problem_with("metrics", "../evil:Class") is not None


def test_the_built_in_reports_are_known(wording: Wording) -> None:
    plugins = InstalledPlugins()
    assert plugins.problem_with("reports", "html") is None
    assert plugins.package_of("reports", "html") is None
    wording(_problem("reports", "htm"))


def test_a_name_that_two_packages_register_is_refused(wording: Wording) -> None:
    code = """
import sys, pathlib, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
for name in ("one", "two"):
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n")
    (info / "entry_points.txt").write_text(f"[vlmhyperbench.metrics]\\nsame = {name}:Metric\\n")
sys.path.insert(0, str(folder))
from vlmhyperbench.registry.plugins import InstalledPlugins
print(*InstalledPlugins().problem_with("metrics", "same"))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    wording(out.strip())


def test_asking_imports_no_plugin() -> None:
    code = """
import sys
from vlmhyperbench.registry.plugins import InstalledPlugins
plugins = InstalledPlugins()
plugins.problem_with("metrics", "anls"), plugins.package_of("datasets", "synthetic_documents")
plugins.problem_with("metrics", "vlmhyperbench_text_metrics.anls:Anls")
print(*(name for name in sys.modules if name.startswith("vlmhyperbench_") and not name.startswith("vlmhyperbench_sdk")))
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not out.split()
