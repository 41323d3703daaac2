"""Where packages come from and whether a class is there: refused with a place and a cure, before anything runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.shared.registry.writing import errors_of
from vlmhyperbench.registry.plugins import InstalledPlugins
from vlmhyperbench.registry.schemas import PackageEntry
from vlmhyperbench.registry.validation import validate


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/a/b.git",
        "ssh://git@example.com:22/a.git",
        "git@example.com:a/b.git",
        "git://example.com/a.git",
        "file:///srv/git/a.git",
    ],
)
def test_git_addresses_that_only_fetch_are_taken(url: str) -> None:
    assert validate(PackageEntry, {"source": {"type": "git", "url": url, "ref": "v1.0"}})[1] == []


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c id",
        "ext::sh",
        "--upload-pack=touch /tmp/x",
        "-x",
        "",
        "fd::17",
        "http://example.com/a.git",
        "https://user:secret@example.com/a.git",
        "ssh://-oProxyCommand=id/x",
        "git@-oProxyCommand:x",
        "https://example.com/a b",
        "https://example.com/\n",
        "/srv/git/a.git",
    ],
)
def test_git_addresses_that_run_something_are_refused(url: str) -> None:
    found, [problem] = validate(PackageEntry, {"source": {"type": "git", "url": url, "ref": "v1.0"}})
    assert (found, problem.path, bool(problem.cure)) == (None, ("source", "url"), True)


@pytest.mark.parametrize("ref", ["--upload-pack=id", "-x", "", "a b", "a..b", "a\nb", "x.lock", "x" * 201])
def test_git_refs_that_read_as_options_are_refused(ref: str) -> None:
    source = {"type": "git", "url": "https://example.com/a.git", "ref": ref}
    found, [problem] = validate(PackageEntry, {"source": source})
    assert (found, problem.path, bool(problem.cure)) == (None, ("source", "ref"), True)


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"type": "pypi", "name": "a", "version": "--index-url=x"}, "version"),
        ({"type": "local", "path": "-rx"}, "path"),
    ],
)
def test_other_arguments_of_an_installer_are_no_options(source: dict[str, str], field: str) -> None:
    found, [problem] = validate(PackageEntry, {"source": source})
    assert (found, problem.path, bool(problem.cure)) == (None, ("source", field), True)


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        ("json:JSONDecoder", True),
        ("json.decoder:JSONDecoder", True),
        ("json.decoder.JSONDecoder", True),
        ("vlmhyperbench_text_metrics.anls:Anls", True),
        ("vlmhyperbench_text_metrics.anls:Nope", False),
        ("vlmhyperbench_text_metrics.nope:Anls", False),
        ("vlmhyperbench_nope.anls:Anls", False),
        ("json:Nope", False),
        ("a..b", False),
        ("../x", False),
        ("anls", True),
        ("nope", False),
    ],
)
def test_a_class_that_is_not_there_is_known_without_importing_it(path: str, *, is_there: bool) -> None:
    problem = InstalledPlugins().problem_with("metrics", path)
    assert (problem is None) == is_there
    assert problem is None or all(problem)


def test_looking_for_a_class_runs_nothing_of_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_that_kills.py").write_text("import os\nos._exit(9)\nclass Metric: ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins = InstalledPlugins()
    assert plugins.problem_with("metrics", "plugin_that_kills:Metric") is None
    assert plugins.problem_with("metrics", "plugin_that_kills:Other") is not None
    assert "plugin_that_kills" not in sys.modules


@pytest.mark.parametrize("metrics", ["[anls, anls]", "[anls, anls@paper]", "[anls@paper, 'anls:1.0.0']"])
def test_a_metric_that_is_named_twice_is_refused_at_its_place(tmp_path: Path, metrics: str) -> None:
    task = f"dataset: d\nprompt: p\nmetrics: {metrics}\nreports: [html]\n"
    [error] = errors_of(tmp_path, {"tasks/t.yaml": task})
    assert error.startswith("tasks/t.yaml:3: metrics.1: ")
    assert "anls@paper, " in error
