"""A package from outside the repository brings a metric, a dataset, a backend, a prompt and a report; a run uses all.

The package is what the guides for writers of plugins show, built and installed as its reader would: into a folder on
`PYTHONPATH`, its adapter allowed by a setting.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.guides import GUIDES, read_guide
from tests.support.stack import ROOT, running_stack
from vlmhyperbench.registry.schemas import RunEntry

SAMPLES = 12
ENTRY = {
    "target": {"model": "calculator"},
    "task": "small-sums",
    "prompt": "guided-3",
    "metrics": ["word_overlap", "exact_match"],
    "reports": ["markdown", "json", "scores"],
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Build the package in a folder of its own and install it into another."""
    uv = shutil.which("uv") or str(ROOT / ".venvs" / "tools" / "bin" / "uv")
    package, target = tmp_path_factory.mktemp("my-bench"), tmp_path_factory.mktemp("installed")
    lines = ""
    for name in GUIDES:
        guide = read_guide(name)
        (package / f"{guide.module}.py").write_text(guide.source)
        lines += guide.project_text
    (package / "pyproject.toml").write_text(lines)
    options = ("--offline", "--no-deps", "--no-build-isolation", "--no-config")
    subprocess.run(
        [uv, "pip", "install", "--quiet", *options, "--python", sys.executable, "--target", str(target), str(package)],
        check=True,
        cwd=package,
    )
    return target


@pytest.fixture(scope="module")
def stack(registries, installed):
    for name in GUIDES:
        for path, text in read_guide(name).files.items():
            (registries / Path(path).relative_to("registries")).write_text(text)
    settings = {"PYTHONPATH": str(installed), "VLMHB_ALLOWED_ADAPTERS": '["my-bench"]'}
    with running_stack(registries, **settings) as found:
        yield found


@pytest.fixture(scope="module")
def run(stack):
    found = stack.wait(stack.client.runs.create(RunEntry.model_validate(ENTRY)).id)
    assert (found.state, found.reason, found.done) == ("SUCCEEDED", None, SAMPLES), stack.logs()
    return found


@pytest.fixture(scope="module")
def files(stack, run):
    found = stack.client.artifacts(run_id=run.id).items
    return {file.name: stack.client.artifact_content(file.id).decode() for file in found if file.kind == "report"}


def test_the_five_plugins_of_the_package_stand_in_the_report(run, files):
    report = json.loads(files["report.json"])
    spec = report["runs"][str(run.id)]["spec"]
    package = {"distribution": "my-bench", "version": "1.0.0"}
    assert (spec["dataset"]["type"], spec["dataset"]["package"]) == ("sums", package)
    assert (spec["prompt"]["class_path"], spec["prompt"]["package"]) == ("guided", package)
    assert (spec["target"]["backend_class"], spec["target"]["adapter"]) == ("calculator", package)
    assert spec["metrics"][0]["package"] == package
    assert spec["reports"][-1]["package"] == package
    [row] = report["headline"]["rows"]
    assert {name: cell["value"] for name, cell in row["metrics"].items()} == {"word_overlap": 1.0, "exact_match": 1.0}


def test_the_reader_of_the_report_is_told_who_answered_and_what_was_asked(files):
    page = files["report.md"].replace("\u00a0", " ")
    assert "calculator 1.0.0" in page
    assert "guided, my-bench 1.0.0" in page


def test_the_plugin_wrote_its_report_beside_the_others(files):
    lines = [line.split("\t")[1:] for line in files["report.scores.tsv"].splitlines()]
    assert lines[0] == ["metric", "value", "n"]
    assert sorted(lines[1:]) == [["exact_match", "1.0", "12"], ["word_overlap", "1.0", "12"]]


def test_what_the_strategy_made_is_what_was_sent(stack, run):
    found = stack.client.results(run_id=run.id, limit=100).items
    assert {(result.text, result.references[0]) for result in found} == {(str(2 * n + 1),) * 2 for n in range(SAMPLES)}
    assert stack.query("SELECT count(*) FROM fact WHERE run_id = %s", run.id)[0][0] >= SAMPLES
